use std::path::Path;

use fjall::{KeyspaceCreateOptions, OptimisticTxDatabase, PersistMode, Readable as _};

use super::on_threads;
use crate::collections::record;
use crate::load::Load;
use crate::outcome::Outcome;

/// Fjall's transactions run beside each other and are checked for conflicts at their end. They are durable when its
/// journal is persisted, which covers what others committed before.
pub(in crate::collections) fn change(folder: &Path, load: Load, keys: &[String]) -> Outcome<f64> {
    let database = OptimisticTxDatabase::builder(folder).open()?;
    let records = database.keyspace("records", KeyspaceCreateOptions::default)?;
    for (number, key) in keys.iter().enumerate() {
        records.insert(key, record::plain(number))?;
    }
    database.persist(PersistMode::SyncData)?;
    on_threads(load, keys, |key| {
        loop {
            let mut transaction = database.write_tx()?;
            let mut value = transaction.get(&records, key)?.ok_or("a record is gone")?.to_vec();
            record::change(&mut value);
            transaction.insert(&records, key, value);
            if transaction.commit()?.is_ok() {
                break;
            }
        }
        database.persist(PersistMode::SyncData)?;
        Ok(())
    })
}
