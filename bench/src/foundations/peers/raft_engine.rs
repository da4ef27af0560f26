use std::path::Path;

use protobuf::well_known_types::Any;
use raft_engine::{Config, Engine, LogBatch, MessageExt};

use crate::foundations::payload;
use crate::load::Load;
use crate::outcome::Outcome;

/// The bytes at the front of an entry that hold its index: raft-engine asks every entry for it.
const INDEX_BYTES: usize = 8;

/// Entries in a message type that protobuf brings along, so that nothing needs to be generated.
struct Entries;

impl MessageExt for Entries {
    type Entry = Any;

    fn index(entry: &Any) -> u64 {
        entry.value.first_chunk::<INDEX_BYTES>().map_or(0, |index| u64::from_le_bytes(*index))
    }
}

/// Raft-engine joins the writes of threads that come while another syncs.
pub(in crate::foundations) fn append(folder: &Path, load: Load) -> Outcome<f64> {
    let engine = Engine::open(Config { dir: folder.display().to_string(), ..Config::default() })?;
    load.on_threads(|writer, turn| {
        let mut value = payload::value(writer, turn);
        let index = turn + 1;
        value[..INDEX_BYTES].copy_from_slice(&index.to_le_bytes());
        let entry = Any { value: value.to_vec(), ..Any::default() };
        let mut batch = LogBatch::default();
        batch.add_entries::<Entries>(writer as u64 + 1, &[entry])?;
        engine.write(&mut batch, true)?;
        Ok(())
    })
}
