//! Readers of a disk store while its file fails, or is opened anew: each gets its own answer, and disturbs nobody else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use mainstay_core::{ErrorKind, Result};
use mainstay_store::disk::sim::{DiskOp, Fault, SimDisk};
use mainstay_store::disk::{Disk, DiskFile, DiskLock, OpenMode};
use mainstay_store::state::{
    DiskStore, DiskStoreOptions, KeyRange, Mark, Order, StateStore as _, Write, WriteBatch, refused,
};
use parking_lot::Mutex;

const PATH: &str = "/data/set-0.state";

/// A disk that calls a hook before files are opened, renamed, read and synced, with the offset of a read.
#[derive(Debug, Clone)]
struct HookedDisk {
    disk: SimDisk,
    hook: Hook,
}

#[derive(Clone, Default)]
struct Hook(Arc<Mutex<Option<Arc<OnCall>>>>);

type OnCall = dyn Fn(DiskOp, u64) + Send + Sync;

impl Hook {
    fn set(&self, on_call: impl Fn(DiskOp, u64) + Send + Sync + 'static) {
        *self.0.lock() = Some(Arc::new(on_call));
    }

    fn clear(&self) {
        *self.0.lock() = None;
    }

    fn call(&self, op: DiskOp, offset: u64) {
        let on_call = self.0.lock().clone();
        if let Some(on_call) = on_call {
            on_call(op, offset);
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl HookedDisk {
    fn new() -> Self {
        Self { disk: SimDisk::new(1), hook: Hook::default() }
    }

    /// A store that keeps nothing of its file in memory.
    fn store(&self) -> DiskStore {
        let options = DiskStoreOptions { cache_bytes_max: 0, ..DiskStoreOptions::default() };
        DiskStore::open(Arc::new(self.clone()), Path::new(PATH), options).unwrap()
    }

    /// Where in the file a key's value is: what a lookup reads last.
    fn place_of(&self, store: &DiskStore, key: &[u8]) -> u64 {
        let last = Arc::new(Mutex::new(0));
        let seen = last.clone();
        self.hook.set(move |op, offset| {
            if op == DiskOp::Read {
                *seen.lock() = offset;
            }
        });
        store.get(key).unwrap();
        self.hook.clear();
        *last.lock()
    }

    /// The next such call reports where it stands, and goes on when it is told to.
    fn stop_at(&self, op: DiskOp, offset: Option<u64>) -> (Receiver<()>, SyncSender<()>) {
        let (arrived, arrivals) = sync_channel(1);
        let (go_on, told) = sync_channel(1);
        let stop = Mutex::new(Some((arrived, told)));
        self.hook.set(move |called, at| {
            if called == op
                && offset.is_none_or(|offset| offset == at)
                && let Some((arrived, told)) = stop.lock().take()
            {
                arrived.send(()).unwrap();
                told.recv().unwrap();
            }
        });
        (arrivals, go_on)
    }
}

impl Disk for HookedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.hook.call(DiskOp::Open, 0);
        Ok(Arc::new(HookedFile { file: self.disk.open(path, mode)?, hook: self.hook.clone() }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.hook.call(DiskOp::Rename, 0);
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
struct HookedFile {
    file: Arc<dyn DiskFile>,
    hook: Hook,
}

impl DiskFile for HookedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.hook.call(DiskOp::Read, offset);
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
        self.hook.call(DiskOp::Sync, 0);
        self.file.sync()
    }
}

fn mark(index: u64) -> Mark {
    Mark { index, ..Mark::default() }
}

fn put(store: &DiskStore, index: u64, keys: std::ops::Range<u32>, len: usize) {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.put(&key.to_be_bytes(), &vec![index as u8; len]);
    }
    store.apply(mark(index), &mut batch.iter()).unwrap();
}

/// A batch that adds one to a counter.
fn increment(key: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.add(key, 1);
    batch
}

const DAMAGED: [u8; 4] = 100_u32.to_be_bytes();
const FAR: [u8; 4] = 1900_u32.to_be_bytes();

/// A store with 2,000 entries, of which one cannot be read and most can.
fn damaged_store(disk: &HookedDisk) -> DiskStore {
    let store = disk.store();
    put(&store, 1, 0..2000, 1000);
    store.checkpoint().unwrap();
    let place = disk.place_of(&store, &DAMAGED);
    drop(store);
    disk.disk.flip_bit(Path::new(PATH), place + 2000, 3).unwrap();
    let store = disk.store();
    assert_eq!(store.get(&DAMAGED).unwrap_err().kind(), ErrorKind::Corrupt);
    store.get(&FAR).unwrap();
    store
}

#[test]
fn a_checkpoint_succeeds_while_something_damaged_is_read() {
    let disk = HookedDisk::new();
    let store = damaged_store(&disk);
    let reader = store.clone();
    disk.hook.set(move |op, _| {
        if op == DiskOp::Sync {
            let error = reader.get(&DAMAGED).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            reader.get(&0_u32.to_be_bytes()).unwrap();
        }
    });
    for index in 2..5 {
        put(&store, index, 1900..1901, 10);
        assert_eq!(store.checkpoint().unwrap(), mark(index));
    }
    disk.hook.clear();
    drop(store);
    disk.disk.crash();
    assert_eq!(disk.store().get(&FAR).unwrap().unwrap(), vec![4; 10]);
}

#[test]
fn damage_stays_named_and_others_read_on() {
    let disk = HookedDisk::new();
    let store = damaged_store(&disk);
    let snapshot = store.snapshot().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let error = store.get(&DAMAGED).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    assert!(error.to_string().contains(PATH), "{error}");
                    store.get(&FAR).unwrap();
                }
            });
        }
        put(&store, 2, 1900..1901, 10);
        store.checkpoint().unwrap();
    });
    snapshot.get(&FAR).unwrap();
    let scanned: Result<Vec<_>> = snapshot.scan(KeyRange::all(), Order::Ascending).unwrap().collect();
    assert_eq!(scanned.unwrap_err().kind(), ErrorKind::Corrupt);
}

