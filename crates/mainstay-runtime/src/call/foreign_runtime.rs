use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The claim of a queued call whose caller is on another runtime. The call is a task of the node, which is dropped a moment
/// after the caller has given up: the claim keeps the call from starting in that moment.
#[derive(Default)]
pub(crate) struct ForeignCall {
    is_claimed: OnceLock<Arc<AtomicBool>>,
}

impl ForeignCall {
    /// Records the claim of the call when it is queued.
    pub(crate) fn queued(&self, is_claimed: &Arc<AtomicBool>) {
        // Set once: a call is queued at most once.
        drop(self.is_claimed.set(is_claimed.clone()));
    }
}

/// A caller on another runtime. Dropping it claims the call, so that the call does not start any more.
pub(crate) struct ForeignCaller(pub(crate) Arc<ForeignCall>);

impl Drop for ForeignCaller {
    fn drop(&mut self) {
        if let Some(is_claimed) = self.0.is_claimed.get() {
            // A call that has started already runs on.
            is_claimed.store(true, Ordering::Release);
        }
    }
}
