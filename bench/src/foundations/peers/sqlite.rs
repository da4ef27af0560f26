use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use crate::foundations::payload;
use crate::load::Load;
use crate::outcome::Outcome;

/// SQLite lets in one writer at a time. Threads that share a connection wait for each other without going to sleep and
/// trying again, as connections of their own would, and are faster by far.
pub(in crate::foundations) fn commit(folder: &Path, load: Load) -> Outcome<f64> {
    let connection = Connection::open(folder.join("bench.sqlite"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute("CREATE TABLE bench (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID", ())?;
    let connection = Mutex::new(connection);
    load.on_threads(|writer, turn| {
        let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut insert = connection.prepare_cached("INSERT OR REPLACE INTO bench VALUES (?1, ?2)")?;
        insert.execute((payload::key(writer, turn), payload::value(writer, turn)))?;
        Ok(())
    })
}
