use std::sync::atomic::{AtomicU64, Ordering};

use mainstay_core::time::{self, Duration, Instant, WallTime};
use tokio::sync::Notify;

/// Wakes the one task of a partition that sleeps until the first of many moments, which are in the store.
pub(crate) struct Bell {
    /// The moment that the task sleeps for, in milliseconds; whatever is due before has to wake it.
    armed: AtomicU64,
    rung: Notify,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Self { armed: AtomicU64::new(u64::MAX), rung: Notify::new() }
    }

    /// Tells that something was committed that is due at this moment.
    pub(crate) fn due_at(&self, due: WallTime) {
        if due.as_millis() < self.armed.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    /// Lets ring whatever is due before a moment. To be called with the last of all moments before the store is looked
    /// at, so that what is committed meanwhile makes the task look again.
    pub(crate) fn arm(&self, moment: WallTime) {
        self.armed.store(moment.as_millis(), Ordering::SeqCst);
    }

    pub(crate) fn ring(&self) {
        // It is kept if the task does not sleep now.
        self.rung.notify_one();
    }

    /// Sleeps until it rings.
    pub(crate) async fn rung(&self) {
        self.rung.notified().await;
    }

    /// Sleeps until it rings or a moment has come, whatever the wall clock does.
    pub(crate) async fn rung_until(&self, moment: Instant) {
        // Either is a reason to look.
        let _ = time::timeout_at(moment, self.rung()).await;
    }

    /// Sleeps until it rings, the wall clock shows a time, or that clock may have been set, which it can be while the other one
    /// goes on. Where the system does not tell, it is looked at again after a while.
    pub(crate) async fn rung_or_due(&self, due: WallTime, look_again: Duration) {
        let left = due.saturating_duration_since(time::wall());
        tokio::select! {
            () = self.rung() => {}
            () = time::sleep(left) => {}
            () = time::wall_set(look_again) => {}
        }
    }
}