/// The writes of a batch, which tell when they are taken.
fn announced(batch: &WriteBatch, started: SyncSender<()>) -> impl Iterator<Item = Write<'_>> {
    batch.iter().inspect(move |_| started.send(()).unwrap())
}

fn apply_increment(store: &DiskStore, started: SyncSender<()>) -> Result<()> {
    store.apply(mark(4), &mut announced(&increment(b"counter"), started))
}

/// A disk that is full fails a checkpoint, which then opens the file anew: what reads meanwhile waits for that.
#[test]
fn a_counter_on_disk_is_added_to_while_a_failed_checkpoint_reopens_the_file() {
    let disk = HookedDisk::new();
    let store = disk.store();
    put(&store, 1, 0..2000, 1000);
    store.apply(mark(2), &mut increment(b"counter").iter()).unwrap();
    store.checkpoint().unwrap();
    put(&store, 3, 0..2000, 1000);
    disk.disk.inject(Fault::on(DiskOp::Write).path("set-0").kind(io::ErrorKind::StorageFull));
    let (arrivals, go_on) = disk.stop_at(DiskOp::Open, None);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| store.checkpoint());
        arrivals.recv().unwrap();
        let (started, starts) = sync_channel(2);
        let applied = scope.spawn({
            let started = started.clone();
            || apply_increment(&store, started)
        });
        let scanned = scope.spawn(|| {
            let scan = store.snapshot().unwrap().scan(KeyRange::all(), Order::Descending).unwrap();
            scan.collect::<Result<Vec<_>>>().unwrap().len()
        });
        let judged = scope.spawn(|| {
            let batch = increment(b"counter");
            let groups = std::iter::once((1, announced(&batch, started)));
            refused(&store, groups).map(|refused| refused.len())
        });
        starts.iter().take(2).for_each(drop);
        go_on.send(()).unwrap();
        applied.join().unwrap().unwrap();
        assert_eq!(scanned.join().unwrap(), 2001);
        assert_eq!(judged.join().unwrap().unwrap(), 0);
        assert_eq!(checkpoint.join().unwrap().unwrap_err().kind(), ErrorKind::StorageFull);
    });
    assert_eq!(store.get(b"counter").unwrap().unwrap(), 2_i64.to_le_bytes()[..]);
    assert_eq!(store.checkpoint().unwrap(), mark(4));
}

/// The commit took place although its last sync failed: the state before is gone, the current one is not.
#[test]
fn a_counter_on_disk_is_added_to_after_a_failed_checkpoint_that_took_place() {
    for nth in 1..=4 {
        let disk = HookedDisk::new();
        let store = disk.store();
        put(&store, 1, 0..2000, 1000);
        store.apply(mark(2), &mut increment(b"counter").iter()).unwrap();
        store.checkpoint().unwrap();
        put(&store, 3, 0..20, 1000);
        disk.disk.inject(Fault::on(DiskOp::Sync).path("set-0").nth(nth));
        let (arrivals, go_on) = disk.stop_at(DiskOp::Open, None);
        std::thread::scope(|scope| {
            let checkpoint = scope.spawn(|| store.checkpoint());
            arrivals.recv().unwrap();
            let (started, starts) = sync_channel(1);
            let applied = scope.spawn(|| apply_increment(&store, started));
            starts.recv().unwrap();
            go_on.send(()).unwrap();
            applied.join().unwrap().unwrap();
            checkpoint.join().unwrap().unwrap_err();
        });
        assert_eq!(store.get(b"counter").unwrap().unwrap(), 2_i64.to_le_bytes()[..], "sync {nth}");
    }
}

