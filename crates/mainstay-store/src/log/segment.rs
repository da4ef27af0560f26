//! The node log in segment files.
//!
//! The way of a batch: [`SegmentLog::submit`](NodeLog::submit) → `State::submit` (checks, finds room, writes it into
//! the open block, makes it visible) → the writer takes the block → `LogCore::write` → `LogCore::sync` →
//! `LogCore::complete` (calls back every batch that waits). Beside it the segment cleaner removes, moves and prepares segments.
//! `docs/internals/node-log.md` has the bytes and the argument why a crash loses nothing that was acknowledged.

mod activity;
mod block;
mod cache;
mod file;
mod format;
mod health;
mod index;
mod io_error;
mod options;
mod rebuild;
mod record;
mod recovery;
mod room;
mod segment_cleaner;
mod shared;
mod space;
mod state;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, RESTORE, Result};
use parking_lot::Mutex;

pub use activity::LogActivity;
use file::Segment;
use format::SegmentHeader;
pub use health::LogHealth;
use index::Index;
use io_error::io_error;
pub use options::{Driver, LogOptions, SyncDelay};
use recovery::Recovered;
use shared::LogCore;
use state::{Planned, State};

use super::{Done, GroupId, GroupView, LogBatch, NodeLog, Refused};
use crate::disk::{Disk, LockHolder, OpenMode};

/// The file that whoever has the folder open holds a lock on.
pub const LOCK_FILE: &str = "lock";

/// A durable log in a folder; clones are the same log.
///
/// When the last clone is dropped, what waits is made durable and the folder is free to be opened again.
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use mainstay_store::disk::RealDisk;
/// use mainstay_store::log::{GroupId, LogBatch, LogOptions, NodeLog, SegmentLog};
///
/// let dir = tempfile::tempdir().unwrap();
/// let options = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
/// let log = SegmentLog::open(Arc::new(RealDisk), dir.path(), options)?;
/// let mut batch = LogBatch::new();
/// batch.append(GroupId(1), 1, vec!["first".into()]).hard_state(GroupId(1), "term 1".into());
/// let (durable, wait) = mpsc::sync_channel(1);
/// // It is called by the log's writer, and must not panic: whoever waits may be gone.
/// log.submit(batch, Box::new(move |result| drop(durable.send(result))))?;
/// wait.recv().unwrap()?;
/// assert_eq!(log.read(GroupId(1), 1..2, usize::MAX)?, ["first"]);
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SegmentLog {
    handle: Arc<Handle>,
}

/// Dropped with the last clone.
#[derive(Debug)]
struct Handle {
    shared: Arc<LogCore>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SegmentLog {
    /// What it has done since it was opened.
    pub fn activity(&self) -> LogActivity {
        self.handle.shared.state.lock().activity.clone()
    }

    /// What is wrong with it, if anything is.
    pub fn health(&self) -> LogHealth {
        let shared = &self.handle.shared;
        LogHealth {
            failure: shared.state.lock().failure.clone(),
            low_space: shared.space.check(&shared.dir).err().map(|error| error.to_string()),
            free_bytes: shared.space.free_bytes(),
        }
    }

    /// Opens the log in a folder, which is created if need be and `options.mode` allows it, and finds what it holds.
    ///
    /// With [`Driver::Task`] it must be called inside of a runtime.
    ///
    /// # Errors
    /// `Conflict` while another process or handle has the folder open, or if there is a log and must not be; `NotFound` if
    /// there is none and must be; `Corrupt` with file and offset if something is damaged, `UnknownVersion` for files of
    /// another version, `StorageFull` if there is no room for a new segment, `Fatal` if the disk refuses.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions) -> Result<Self> {
        Self::open_with(disk, dir, options, start)
    }

