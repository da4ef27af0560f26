//! What callers know of their events, so that the next start can hold the system to its word.

use std::path::{Path, PathBuf};

use mainstay::prelude::*;

use crate::journal::{self, Recorded};

/// The files of it.
#[derive(Debug, Clone)]
pub struct RecordFiles {
    /// Events whose callers have had an answer. An event counts as acknowledged when its number is in this file.
    pub acknowledged: PathBuf,
    /// Events that a start has found in the files and not among those: their process had ended before their callers had an
    /// answer. Such an event may be there or not, and once it was found it has to stay.
    pub unacknowledged: PathBuf,
}

impl RecordFiles {
    /// Those of a folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self { acknowledged: folder.join("acknowledged.txt"), unacknowledged: folder.join("unacknowledged.txt") }
    }

    /// Reads both.
    ///
    /// # Errors
    /// As [`journal::read`].
    pub fn read(&self) -> Result<Records> {
        Ok(Records {
            acknowledged: journal::read(&self.acknowledged)?,
            unacknowledged: journal::read(&self.unacknowledged)?,
        })
    }
}

/// What is in the files: no event is in both.
#[derive(Debug, Default)]
pub struct Records {
    /// The events that were acknowledged.
    pub acknowledged: Recorded,
    /// Those that are there without that.
    pub unacknowledged: Recorded,
}

impl Records {
    /// True if an event is in one of the files.
    pub fn has(&self, id: u64) -> bool {
        [&self.acknowledged, &self.unacknowledged].iter().any(|recorded| recorded.ids.has(id))
    }
}
