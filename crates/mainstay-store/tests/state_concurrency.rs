//! What happens to a state store from several threads at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mainstay_core::ErrorKind;
use mainstay_store::disk::sim::SimDisk;
use mainstay_store::disk::{Disk, DiskFile, DiskLock, OpenMode};
use mainstay_store::state::{
    DiskStore, DiskStoreOptions, FaultyStore, KeyRange, Mark, MemoryStore, Order, StateStore, StoreCall, WriteBatch,
};
use parking_lot::{Condvar, Mutex};

/// What takes longer is never going to happen.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// A disk whose syncs wait while its gate is shut.
#[derive(Debug, Clone)]
struct GatedDisk {
    disk: SimDisk,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    shut: bool,
    waiting: bool,
}

impl Gate {
    fn shut(&self) {
        self.state.lock().shut = true;
    }

    fn open(&self) {
        self.state.lock().shut = false;
        self.changed.notify_all();
    }

    fn wait_for_a_sync(&self) {
        let mut state = self.state.lock();
        let waited = self.changed.wait_while_for(&mut state, |state| !state.waiting, WAIT_MAX);
        assert!(!waited.timed_out(), "there is never a sync");
    }

    fn pass(&self) {
        let mut state = self.state.lock();
        state.waiting = state.shut;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| state.shut);
        state.waiting = false;
    }
}

impl Disk for GatedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(GatedFile { file: self.disk.open(path, mode)?, gate: self.gate.clone() }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock(path)
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn DiskFile>,
    gate: Arc<Gate>,
}

impl DiskFile for GatedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync()
    }
}

fn mark(index: u64) -> Mark {
    Mark { index, ..Mark::default() }
}

fn put_all(store: &dyn StateStore, index: u64, keys: u32) {
    let mut batch = WriteBatch::new();
    for key in 0..keys {
        batch.put(&key.to_be_bytes(), &index.to_be_bytes());
    }
    store.apply(mark(index), &mut batch.iter()).unwrap();
}

#[test]
fn nothing_but_a_checkpoint_waits_for_a_checkpoint() {
    let gate = Arc::new(Gate::default());
    let disk = GatedDisk { disk: SimDisk::new(1), gate: gate.clone() };
    let store = DiskStore::open(Arc::new(disk), Path::new("/a.state"), DiskStoreOptions::default()).unwrap();
    put_all(&store, 1, 50);
    gate.shut();
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| store.checkpoint());
        gate.wait_for_a_sync();
        // The checkpoint waits in a sync; all else goes on. Were it not so, this would hang.
        put_all(&store, 2, 20);
        assert_eq!(store.get(&0_u32.to_be_bytes()).unwrap().as_deref(), Some(&2_u64.to_be_bytes()[..]));
        assert_eq!(store.get(&40_u32.to_be_bytes()).unwrap().as_deref(), Some(&1_u64.to_be_bytes()[..]));
        let snapshot = store.snapshot().unwrap();
        assert_eq!(snapshot.scan(KeyRange::all(), Order::Descending).unwrap().count(), 50);
        assert_eq!(snapshot.counts().unwrap().entries, 50);
        assert_eq!((store.mark(), store.checkpointed()), (mark(2), mark(0)));
        assert!(store.unsaved_bytes() > 70 * 12);
        gate.open();
        assert_eq!(checkpoint.join().unwrap().unwrap(), mark(1));
    });
    assert_eq!(store.checkpointed(), mark(1));
    assert_eq!(store.checkpoint().unwrap(), mark(2));
}

/// Each apply sets every key to its index, so a reader that sees two values has seen half of one.
fn readers_see_whole_batches(store: &dyn StateStore) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for index in 1..=400 {
                put_all(store, index, 30);
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let saved = store.checkpoint().unwrap();
                assert!(saved.index <= store.mark().index);
            }
        });
        for order in [Order::Ascending, Order::Descending] {
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    let snapshot = store.snapshot().unwrap();
                    let index = snapshot.mark().index;
                    let expected = if index == 0 { 0 } else { 30 };
                    let values: Vec<_> =
                        snapshot.scan(KeyRange::all(), order).unwrap().map(|entry| entry.unwrap().1).collect();
                    assert_eq!(values.len(), expected);
                    assert!(values.iter().all(|value| **value == index.to_be_bytes()[..]), "half of a batch");
                    assert_eq!(snapshot.counts().unwrap().entries, expected as u64);
                    let keys = [&3_u32.to_be_bytes()[..], &29_u32.to_be_bytes()[..]];
                    let both = store.multi_get(&keys).unwrap();
                    assert_eq!(both[0], both[1], "half of a batch");
                }
            });
        }
    });
    assert_eq!(store.mark(), mark(400));
}

#[test]
fn readers_of_memory_see_whole_batches() {
    readers_see_whole_batches(&MemoryStore::new());
}

#[test]
fn readers_of_disk_see_whole_batches() {
    let disk = Arc::new(SimDisk::new(1));
    readers_see_whole_batches(&DiskStore::open(disk, Path::new("/a.state"), DiskStoreOptions::default()).unwrap());
}

#[test]
fn a_faulty_store_fails_each_call_once_and_changes_nothing() {
    let store = FaultyStore::new(Arc::new(MemoryStore::new()));
    put_all(&store, 1, 3);
    let chunks: Vec<_> = store.snapshot().unwrap().export().unwrap().map(Result::unwrap).collect();
    let import = || {
        store.import().and_then(|mut import| {
            chunks.iter().try_for_each(|chunk| import.push(chunk))?;
            import.complete()?;
            import.finish()
        })
    };
    let call = |call: StoreCall| match call {
        StoreCall::Apply => store.apply(mark(2), &mut std::iter::empty()),
        StoreCall::Get => store.get(b"").map(drop),
        StoreCall::MultiGet => store.multi_get(&[b""]).map(drop),
        StoreCall::Snapshot => store.snapshot().map(drop),
        StoreCall::Scan | StoreCall::ScanNext => store.snapshot().and_then(|snapshot| {
            snapshot.scan(KeyRange::all(), Order::Ascending)?.try_for_each(|entry| entry.map(drop))
        }),
        StoreCall::Counts => store.snapshot().and_then(|snapshot| snapshot.counts()).map(drop),
        StoreCall::Export | StoreCall::ExportNext => {
            store.snapshot().and_then(|snapshot| snapshot.export()?.try_for_each(|chunk| chunk.map(drop)))
        }
        StoreCall::Checkpoint => store.checkpoint().map(drop),
        StoreCall::Import | StoreCall::ImportPush | StoreCall::ImportComplete | StoreCall::ImportFinish => {
            import().map(drop)
        }
    };
    for each in [
        StoreCall::Get,
        StoreCall::MultiGet,
        StoreCall::Snapshot,
        StoreCall::Scan,
        StoreCall::ScanNext,
        StoreCall::Counts,
        StoreCall::Export,
        StoreCall::ExportNext,
        StoreCall::Checkpoint,
        StoreCall::Import,
        StoreCall::ImportPush,
        StoreCall::ImportComplete,
        StoreCall::ImportFinish,
        StoreCall::Apply,
    ] {
        store.fail(each, 1, ErrorKind::StorageFull);
        assert_eq!(call(each).unwrap_err().kind(), ErrorKind::StorageFull, "{each:?}");
        assert_eq!(store.mark(), mark(1), "{each:?}");
        call(each).unwrap();
    }
    store.fail(StoreCall::Get, 1, ErrorKind::Retry);
    store.heal();
    store.get(b"").unwrap();
}
