use std::path::Path;

use rocksdb::{DB, Options, WriteOptions};

use crate::foundations::payload;
use crate::load::Load;
use crate::outcome::Outcome;

/// RocksDB joins the writes of threads that come while another syncs.
pub(in crate::foundations) fn commit(folder: &Path, load: Load) -> Outcome<f64> {
    let mut options = Options::default();
    options.create_if_missing(true);
    let database = DB::open(&options, folder)?;
    let mut durable = WriteOptions::default();
    durable.set_sync(true);
    load.on_threads(|writer, turn| {
        database.put_opt(payload::key(writer, turn), payload::value(writer, turn), &durable)?;
        Ok(())
    })
}