/// As before, and the file cannot be opened anew at once.
#[test]
fn a_counter_on_disk_is_added_to_once_the_file_can_be_opened_again() {
    for nth in 1..=4 {
        let disk = HookedDisk::new();
        let store = disk.store();
        put(&store, 1, 0..2000, 1000);
        store.apply(mark(2), &mut increment(b"counter").iter()).unwrap();
        store.checkpoint().unwrap();
        put(&store, 3, 0..20, 1000);
        disk.disk.inject(Fault::on(DiskOp::Sync).path("set-0").nth(nth));
        disk.disk.inject(Fault::on(DiskOp::Open).path("set-0"));
        store.checkpoint().unwrap_err();
        store.apply(mark(4), &mut increment(b"counter").iter()).unwrap();
        assert_eq!(store.checkpoint().unwrap(), mark(4), "sync {nth}");
        assert_eq!(store.get(b"counter").unwrap().unwrap(), 2_i64.to_le_bytes()[..], "sync {nth}");
        assert_eq!(store.snapshot().unwrap().counts().unwrap().entries, 2001, "sync {nth}");
    }
}

/// The end of an import holds off writers and applies; an apply may have to wait for a writer.
#[test]
fn an_import_and_an_apply_that_reads_do_not_wait_for_each_other() {
    let disk = HookedDisk::new();
    let store = disk.store();
    put(&store, 1, 0..2000, 1000);
    store.apply(mark(2), &mut increment(b"counter").iter()).unwrap();
    store.checkpoint().unwrap();
    put(&store, 3, 0..2000, 1000);
    // As it is now: an import does not go back.
    let chunks: Vec<_> = store.snapshot().unwrap().export().unwrap().map(Result::unwrap).collect();
    // The file is given up and cannot be opened anew for now: who reads next has to.
    disk.disk.inject(Fault::on(DiskOp::Write).path("set-0"));
    disk.disk.inject(Fault::on(DiskOp::Open).path("set-0"));
    store.checkpoint().unwrap_err();
    let mut import = store.import().unwrap();
    chunks.iter().for_each(|chunk| import.push(chunk).unwrap());
    let (arrivals, go_on) = disk.stop_at(DiskOp::Rename, None);
    std::thread::scope(|scope| {
        let finished = scope.spawn(|| import.finish());
        arrivals.recv().unwrap();
        let (started, starts) = sync_channel(1);
        let applied = scope.spawn(|| apply_increment(&store, started));
        starts.recv().unwrap();
        go_on.send(()).unwrap();
        assert_eq!(finished.join().unwrap().unwrap(), mark(3));
        applied.join().unwrap().unwrap();
    });
    assert_eq!(store.get(b"counter").unwrap().unwrap(), 2_i64.to_le_bytes()[..]);
}

#[test]
fn a_reader_goes_on_when_the_file_is_opened_anew_under_it() {
    for found in [None, Some(io::ErrorKind::InvalidData), Some(io::ErrorKind::Other)] {
        let disk = HookedDisk::new();
        let store = disk.store();
        put(&store, 1, 0..2000, 1000);
        store.checkpoint().unwrap();
        let place = disk.place_of(&store, &FAR);
        let snapshot = store.snapshot().unwrap();
        put(&store, 2, 0..2, 1000);
        disk.disk.inject(Fault::on(DiskOp::Write).path("set-0"));
        let (arrivals, go_on) = disk.stop_at(DiskOp::Read, Some(place));
        std::thread::scope(|scope| {
            let read = scope.spawn(|| snapshot.get(&FAR));
            arrivals.recv().unwrap();
            store.checkpoint().unwrap_err();
            // What is there now may be anything, and says nothing about the state that is read.
            if let Some(kind) = found {
                disk.disk.inject(Fault::on(DiskOp::Read).path("set-0").kind(kind));
            }
            go_on.send(()).unwrap();
            assert_eq!(read.join().unwrap().unwrap().unwrap(), vec![1; 1000], "{found:?}");
        });
    }
}
