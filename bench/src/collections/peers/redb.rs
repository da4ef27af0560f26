use std::path::Path;

use redb::{Database, Durability, ReadableTable as _, TableDefinition};

use super::on_threads;
use crate::collections::record;
use crate::load::Load;
use crate::outcome::Outcome;

const TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");

/// Redb lets in one writer at a time; each transaction is durable by itself.
pub(in crate::collections) fn change(folder: &Path, load: Load, keys: &[String]) -> Outcome<f64> {
    let database = Database::create(folder.join("bench.redb"))?;
    let fill = database.begin_write()?;
    for (number, key) in keys.iter().enumerate() {
        fill.open_table(TABLE)?.insert(key.as_str(), &record::plain(number)[..])?;
    }
    fill.commit()?;
    on_threads(load, keys, |key| {
        let mut transaction = database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            let mut table = transaction.open_table(TABLE)?;
            let mut value = table.get(key)?.ok_or("a record is gone")?.value().to_vec();
            record::change(&mut value);
            table.insert(key, &value[..])?;
        }
        transaction.commit()?;
        Ok(())
    })
}
