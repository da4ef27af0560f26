use std::panic::{AssertUnwindSafe, catch_unwind};

use mainstay_core::Result;

use super::Done;

/// Calls somebody back. One that panics must not take the caller along, which all others wait for.
pub(super) fn call(done: Done, result: Result<()>) {
    if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
        tracing::error!("a callback of the node log has panicked; the log goes on");
    }
}
