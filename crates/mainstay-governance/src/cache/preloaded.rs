use mainstay::Error;
use serde::{Deserialize, Serialize};

/// What became of a [preload](crate::cache::SmartCache::preload).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[must_use = "keys that could not be loaded are told here alone"]
pub struct Preloaded {
    /// Keys whose values were loaded.
    pub loaded: u64,
    /// Keys that were in memory already, and good.
    pub known: u64,
    /// Keys that have no value.
    pub absent: u64,
    /// Keys that could not be loaded.
    pub failed: u64,
    /// Why the first of them could not be loaded.
    pub error: Option<String>,
    /// True if there were more keys than the cache has room for (`entries_max`): those were not looked at.
    pub is_cut: bool,
}

impl Preloaded {
    /// Counts one key: whether it has a value, or why that is not known.
    pub(super) fn note(&mut self, outcome: Result<bool, &Error>) {
        match outcome {
            Ok(true) => self.loaded += 1,
            Ok(false) => self.absent += 1,
            Err(error) => {
                self.failed += 1;
                self.error.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// Counts what became of other keys.
    pub(super) fn add(&mut self, other: Self) {
        self.loaded += other.loaded;
        self.known += other.known;
        self.absent += other.absent;
        self.failed += other.failed;
        self.error = self.error.take().or(other.error);
        self.is_cut |= other.is_cut;
    }
}