    /// As [`open`](Self::open); `start` starts a thread of a name.
    fn open_with(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: LogOptions,
        start: impl Fn(Worker) -> Started,
    ) -> Result<Self> {
        options.check()?;
        if options.mode == OpenMode::Existing {
            disk.list(dir).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => no_log(dir),
                _ => io_error("list", dir, error),
            })?;
        } else {
            disk.create_dir_all(dir).map_err(|error| io_error("create", dir, error))?;
        }
        let lock = disk.lock(&dir.join(LOCK_FILE)).map_err(|error| match LockHolder::of(&error) {
            Some(holder) => Error::new(
                ErrorKind::Conflict,
                format!(
                    "node log folder {} is in use by {holder}: stop it first, or give each its own folder",
                    dir.display()
                ),
            ),
            None => io_error("lock", dir, error),
        })?;
        let recovered = match (recovery::recover(&*disk, dir, options.block_alignment)?, options.mode) {
            (Some(_), OpenMode::New) => {
                let there = format!("node log folder {} has a log already: choose another", dir.display());
                return Err(Error::new(ErrorKind::Conflict, there));
            }
            (Some(recovered), _) => recovered,
            (None, OpenMode::Existing) => return Err(no_log(dir)),
            (None, _) => begin(&*disk, dir, &options)?,
        };
        let spare = match &recovered.spare {
            Some(spare) => Arc::clone(spare),
            None => {
                let (number, len) = recovered.segments.last().map_or((1, 0), |last| (last.number, last.created_len()));
                let header = SegmentHeader::new(number + 1, options.length_after(len), options.block_alignment);
                create(&*disk, dir, header)?
            }
        };
        let driver = options.driver.clone();
        let state = State::new(recovered, spare);
        let shared = Arc::new(LogCore::new(disk, dir.to_path_buf(), options, state, lock));
        shared.look();
        // Made before the threads are started: if one cannot be, dropping it ends the others and frees the folder.
        let handle = Arc::new(Handle { shared: Arc::clone(&shared), threads: Mutex::default() });
        match driver {
            Driver::Thread => {
                for (name, run) in [
                    ("mainstay-log", writer::run_thread as fn(&LogCore)),
                    ("mainstay-log-cleaner", segment_cleaner::run_thread),
                ] {
                    let thread = start(Worker { name, shared: Arc::clone(&shared), run })?;
                    handle.threads.lock().push(thread);
                }
            }
            Driver::Task { sync_delay } => {
                drop(mainstay_core::task::spawn(writer::run_task(shared, sync_delay)));
            }
        }
        Ok(Self { handle })
    }
}

fn no_log(dir: &Path) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no node log in {}: {RESTORE}", dir.display()))
}

/// The first segment of a new log.
fn begin(disk: &dyn Disk, dir: &Path, options: &LogOptions) -> Result<Recovered> {
    let first = create(disk, dir, SegmentHeader::new(1, options.first_length(), options.block_alignment))?;
    if matches!(options.driver, Driver::Thread) {
        while first.fill_step(u64::MAX).map_err(|error| io_error("write to", &first.path, error))? {}
    }
    let end = first.start();
    Ok(Recovered { index: Index::default(), segments: vec![first], spare: None, end, next_lsn: 1 })
}

fn create(disk: &dyn Disk, dir: &Path, header: SegmentHeader) -> Result<Arc<Segment>> {
    let make = || {
        let segment = Segment::create(disk, dir, header)?;
        segment.file.sync()?;
        disk.sync_dir(dir)?;
        Ok(segment)
    };
    make().map(Arc::new).map_err(|error| io_error("create a segment in", dir, error))
}

/// What a thread of the log does.
struct Worker {
    name: &'static str,
    shared: Arc<LogCore>,
    run: fn(&LogCore),
}

type Started = Result<JoinHandle<()>>;

fn start(Worker { name, shared, run }: Worker) -> Started {
    thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared)).map_err(|error| {
        Error::fatal(format!("cannot start thread {name}: allow this process more")).with_source(error)
    })
}

impl NodeLog for SegmentLog {
    fn submit(&self, batch: LogBatch, done: Done) -> Result<(), Box<Refused>> {
        let shared = &self.handle.shared;
        let wakes = shared.state.lock().submit(batch, done, &shared.options, shared.new_spare())?;
        shared.wake(wakes);
        Ok(())
    }

    fn read(&self, group: GroupId, range: Range<u64>, bytes_max: usize) -> Result<Vec<Bytes>> {
        let planned = self.handle.shared.state.lock().plan_read(group, &range, bytes_max)?;
        let mut entries = Vec::with_capacity(planned.len());
        for planned in planned {
            match planned {
                Planned::Cached(bytes) => entries.push(bytes),
                Planned::Stored(segment, run) => entries.extend(segment.read(&run)?),
            }
        }
        Ok(entries)
    }

    fn lengths(&self, group: GroupId, range: Range<u64>) -> Result<Vec<u64>> {
        let state = self.handle.shared.state.lock();
        let Some(found) = state.index.groups.get(&group) else { return Ok(Vec::new()) };
        Ok(found.range(group, &range)?.map(|position| u64::from(position.len)).collect())
    }

    fn group(&self, group: GroupId) -> GroupView {
        self.handle.shared.state.lock().index.groups.get(&group).map(super::group::Group::view).unwrap_or_default()
    }

    fn check_space(&self) -> Result<()> {
        let shared = &self.handle.shared;
        shared.space.check(&shared.dir)
    }

    fn groups(&self) -> Vec<GroupId> {
        self.handle.shared.state.lock().index.groups.keys().copied().collect()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.work.notify_all();
        self.shared.keeping.notify_all();
        self.shared.task.notify_one();
        let threads = std::mem::take(&mut *self.threads.lock());
        if threads.iter().any(|running| running.thread().id() == thread::current().id()) {
            // The last clone was held by a callback. The threads end by themselves, and the folder is free then.
            return;
        }
        for running in threads {
            // A panic there was shown when it happened, and there is nobody left to tell.
            let _ = running.join();
        }
        writer::flush(&self.shared);
        self.shared.release_folder();
    }
}
