use std::sync::atomic::{AtomicU64, Ordering};

use crate::metric::BatchMetrics;

/// What a [`BatchExecutor`](super::BatchExecutor) has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchStats {
    /// Items whose callers were told that they are written.
    pub items_written: u64,
    /// Items whose callers were told that they are not, or may not be.
    pub items_failed: u64,
    /// Batches that have ended, in whatever way. Divide to know how large they are.
    pub batches: u64,
    /// Writes beyond the first of a batch, because it failed.
    pub writes_again: u64,
    /// Items that wait for their batch to begin.
    pub items_waiting: u64,
}

/// Counts, batch by batch.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) metrics: BatchMetrics,
    items_written: AtomicU64,
    items_failed: AtomicU64,
    batches: AtomicU64,
    writes_again: AtomicU64,
}

impl Counters {
    /// Those of an executor, at nothing.
    pub(super) fn of(executor: &str) -> Self {
        Self {
            metrics: BatchMetrics::of(executor),
            items_written: AtomicU64::new(0),
            items_failed: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            writes_again: AtomicU64::new(0),
        }
    }

    pub(super) fn batch(&self, written: usize, failed: usize) {
        self.metrics.batch(written + failed, failed);
        self.items_written.fetch_add(written as u64, Ordering::Relaxed);
        self.items_failed.fetch_add(failed as u64, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn abandoned(&self, items: usize) {
        self.metrics.failures.increment(items as u64);
        self.items_failed.fetch_add(items as u64, Ordering::Relaxed);
    }

    pub(super) fn write_again(&self) {
        self.writes_again.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self, waiting: usize) -> BatchStats {
        BatchStats {
            items_written: self.items_written.load(Ordering::Relaxed),
            items_failed: self.items_failed.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            writes_again: self.writes_again.load(Ordering::Relaxed),
            items_waiting: waiting as u64,
        }
    }
}
