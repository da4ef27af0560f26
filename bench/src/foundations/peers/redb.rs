use std::path::Path;

use redb::{Database, Durability, TableDefinition};

use crate::foundations::payload;
use crate::load::Load;
use crate::outcome::Outcome;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");

/// Redb lets in one writer at a time; each transaction is durable by itself.
pub(in crate::foundations) fn commit(folder: &Path, load: Load) -> Outcome<f64> {
    let database = Database::create(folder.join("bench.redb"))?;
    load.on_threads(|writer, turn| {
        let mut transaction = database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        transaction.open_table(TABLE)?.insert(&payload::key(writer, turn)[..], &payload::value(writer, turn)[..])?;
        transaction.commit()?;
        Ok(())
    })
}
