//! Where a writer may block the thread that it runs on.

use mainstay::Result;
use tokio::runtime::{Handle, RuntimeFlavor};

tokio::task_local! {
    /// Whether whoever waits for this is answered even if the thread never comes back.
    static IS_WATCHED: bool;
}

/// Runs a write, in which [`may_block`] says what is said here.
pub(super) async fn watched<T>(is_watched: bool, write: impl Future<Output = T>) -> T {
    IS_WATCHED.scope(is_watched, write).await
}

/// True if what blocks may do so here: on a lane of an executor, which a [watchdog](super::watchdog) looks after, and on a
/// runtime that has other threads for the tasks of this one. To hand it to a thread of its own instead costs two
/// wake-ups for each batch, which may take as long as the disk does.
pub(crate) fn may_block() -> bool {
    let is_watched = IS_WATCHED.try_with(|is_watched| *is_watched).unwrap_or(false);
    is_watched && has_other_threads()
}

/// True on a runtime of several threads.
pub(super) fn has_other_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Blocks the thread for a while. Only where [`may_block`] says so.
pub(crate) fn block<O>(work: impl FnOnce() -> Result<O>) -> Result<O> {
    tokio::task::block_in_place(work)
}
