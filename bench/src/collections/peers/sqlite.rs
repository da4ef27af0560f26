use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, TransactionBehavior};

use super::on_threads;
use crate::collections::record;
use crate::load::Load;
use crate::outcome::Outcome;

/// SQLite lets in one writer at a time. Threads that share a connection wait for each other without going to sleep and
/// trying again, as connections of their own would, and are faster by far.
pub(in crate::collections) fn change(folder: &Path, load: Load, keys: &[String]) -> Outcome<f64> {
    let mut connection = Connection::open(folder.join("bench.sqlite"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute("CREATE TABLE records (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID", ())?;
    let fill = connection.transaction()?;
    for (number, key) in keys.iter().enumerate() {
        fill.prepare_cached("INSERT INTO records VALUES (?1, ?2)")?.execute((key, record::plain(number)))?;
    }
    fill.commit()?;
    let connection = Mutex::new(connection);
    on_threads(load, keys, |key| {
        let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut select = transaction.prepare_cached("SELECT value FROM records WHERE key = ?1")?;
        let mut value: Vec<u8> = select.query_row((key,), |row| row.get(0))?;
        drop(select);
        record::change(&mut value);
        transaction.prepare_cached("UPDATE records SET value = ?2 WHERE key = ?1")?.execute((key, value))?;
        transaction.commit()?;
        Ok(())
    })
}
