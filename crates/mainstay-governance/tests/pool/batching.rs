//! Batches in front of pools and owners.

use std::sync::Arc;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::batch::{BatchExecutor, BatchSettings, BatchWriter};
use mainstay_governance::owner::{Opening, OwnerRef, Resource, ResourceOwner};
use mainstay_governance::pool::ResourcePool;
use parking_lot::Mutex;
use tokio::time::sleep;

/// A table whose rows are inserted many at a time, and answered with their squares.
#[derive(Clone, Default)]
struct Table {
    batches: Arc<Mutex<Vec<Vec<u64>>>>,
}

impl Resource for Table {
    const NAME: &'static str = "table";
    type Handle = ();
    type Job = Vec<u64>;
    type Reply = Vec<u64>;

    async fn open(&self, _: &Opening) -> Result<()> {
        Ok(())
    }

    async fn run(&self, (): &mut (), rows: Vec<u64>) -> Result<Vec<u64>> {
        sleep(Duration::from_millis(5)).await;
        let squares = rows.iter().map(|row| row * row).collect();
        self.batches.lock().push(rows);
        Ok(squares)
    }
}

async fn submit_all(table: &Table, writer: impl BatchWriter<u64, u64>) {
    let settings = BatchSettings { in_flight_max: 3, ..BatchSettings::default() };
    let executor = BatchExecutor::start("rows", writer, settings).unwrap();
    let callers: Vec<_> = (0..500_u64)
        .map(|row| {
            let executor = executor.clone();
            tokio::spawn(async move { executor.submit(row).await })
        })
        .collect();
    for (row, caller) in (0..500_u64).zip(callers) {
        assert_eq!(caller.await.unwrap().unwrap(), row * row);
    }
    let batches = std::mem::take(&mut *table.batches.lock());
    let mut rows: Vec<u64> = batches.concat();
    rows.sort_unstable();
    assert_eq!(rows, (0..500).collect::<Vec<_>>());
    assert!(batches.len() < 50, "{} batches are not few", batches.len());
}

#[tokio::test]
async fn a_pool_and_an_owner_write_batches() {
    let table = Table::default();
    let provided = table.clone();
    let node = TestNode::start(move |node| {
        ResourcePool::<Table>::serve_provided(ResourceOwner::serve(node, provided.clone()))
    })
    .await
    .unwrap();
    submit_all(&table, ResourcePool::<Table>::open(&*node, "rows").await.unwrap()).await;
    submit_all(&table, node.actor::<OwnerRef<Table>>("rows").unwrap()).await;
}
