use std::path::Path;

use fjall::{Database, KeyspaceCreateOptions, PersistMode};

use crate::foundations::payload;
use crate::load::Load;
use crate::outcome::Outcome;

/// Fjall makes a write durable when its journal is persisted, which covers what others wrote before.
pub(in crate::foundations) fn commit(folder: &Path, load: Load) -> Outcome<f64> {
    let database = Database::builder(folder).open()?;
    let keyspace = database.keyspace("bench", KeyspaceCreateOptions::default)?;
    load.on_threads(|writer, turn| {
        keyspace.insert(payload::key(writer, turn), payload::value(writer, turn))?;
        database.persist(PersistMode::SyncData)?;
        Ok(())
    })
}
