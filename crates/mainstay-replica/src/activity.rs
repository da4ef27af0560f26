use std::sync::atomic::{AtomicU64, Ordering};

use mainstay_core::time::Duration;
use mainstay_core::timings::{SharedTimings, Timings};
use mainstay_store::state::Counts;

/// What a replica set has done on this node since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetActivity {
    /// Commits that were acknowledged.
    pub commits: u64,
    /// Log entries that they were merged into.
    pub entries: u64,
    /// Bytes that were handed over to be committed.
    pub bytes: u64,
    /// Commits that were refused as `Overloaded`.
    pub throttled: u64,
    /// Commits that wait now.
    pub waiting: u64,
    /// Bytes that are applied and in no checkpoint now.
    pub unsaved_bytes: u64,
    /// How long entries took from the proposal to their outcome.
    pub timings: Timings,
    /// What it holds; of a set on disk, as of its last checkpoint.
    pub held: Counts,
    /// Bytes that checkpoints have written.
    pub checkpoint_bytes: u64,
    /// How long checkpoints took.
    pub checkpoints: Timings,
    /// Bytes of snapshots that were sent to other replicas.
    pub copied_bytes: u64,
}

/// What a replica does beside its commits, counted.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    checkpoint_bytes: AtomicU64,
    checkpoints: SharedTimings,
    copied_bytes: AtomicU64,
}

impl Upkeep {
    /// A checkpoint of so many bytes was made.
    pub(crate) fn saved(&self, bytes: u64, took: Duration) {
        self.checkpoint_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.checkpoints.record(took);
    }

    /// A part of a snapshot has arrived elsewhere.
    pub(crate) fn copied(&self, bytes: usize) {
        self.copied_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Adds it to what was counted of commits.
    pub(crate) fn over(&self, activity: SetActivity) -> SetActivity {
        SetActivity {
            checkpoint_bytes: self.checkpoint_bytes.load(Ordering::Relaxed),
            checkpoints: self.checkpoints.snapshot(),
            copied_bytes: self.copied_bytes.load(Ordering::Relaxed),
            ..activity
        }
    }
}
