//! Callers before a batch executor, which writes through owners: actors on a node, as a program has it.

use std::path::Path;

use mainstay::prelude::*;
use mainstay_governance::batch::{BatchExecutor, BatchSettings, BatchWriter};
use mainstay_governance::owner::{OwnerRef, ResourceOwner};
use mainstay_governance::pool::{PoolSettings, ResourcePool};
use mainstay_governance::sink::csv::{CsvFolder, CsvSettings};
use mainstay_governance::sink::postgres::PostgresTable;

use super::callers::{Submit, Written, write};
use super::row::Event;
use super::{BATCH_ROWS_MAX, WAITING_ROWS_MAX};
use crate::load::Load;
use crate::outcome::Outcome;

impl Submit for BatchExecutor<Event> {
    async fn submit(&self, event: Event) -> Outcome<()> {
        Ok(BatchExecutor::submit(self, event).await?)
    }
}

/// Rows into a table, through a pool of so many connections, with as many batches at once.
pub(super) async fn postgres(folder: &Path, load: Load, database: &str, connections: u32) -> Outcome<Written> {
    let pool = PoolSettings { initial_size: connections, ..PoolSettings::default() };
    let table = PostgresTable::<Event>::new(database, "events")?.once_by(&["id"])?.with_pool_settings(pool);
    let node = ResourcePool::serve(Node::builder().isolated().data_dir(folder), table).start().await?;
    let pool = ResourcePool::<PostgresTable<Event>>::open(&node, "events").await?;
    let written = through(load, pool, connections as usize).await;
    node.stop().await;
    written
}

/// Rows into a file, through its owner.
pub(super) async fn csv(folder: &Path, load: Load, files: &Path) -> Outcome<Written> {
    let files = CsvFolder::<Event>::new(CsvSettings::in_folder(files));
    let node = ResourceOwner::serve(Node::builder().isolated().data_dir(folder), files).start().await?;
    let owner: OwnerRef<CsvFolder<Event>> = node.actor("events")?;
    let written = through(load, owner, 1).await;
    node.stop().await;
    written
}

async fn through(load: Load, writer: impl BatchWriter<Event>, batches_at_once: usize) -> Outcome<Written> {
    let settings = BatchSettings {
        items_max: BATCH_ROWS_MAX,
        waiting_items_max: WAITING_ROWS_MAX,
        in_flight_max: batches_at_once,
        ..BatchSettings::default()
    };
    let batch = BatchExecutor::start("events", writer, settings)?;
    let written = write(load, &batch).await?;
    batch.close().await;
    Ok(written)
}
