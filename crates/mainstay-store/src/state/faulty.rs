use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::{Counts, Export, Import, KeyRange, Mark, Order, Scan, StateSnapshot, StateStore, Write};

/// A store that fails when a test asks it to, and is the store it wraps otherwise.
///
/// A call that fails has done nothing.
///
/// ```
/// use std::sync::Arc;
/// use mainstay_core::ErrorKind;
/// use mainstay_store::state::{FaultyStore, MemoryStore, StateStore as _, StoreCall};
///
/// let store = FaultyStore::new(Arc::new(MemoryStore::new()));
/// store.fail(StoreCall::Checkpoint, 2, ErrorKind::StorageFull);
/// assert!(store.checkpoint().is_ok());
/// assert_eq!(store.checkpoint().unwrap_err().kind(), ErrorKind::StorageFull);
/// assert!(store.checkpoint().is_ok());
/// ```
#[derive(Debug, Clone)]
pub struct FaultyStore {
    store: Arc<dyn StateStore>,
    faults: Faults,
}

/// A call of a store, of its snapshots or of its imports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreCall {
    /// [`StateStore::apply`].
    Apply,
    /// [`StateStore::get`] and [`StateSnapshot::get`].
    Get,
    /// [`StateStore::multi_get`] and [`StateSnapshot::multi_get`].
    MultiGet,
    /// [`StateStore::snapshot`].
    Snapshot,
    /// [`StateSnapshot::scan`].
    Scan,
    /// Each entry of a scan.
    ScanNext,
    /// [`StateSnapshot::counts`].
    Counts,
    /// [`StateSnapshot::export`].
    Export,
    /// Each chunk of an export.
    ExportNext,
    /// [`StateStore::checkpoint`].
    Checkpoint,
    /// [`StateStore::import`].
    Import,
    /// [`Import::push`].
    ImportPush,
    /// [`Import::complete`].
    ImportComplete,
    /// [`Import::finish`].
    ImportFinish,
}

/// Faults that are armed, shared with snapshots, scans and imports.
#[derive(Debug, Clone, Default)]
struct Faults(Arc<Mutex<Vec<Armed>>>);

#[derive(Debug, Clone, Copy)]
struct Armed {
    call: StoreCall,
    /// How many such calls go well before.
    skip: u64,
    kind: ErrorKind,
}

impl FaultyStore {
    /// A store without faults.
    pub fn new(store: Arc<dyn StateStore>) -> Self {
        Self { store, faults: Faults::default() }
    }

    /// Makes the `nth` such call from now on fail, once; 1 is the next.
    pub fn fail(&self, call: StoreCall, nth: u64, kind: ErrorKind) {
        self.faults.0.lock().push(Armed { call, skip: nth.saturating_sub(1), kind });
    }

    /// Takes all faults back.
    pub fn heal(&self) {
        self.faults.0.lock().clear();
    }
}

impl Faults {
    fn check(&self, call: StoreCall) -> Result<()> {
        let mut armed = self.0.lock();
        let mut failing = None;
        for (at, fault) in armed.iter_mut().enumerate().filter(|(_, fault)| fault.call == call) {
            if fault.skip == 0 {
                failing.get_or_insert(at);
            } else {
                fault.skip -= 1;
            }
        }
        match failing {
            Some(at) => {
                let kind = armed.remove(at).kind;
                Err(Error::new(kind, format!("{call:?} of a faulty store failed as it was asked to")))
            }
            None => Ok(()),
        }
    }
}

impl StateStore for FaultyStore {
    fn apply(&self, mark: Mark, writes: &mut dyn Iterator<Item = Write<'_>>) -> Result<()> {
        self.faults.check(StoreCall::Apply)?;
        self.store.apply(mark, writes)
    }

    fn mark(&self) -> Mark {
        self.store.mark()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.faults.check(StoreCall::Get)?;
        self.store.get(key)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        self.faults.check(StoreCall::MultiGet)?;
        self.store.multi_get(keys)
    }

    fn snapshot(&self) -> Result<Arc<dyn StateSnapshot>> {
        self.faults.check(StoreCall::Snapshot)?;
        Ok(Arc::new(FaultySnapshot { snapshot: self.store.snapshot()?, faults: self.faults.clone() }))
    }

    fn checkpoint(&self) -> Result<Mark> {
        self.faults.check(StoreCall::Checkpoint)?;
        self.store.checkpoint()
    }

    fn checkpointed(&self) -> Mark {
        self.store.checkpointed()
    }

    fn checkpointed_counts(&self) -> Counts {
        self.store.checkpointed_counts()
    }

    fn unsaved_bytes(&self) -> u64 {
        self.store.unsaved_bytes()
    }

    fn import(&self) -> Result<Box<dyn Import>> {
        self.faults.check(StoreCall::Import)?;
        Ok(Box::new(FaultyImport { import: self.store.import()?, faults: self.faults.clone() }))
    }
}

#[derive(Debug)]
struct FaultySnapshot {
    snapshot: Arc<dyn StateSnapshot>,
    faults: Faults,
}

impl StateSnapshot for FaultySnapshot {
    fn mark(&self) -> Mark {
        self.snapshot.mark()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.faults.check(StoreCall::Get)?;
        self.snapshot.get(key)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        self.faults.check(StoreCall::MultiGet)?;
        self.snapshot.multi_get(keys)
    }

    fn scan(&self, range: KeyRange, order: Order) -> Result<Scan> {
        self.faults.check(StoreCall::Scan)?;
        let faults = self.faults.clone();
        let entries = self.snapshot.scan(range, order)?;
        Ok(Box::new(until_failure(entries, move || faults.check(StoreCall::ScanNext))))
    }

    fn counts(&self) -> Result<Counts> {
        self.faults.check(StoreCall::Counts)?;
        self.snapshot.counts()
    }

    fn export(&self) -> Result<Export> {
        self.faults.check(StoreCall::Export)?;
        let faults = self.faults.clone();
        let chunks = self.snapshot.export()?;
        Ok(Box::new(until_failure(chunks, move || faults.check(StoreCall::ExportNext))))
    }
}

/// The items up to the first failure and with it, as scans and exports of all stores end.
fn until_failure<T>(
    mut items: Box<dyn Iterator<Item = Result<T>> + Send>,
    check: impl Fn() -> Result<()> + Send,
) -> impl Iterator<Item = Result<T>> + Send {
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed {
            return None;
        }
        let item = items.next()?;
        let item = check().and(item);
        failed = item.is_err();
        Some(item)
    })
}

struct FaultyImport {
    import: Box<dyn Import>,
    faults: Faults,
}

impl Import for FaultyImport {
    fn push(&mut self, chunk: &[u8]) -> Result<()> {
        self.faults.check(StoreCall::ImportPush)?;
        self.import.push(chunk)
    }

    fn complete(&self) -> Result<Mark> {
        self.faults.check(StoreCall::ImportComplete)?;
        self.import.complete()
    }

    fn finish(self: Box<Self>) -> Result<Mark> {
        self.faults.check(StoreCall::ImportFinish)?;
        self.import.finish()
    }
}
