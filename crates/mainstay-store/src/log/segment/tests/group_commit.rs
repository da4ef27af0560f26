//! Who waits at the same time shares a sync.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Condvar;

use super::faults::task_options;
use super::*;
use crate::disk::{DiskFile, DiskLock};

#[test]
fn those_who_wait_together_share_a_sync() {
    let disk = SimDisk::new(0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let log = SegmentLog::open(Arc::new(disk.clone()), Path::new(DIR), task_options()).unwrap();
        let before = disk.syncs();
        let (called, mut wait) = tokio::sync::mpsc::channel(100);
        for index in 0..50 {
            let called = called.clone();
            let mut batch = LogBatch::new();
            batch.append(A, index, vec![entry(index)]);
            log.submit(batch, Box::new(move |result| called.try_send(result).unwrap())).unwrap();
        }
        for _ in 0..50 {
            wait.recv().await.unwrap().unwrap();
        }
        assert_eq!(disk.syncs() - before, 1);
    });
}

/// A disk whose syncs of the first segment wait while its gate is closed.
#[derive(Debug)]
struct GatedDisk {
    disk: SimDisk,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
    /// How many syncs have come to the gate.
    syncs: AtomicU64,
}

impl Gate {
    fn pass(&self) {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let mut closed = self.closed.lock();
        while *closed {
            self.opened.wait(&mut closed);
        }
    }

    fn set_closed(&self, closed: bool) {
        *self.closed.lock() = closed;
        self.opened.notify_all();
    }

    fn await_syncs(&self, count: u64) {
        while self.syncs.load(Ordering::SeqCst) < count {
            thread::yield_now();
        }
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn DiskFile>,
    gate: Option<Arc<Gate>>,
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
        self.gate.iter().for_each(|gate| gate.pass());
        self.file.sync()
    }
}

impl Disk for GatedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let gate = (path == segment_path(1)).then(|| Arc::clone(&self.gate));
        Ok(Arc::new(GatedFile { file: self.disk.open(path, mode)?, gate }))
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

#[test]
fn threads_that_come_while_a_sync_runs_share_the_next() {
    const THREADS: u64 = 8;
    let disk = SimDisk::new(0);
    let gate = Arc::new(Gate::default());
    let gated = GatedDisk { disk: disk.clone(), gate: Arc::clone(&gate) };
    let options = LogOptions { segment_bytes: 1 << 20, ..small() };
    let log = SegmentLog::open(Arc::new(gated), Path::new(DIR), options).unwrap();
    for round in 0..5 {
        let before = gate.syncs.load(Ordering::SeqCst);
        gate.set_closed(true);
        thread::scope(|scope| {
            let append_one = |group| append(&log, GroupId(group), round..round + 1);
            scope.spawn(move || append_one(100));
            gate.await_syncs(before + 1);
            for group in 0..THREADS {
                scope.spawn(move || append_one(group));
            }
            // They have put in what they have when it can be seen, and none is done: the disk holds them up.
            while !(0..THREADS).all(|group| log.group(GroupId(group)).next == round + 1) {
                thread::yield_now();
            }
            assert_eq!(gate.syncs.load(Ordering::SeqCst), before + 1, "one sync at a time");
            gate.set_closed(false);
        });
        assert_eq!(gate.syncs.load(Ordering::SeqCst), before + 2, "{THREADS} appends and one before them");
    }
    drop(log);
    disk.crash();
    let log = SegmentLog::open(Arc::new(disk), Path::new(DIR), small()).unwrap();
    assert!((0..THREADS).all(|group| log.group(GroupId(group)).next == 5));
}
