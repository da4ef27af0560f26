use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mainstay_store::state::Mark;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How often, in bytes of log, the place is remembered that compaction may go back to.
const MILESTONE_BYTES: u64 = 256 << 10;

/// Keeps an eye on how much was logged and applied since the last checkpoint, and says when the next one is due.
#[derive(Debug)]
pub(crate) struct CheckpointScheduler {
    checkpoint_bytes: u64,
    unsaved: AtomicU64,
    due: AtomicBool,
    wake: Notify,
    /// Whether something is to be told that anything was applied.
    awaits_first: AtomicBool,
    first: Notify,
    saved: Notify,
    logged: Mutex<Logged>,
    announced: Mutex<Option<Mark>>,
}

#[derive(Debug, Default)]
struct Logged {
    total: u64,
    // Places in the log, each at least `MILESTONE_BYTES` after the one before.
    milestones: VecDeque<Milestone>,
}

#[derive(Debug, Clone, Copy)]
struct Milestone {
    index: u64,
    total: u64,
}

impl CheckpointScheduler {
    pub(crate) fn new(checkpoint_bytes: u64) -> Self {
        Self {
            checkpoint_bytes,
            unsaved: AtomicU64::new(0),
            due: AtomicBool::new(false),
            wake: Notify::new(),
            awaits_first: AtomicBool::new(false),
            first: Notify::new(),
            saved: Notify::new(),
            logged: Mutex::default(),
            announced: Mutex::default(),
        }
    }

    /// Entries of so many bytes, up to but not with this index, are in the log and applied. To be told in order, first of all
    /// what an earlier run has left: the log is cut by what is in it, however short each run is.
    pub(crate) fn logged(&self, index: u64, bytes: u64) {
        let mut logged = self.logged.lock();
        logged.total += bytes;
        let total = logged.total;
        if logged.milestones.back().is_none_or(|last| last.total + MILESTONE_BYTES <= total) {
            logged.milestones.push_back(Milestone { index, total });
        }
    }

    /// So many bytes are applied and not in a checkpoint.
    pub(crate) fn applied(&self, unsaved: u64) {
        self.unsaved.store(unsaved, Ordering::Relaxed);
        if unsaved >= self.checkpoint_bytes && !self.due.swap(true, Ordering::Relaxed) {
            self.wake.notify_one();
        }
        if self.awaits_first.load(Ordering::SeqCst) {
            self.first.notify_one();
        }
    }

    /// Waits until something is applied that no checkpoint has: as long as `is_saved` says that there is nothing, only
    /// [`applied`](Self::applied) ends the wait, so that an idle set costs no wake-up.
    pub(crate) async fn anything_unsaved(&self, is_saved: impl Fn() -> bool) {
        self.awaits_first.store(true, Ordering::SeqCst);
        // Looked at after that: what is applied from now on notifies, and what was applied before is seen.
        while is_saved() {
            self.first.notified().await;
        }
        self.awaits_first.store(false, Ordering::SeqCst);
    }

    /// The bytes that the next crash would have to replay from the log.
    pub(crate) fn unsaved(&self) -> u64 {
        self.unsaved.load(Ordering::Relaxed)
    }

    /// Waits until a checkpoint is due by size.
    pub(crate) async fn checkpoint_due(&self) {
        self.wake.notified().await;
    }

    /// A checkpoint was made; openraft is to hear of it.
    pub(crate) fn announce_checkpoint(&self, mark: Mark) {
        *self.announced.lock() = Some(mark);
    }

    /// The checkpoint that openraft has not heard of yet.
    pub(crate) fn take_checkpoint(&self) -> Option<Mark> {
        self.announced.lock().take()
    }

    /// A checkpoint was attempted; the next one may become due.
    pub(crate) fn checkpoint_done(&self, unsaved: u64) {
        self.due.store(false, Ordering::Relaxed);
        self.applied(unsaved);
        self.saved.notify_waiters();
    }

    /// Waits until no more than so many bytes are applied and not in a checkpoint.
    pub(crate) async fn unsaved_at_most(&self, bytes_max: u64) {
        loop {
            let mut saved = pin!(self.saved.notified());
            // Before it looks, so that no checkpoint can come in between.
            saved.as_mut().enable();
            if self.unsaved() <= bytes_max {
                return;
            }
            saved.await;
        }
    }

    /// How far the log may be cut if `keep_bytes` before `checkpoint` (an index) are to stay for those who lag behind.
    pub(crate) fn compactable(&self, checkpoint: u64, keep_bytes: u64) -> Option<u64> {
        let Logged { milestones, .. } = &*self.logged.lock();
        let last = |count: usize| milestones.get(count.checked_sub(1)?);
        let end = last(milestones.partition_point(|milestone| milestone.index <= checkpoint))?.total;
        let cut = last(milestones.partition_point(|milestone| milestone.total.saturating_add(keep_bytes) <= end))?;
        Some(cut.index.min(checkpoint))
    }

    /// The log will not be cut before this index any more.
    pub(crate) fn forget_before(&self, index: u64) {
        let mut logged = self.logged.lock();
        while logged.milestones.front().is_some_and(|first| first.index < index) {
            logged.milestones.pop_front();
        }
    }
}
