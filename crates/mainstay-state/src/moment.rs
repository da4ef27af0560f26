use std::sync::OnceLock;

use mainstay_core::time::{self, WallTime};

use crate::entry::Entry;

/// The moment by which entries have expired or not for a transaction. There is one, so that what the transaction has seen stays
/// as it was, however long it takes; it is when the first who wanted to know asked.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    at: OnceLock<WallTime>,
}

impl Moment {
    pub(crate) fn get(&self) -> WallTime {
        *self.at.get_or_init(time::wall)
    }

    /// Whether an entry is there then.
    #[inline]
    pub(crate) fn is_live(&self, entry: &Entry) -> bool {
        // Most entries never expire, and then nobody asks what time it is.
        entry.expires().is_none_or(|at| at > self.get())
    }
}
