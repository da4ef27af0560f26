//! What is outside of the system, under the hand of a test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mainstay::prelude::*;
use mainstay_governance::batch::durable::{DurableSettings, DurableWriter, Numbered};
use mainstay_governance::owner::{Fence, FenceLineage, Opening};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// A table with a unique column, which tells what came in, and can fail, refuse and stall.
#[derive(Clone)]
pub(crate) struct Ledger {
    table: Arc<Mutex<Table>>,
    /// A write ends when it has one of these, after its rows are in the table.
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) settings: DurableSettings,
    /// What an item counts for beside its text.
    pub(crate) overhead_bytes: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Table {
    highest: Fence,
    /// By what is unique.
    rows: BTreeMap<(FenceLineage, u64), String>,
    /// How many items each write had, whatever came of it.
    writes: Vec<usize>,
    fails: Option<ErrorKind>,
    /// How many writes have begun and not ended.
    stalled: usize,
}

impl Ledger {
    pub(crate) fn new(settings: DurableSettings) -> Self {
        Self {
            table: Arc::default(),
            permits: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            settings,
            overhead_bytes: Arc::default(),
        }
    }

    /// One whose writes do not end before they have a permit.
    pub(crate) fn stalling(settings: DurableSettings) -> Self {
        Self { permits: Arc::new(Semaphore::new(0)), ..Self::new(settings) }
    }

    /// What is in the table, in the order of the numbers.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.table.lock().rows.values().cloned().collect()
    }

    pub(crate) fn writes(&self) -> Vec<usize> {
        self.table.lock().writes.clone()
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.table.lock().stalled > 0
    }

    /// Makes every write fail like this, or none.
    pub(crate) fn fail(&self, kind: Option<ErrorKind>) {
        self.table.lock().fails = kind;
    }

    fn insert(&self, fence: Fence, items: &[Numbered<String>]) -> Result<()> {
        let mut table = self.table.lock();
        table.writes.push(items.len());
        fence.admit(&mut table.highest)?;
        if let Some(kind) = table.fails {
            return Err(Error::new(kind, "the table is away"));
        }
        if items.iter().any(|numbered| numbered.item.contains("poison")) {
            return Err(Error::invalid("there is poison in it"));
        }
        for Numbered { lineage, number, item } in items {
            let before = table.rows.insert((*lineage, *number), item.to_string());
            assert!(before.is_none_or(|before| before == **item), "number {number} was given to two items");
        }
        Ok(())
    }
}

/// Counts a write that has begun, until it ends in whatever way.
struct Stalled(Arc<Mutex<Table>>);

impl Drop for Stalled {
    fn drop(&mut self) {
        self.0.lock().stalled -= 1;
    }
}

impl DurableWriter for Ledger {
    const NAME: &'static str = "ledger";
    type Item = String;
    type Handle = Fence;
    type Mark = ();

    async fn open(&self, opening: &Opening) -> Result<Fence> {
        opening.fence.raise(&mut self.table.lock().highest)?;
        Ok(opening.fence)
    }

    async fn begin(&self, _: &mut Fence) -> Result<()> {
        Ok(())
    }

    async fn write(&self, fence: &mut Fence, (): &(), items: &[Numbered<String>]) -> Result<()> {
        self.insert(*fence, items)?;
        self.table.lock().stalled += 1;
        let stalled = Stalled(self.table.clone());
        self.permits.acquire().await.unwrap().forget();
        drop(stalled);
        Ok(())
    }

    fn size(&self, item: &String) -> usize {
        item.len() + self.overhead_bytes.load(Ordering::Relaxed)
    }

    fn settings(&self) -> DurableSettings {
        self.settings.clone()
    }
}
