use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// What a caller on another runtime knows of its call, which is a task of the node's: whether it stands in line. A task that is
/// given up is dropped a moment later, and until then its call must not begin.
#[derive(Default)]
pub(crate) struct Elsewhere {
    is_claimed: OnceLock<Arc<AtomicBool>>,
}

impl Elsewhere {
    /// The call stands in line, and begins by claiming this.
    pub(crate) fn queued(&self, is_claimed: &Arc<AtomicBool>) {
        // Once: a call that has stood in line does not come back.
        drop(self.is_claimed.set(is_claimed.clone()));
    }
}

/// A caller on another runtime, as long as it waits.
pub(crate) struct Waiting(pub(crate) Arc<Elsewhere>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(is_claimed) = self.0.is_claimed.get() {
            // What has begun goes on.
            is_claimed.store(true, Ordering::Release);
        }
    }
}
