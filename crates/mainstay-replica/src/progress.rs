use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use mainstay_core::SequenceNumber;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::notify_wait::NotifyWait;

/// How far a replica has applied its log, for those who follow it.
///
/// To who applies it costs two accesses to memory as long as nobody follows. A follower arms its [wait](Progress::wait),
/// then looks at [`next`](Progress::next), and waits if there is nothing: who applies writes first and looks for followers
/// then, so that one of the two always sees the other.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The index after the last entry applied.
    next: AtomicU64,
    /// The first index from which on the log is what was applied here.
    floor: AtomicU64,
    followers: AtomicUsize,
    wake: Arc<Notify>,
    stopped: OnceLock<String>,
    /// The commits that were left out when their entries were applied: the newest, since this process started.
    refused: Mutex<BTreeSet<SequenceNumber>>,
}

/// How many commits that were left out are remembered. Each of them is a mistake of the application.
const REFUSED_MAX: usize = 1 << 16;

impl Progress {
    /// A state that has applied what is before `next`, and a log that holds nothing of before that was not applied to it.
    pub(crate) fn new(next: u64) -> Self {
        Self {
            next: AtomicU64::new(next),
            floor: AtomicU64::new(0),
            followers: AtomicUsize::new(0),
            wake: Arc::default(),
            stopped: OnceLock::new(),
            refused: Mutex::default(),
        }
    }

    /// All entries before `next` are applied.
    pub(crate) fn applied(&self, next: u64) {
        self.next.store(next, Ordering::SeqCst);
        if self.followers.load(Ordering::SeqCst) > 0 {
            self.wake.notify_waiters();
        }
    }

    /// The state is about to be replaced by one that has applied what is before `next`. The entries in between may not be in
    /// the log, or there may be others in their places, which were never committed.
    pub(crate) fn skips_to(&self, next: u64) {
        self.floor.store(next, Ordering::SeqCst);
    }

    /// Commits were left out. To be told before their entry counts as [applied](Progress::applied).
    pub(crate) fn refused(&self, commits: impl Iterator<Item = SequenceNumber>) {
        let mut refused = self.refused.lock();
        refused.extend(commits);
        while refused.len() > REFUSED_MAX {
            refused.pop_first();
        }
    }

    /// True if a commit was left out.
    pub(crate) fn is_refused(&self, commit: SequenceNumber) -> bool {
        self.refused.lock().contains(&commit)
    }

    /// Nothing is applied any more, and why.
    pub(crate) fn stop(&self, why: &str) {
        self.stopped.get_or_init(|| why.to_owned());
        self.wake.notify_waiters();
    }

    /// Why nothing is applied any more.
    pub(crate) fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// The index after the last entry applied. To be asked before [`floor`](Progress::floor), which is raised first.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    /// The first index from which on the log is what was applied here.
    pub(crate) fn floor(&self) -> u64 {
        self.floor.load(Ordering::SeqCst)
    }

    /// Counts a follower in; it calls [`leave`](Progress::leave) when it goes.
    pub(crate) fn enter(&self) {
        self.followers.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a follower out.
    pub(crate) fn leave(&self) {
        self.followers.fetch_sub(1, Ordering::SeqCst);
    }

    /// A wait for changes.
    pub(crate) fn wait(&self) -> NotifyWait {
        NotifyWait::new(self.wake.clone())
    }
}
