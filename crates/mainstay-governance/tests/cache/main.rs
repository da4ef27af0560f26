//! Caches: reading through, refreshing ahead, and writing through and behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and its tasks and clock are tokio's"
)]

mod preloading;
mod reading;
mod refused;
mod stale;
mod writing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::cache::{self, CacheSettings, CacheSource, SmartCache};
use parking_lot::Mutex;

/// A table that is far away, and can be down.
#[derive(Clone, Default)]
struct Table {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    rows: BTreeMap<i64, String>,
    loads: u64,
    /// The sizes of the batches that were stored.
    batches: Vec<usize>,
    /// How many calls fail before one succeeds.
    failures: u64,
    /// How much longer an answer to a load takes.
    slow: Duration,
    /// How many calls panic first.
    panics: u64,
    /// What it never takes.
    poison: Option<i64>,
    /// Never answers a write.
    hangs: bool,
    /// The keys that it lists.
    hot: Vec<i64>,
    /// How many loads are under way, and the most that ever were.
    at_once: (u64, u64),
}

/// How long the table takes.
const LATENCY: Duration = Duration::from_millis(10);

/// So many failures that it is down.
const DOWN: u64 = u64::MAX;

impl Table {
    async fn arrive(&self) -> Result<()> {
        tokio::time::sleep(LATENCY).await;
        let mut inner = self.inner.lock();
        if inner.panics > 0 {
            inner.panics -= 1;
            drop(inner);
            panic!("the driver of the table is broken");
        }
        if inner.failures > 0 {
            inner.failures -= u64::from(inner.failures != DOWN);
            return Err(Error::new(ErrorKind::Retry, "the table is down"));
        }
        Ok(())
    }

    fn set(&self, key: i64, value: &str) {
        self.inner.lock().rows.insert(key, value.to_owned());
    }

    fn row(&self, key: i64) -> Option<String> {
        self.inner.lock().rows.get(&key).cloned()
    }

    fn loads(&self) -> u64 {
        self.inner.lock().loads
    }

    fn most_at_once(&self) -> u64 {
        self.inner.lock().at_once.1
    }

    fn fail(&self, failures: u64) {
        self.inner.lock().failures = failures;
    }
}

impl CacheSource for Table {
    const NAME: &'static str = "table";
    const SHARDS: u32 = 2;
    type Key = i64;
    type Value = String;

    async fn load(&self, key: &i64) -> Result<Option<String>> {
        // What is read is of when the request arrives; the answer takes as long again.
        let (found, slow) = {
            let mut inner = self.inner.lock();
            inner.loads += 1;
            inner.at_once.0 += 1;
            inner.at_once.1 = inner.at_once.1.max(inner.at_once.0);
            (inner.rows.get(key).cloned(), inner.slow)
        };
        let arrived = self.arrive().await;
        tokio::time::sleep(slow).await;
        self.inner.lock().at_once.0 -= 1;
        arrived.map(|()| found)
    }

    async fn hot_keys(&self) -> Result<Vec<i64>> {
        self.arrive().await?;
        Ok(self.inner.lock().hot.clone())
    }

    async fn store(&self, batch: &[(i64, Option<String>)]) -> Result<()> {
        self.arrive().await?;
        if self.inner.lock().hangs {
            return std::future::pending().await;
        }
        let mut inner = self.inner.lock();
        if let Some((key, _)) = batch.iter().find(|(key, _)| Some(*key) == inner.poison) {
            return Err(Error::invalid(format!("row {key} violates a constraint")));
        }
        inner.batches.push(batch.len());
        for (key, value) in batch {
            match value {
                Some(value) => inner.rows.insert(*key, value.clone()),
                None => inner.rows.remove(key),
            };
        }
        Ok(())
    }
}

async fn start(settings: CacheSettings) -> (TestNode, Table, SmartCache<Table>) {
    let table = Table::default();
    let source = table.clone();
    let node = TestNode::start(move |node| cache::serve(node, source.clone(), settings.clone())).await.unwrap();
    let cache = SmartCache::open(&*node).unwrap();
    (node, table, cache)
}

/// Waits until a value is being loaded. The shard is made first, which takes as long as its disk does.
async fn until_loading(node: &TestNode, table: &Table) {
    for _ in 0..100_000 {
        if table.loads() > 0 {
            return;
        }
        node.advance(LATENCY / 10).await;
    }
    panic!("nothing was ever loaded");
}

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}
