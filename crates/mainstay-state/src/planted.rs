//! Known bugs, for tests that show that their checker finds them. Compiled only with the feature `planted-bugs`.

use std::cell::Cell;

thread_local! {
    static BUG: Cell<Option<PlantedBug>> = const { Cell::new(None) };
}

/// A bug that breaks the isolation of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// A reader joins who has the key for itself.
    SharedJoinsExclusive,
    /// Locks are released when a commit is on its way, before its outcome is known.
    ReleaseBeforeCommit,
    /// Reads keep no lock.
    ForgetSharedLocks,
    /// Collections are shared beside those who have them alone.
    ShareWhatIsBarred,
}

/// Plants a bug into everything that runs on this thread, or takes it away.
pub fn plant(bug: Option<PlantedBug>) {
    BUG.set(bug);
}

pub(crate) fn is_planted(bug: PlantedBug) -> bool {
    BUG.get() == Some(bug)
}
