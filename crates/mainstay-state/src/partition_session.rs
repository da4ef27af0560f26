use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstay_core::{Error, ErrorKind, Level};
use mainstay_replica::{Claim, Partition};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The time in which a partition's state is kept in memory here: from when it is opened until it is closed, or until nobody
/// knows whether a commit has happened. What is in memory may be wrong then, even if the same primary goes on in the same
/// epoch, and whoever needs the state opens it again.
#[derive(Debug)]
pub(crate) struct PartitionSession {
    is_over: AtomicBool,
    /// Whether commits take time. On level none they do not, and are not counted; there the claim stays until nobody has a
    /// handle.
    counts: bool,
    inner: Mutex<Inner>,
    /// It is over, or the last commit on its way has ended since.
    changed: Notify,
}

#[derive(Debug)]
struct Inner {
    /// Two who keep locks of one partition would not know of each other's. Given back when it is over and nothing is on its
    /// way any more: the next one would not see it coming.
    claim: Option<Claim>,
    /// How many commits are on their way.
    commits: usize,
}

/// A commit on its way.
#[derive(Debug)]
pub(crate) struct Underway {
    /// Where it is counted.
    session: Option<Arc<PartitionSession>>,
}

impl PartitionSession {
    pub(crate) fn new(claim: Claim, level: Level) -> Arc<Self> {
        let inner = Mutex::new(Inner { claim: Some(claim), commits: 0 });
        let counts = level != Level::None;
        Arc::new(Self { is_over: AtomicBool::new(false), counts, inner, changed: Notify::new() })
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Begins a commit, which has to be kept until its outcome is known; `None` if this is over.
    pub(crate) fn begin_commit(self: &Arc<Self>) -> Option<Underway> {
        if !self.counts {
            return (!self.is_over()).then_some(Underway { session: None });
        }
        let mut inner = self.inner.lock();
        if self.is_over() {
            return None;
        }
        inner.commits += 1;
        Some(Underway { session: Some(self.clone()) })
    }

    /// Ends it: nothing is read or begins to be committed any more.
    pub(crate) fn end(&self) {
        let mut inner = self.inner.lock();
        self.is_over.store(true, Ordering::Release);
        if self.counts && inner.commits == 0 {
            inner.claim = None;
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Ends it if this is what became of a commit.
    pub(crate) fn end_if_unknown(&self, error: &Error) {
        if error.kind() == ErrorKind::OutcomeUnknown {
            self.end();
        }
    }

    /// Waits until it is over.
    pub(crate) async fn ended(&self) {
        self.until(|| self.is_over()).await;
    }

    /// Waits until it is over and nothing is on its way any more.
    pub(crate) async fn vacated(&self) {
        self.until(|| self.is_over() && self.inner.lock().commits == 0).await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            // Listens before it looks, so that nothing can change in between.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if is_so() {
                return;
            }
            changed.await;
        }
    }

    /// What whoever uses it is told when it is over.
    pub(crate) fn refusal(partition: &Partition) -> Error {
        Error::new(
            ErrorKind::NotPrimary { hint: partition.role_state().primary },
            format!(
                "what is known of partition {} here is out of date, or was closed, since it was opened: open it again",
                partition.id()
            ),
        )
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let Some(session) = &self.session else { return };
        let mut inner = session.inner.lock();
        inner.commits -= 1;
        let is_last = inner.commits == 0 && session.is_over();
        if is_last {
            inner.claim = None;
        }
        drop(inner);
        if is_last {
            session.changed.notify_waiters();
        }
    }
}
