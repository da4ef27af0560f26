//! Known bugs, for simulations that show that their checkers find them. Compiled only with the feature `planted-bugs`.

use std::cell::Cell;

thread_local! {
    static READS_WITHOUT_LEASE: Cell<bool> = const { Cell::new(false) };
    static UNSETTLED: Cell<bool> = const { Cell::new(false) };
}

/// Lets every replica on this thread believe that its lease never ends.
pub fn serve_reads_without_lease(on: bool) {
    READS_WITHOUT_LEASE.set(on);
}

pub(crate) fn reads_without_lease() -> bool {
    READS_WITHOUT_LEASE.get()
}

/// Lets every leader on this thread become primary with proposals under way whose callers have been told that the outcome is
/// unknown.
pub fn serve_unsettled(on: bool) {
    UNSETTLED.set(on);
}

pub(crate) fn serves_unsettled() -> bool {
    UNSETTLED.get()
}
