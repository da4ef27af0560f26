use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mainstay_core::Result;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::block::Block;
use super::file::Segment;
use super::format::SegmentHeader;
use super::io_error::{io_error, is_full, refusal, stopped};
use super::options::LogOptions;
use super::space::SpaceWatch;
use super::state::{State, Wakes};
use crate::disk::{Disk, DiskLock};
use crate::log::callback::call;

/// Which part of the room on the disk a new segment takes, unless that is less than the first one.
const FREE_SHARE: u64 = 16;

/// What the handles, the writer and the segment cleaner of a log share: the stages of a block's way to disk, each a plain
/// function, whoever drives them.
#[derive(Debug)]
pub(super) struct LogCore {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) options: LogOptions,
    pub(super) state: Mutex<State>,
    /// Wakes a writer thread.
    pub(super) work: Condvar,
    /// Wakes a writer task.
    pub(super) task: Notify,
    /// Wakes the segment cleaner.
    pub(super) keeping: Condvar,
    /// The block that a writer task has written and not synced yet.
    pub(super) unsynced: Mutex<Option<Block>>,
    /// The last segment whose successor is known to be durable.
    entered: AtomicU32,
    lock: Mutex<Option<Box<dyn DiskLock>>>,
    pub(super) space: SpaceWatch,
}

impl LogCore {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        options: LogOptions,
        state: State,
        lock: Box<dyn DiskLock>,
    ) -> Self {
        let entered = AtomicU32::new(state.active().number);
        Self {
            disk,
            dir,
            options,
            state: Mutex::new(state),
            work: Condvar::new(),
            task: Notify::new(),
            keeping: Condvar::new(),
            unsynced: Mutex::new(None),
            entered,
            lock: Mutex::new(Some(lock)),
            space: SpaceWatch::new(),
        }
    }

    /// Reserves a segment, for [`State::submit`].
    pub(super) fn new_spare(&self) -> impl FnOnce(u32, u64) -> Result<Segment> + '_ {
        |number, len| {
            let create = |len| {
                let header = SegmentHeader::new(number, len, self.options.block_alignment);
                Segment::create(&*self.disk, &self.dir, header)
            };
            // A disk without room for a segment that is twice as long may have room for one that is not.
            let smallest = self.options.first_length();
            // Nor does a log on a small disk take a large part of what is left ahead of its use.
            let share = self.space.free_bytes().map_or(len, |free| self.options.aligned(free / FREE_SHARE));
            let len = len.min(share.max(smallest));
            let created = create(len)
                .or_else(|error| if is_full(&error) && len > smallest { create(smallest) } else { Err(error) });
            created.map_err(|error| refusal("reserve a new segment in", &self.dir, error))
        }
    }

    /// Wakes whom a batch has given something to do.
    pub(super) fn wake(&self, wakes: Wakes) {
        if wakes.writer {
            self.work.notify_one();
            self.task.notify_one();
        }
        if wakes.cleaner {
            self.keeping.notify_one();
        }
    }

    /// First stage: writes a block.
    pub(super) fn write(&self, block: &Block) -> io::Result<()> {
        if self.entered.load(Ordering::Relaxed) != block.segment.number {
            self.enter(&block.segment)?;
        }
        block.write()
    }

    /// Second stage: makes it durable.
    pub(super) fn sync(&self, block: &Block) -> io::Result<()> {
        block.segment.file.sync()
    }

    /// Third stage: tells everybody.
    pub(super) fn complete(&self, block: Block, result: io::Result<()>) {
        match result {
            Ok(()) => {
                let keep = self.state.lock().finish_block(&block, &self.options, self.space.look_bytes());
                if keep {
                    self.keeping.notify_one();
                }
                for done in block.dones {
                    call(done, Ok(()));
                }
            }
            Err(error) => {
                let cause = describe(&io_error("write to", &block.segment.path, error));
                let others = {
                    let mut state = self.state.lock();
                    announce(state.failure.as_deref(), &cause);
                    state.fail(cause.clone())
                };
                self.keeping.notify_one();
                for done in block.dones.into_iter().chain(others) {
                    call(done, Err(stopped(&cause)));
                }
            }
        }
    }

    /// Makes the segment after this one durable before this one gets its first block: a log whose newest segment is
    /// not empty has lost a file.
    fn enter(&self, segment: &Segment) -> io::Result<()> {
        segment.stop_fill();
        let next = {
            let state = self.state.lock();
            state.segments.get(&(segment.number + 1)).map_or_else(|| Arc::clone(&state.spare), Arc::clone)
        };
        next.sync_header()?;
        self.disk.sync_dir(&self.dir)?;
        self.entered.store(segment.number, Ordering::Relaxed);
        Ok(())
    }

    /// Stops the log for a reason that no block has met. The writer tells those who wait, in their order.
    pub(super) fn fail(&self, error: &mainstay_core::Error) {
        {
            let mut state = self.state.lock();
            let cause = describe(error);
            announce(state.failure.as_deref(), &cause);
            state.failure.get_or_insert(cause);
        }
        self.work.notify_one();
        self.task.notify_one();
    }

    /// Tells those who wait that the log has failed, if it has.
    pub(super) fn is_failed(&self) -> bool {
        let (cause, dones) = {
            let mut state = self.state.lock();
            let Some(cause) = state.failure.clone() else { return false };
            (cause.clone(), state.fail(cause))
        };
        for done in dones {
            call(done, Err(stopped(&cause)));
        }
        true
    }

    /// Looks at how much room the disk has.
    pub(super) fn look(&self) {
        self.state.lock().looks();
        // For the next segment, which may be as short as the first, and one more for what is under way by then.
        let needed = 2 * self.options.first_length();
        self.space.look(&*self.disk, &self.dir, self.options.reserve_bytes, needed);
    }

    /// Lets others open the folder.
    pub(super) fn release_folder(&self) {
        drop(self.lock.lock().take());
    }
}

/// Says that the log stops, unless it has before.
fn announce(before: Option<&str>, cause: &str) {
    if before.is_none() {
        tracing::error!(
            cause,
            "the node log has stopped, and with it all persisted sets of this node: nothing is lost that was acknowledged; \
             mend the cause and restart the node"
        );
    }
}

fn describe(error: &mainstay_core::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error} ({source})"),
        None => error.to_string(),
    }
}
