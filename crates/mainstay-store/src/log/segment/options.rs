use mainstay_core::time::Duration;
use mainstay_core::{Error, Result};

use super::format::SEGMENT_HEADER_BYTES;
use crate::disk::OpenMode;

/// The limits of a [`SegmentLog`](super::SegmentLog).
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The size of a segment file; old ones are removed as wholes. Two are reserved at all times.
    pub segment_bytes: u64,
    /// The largest batch; a larger one is refused with `TooLarge`.
    pub batch_bytes_max: usize,
    /// How much may wait to become durable; more is refused with `Overloaded`. One batch is always let in.
    pub queue_bytes_max: usize,
    /// How much of the newest entries is kept in memory beside what waits.
    pub cache_bytes_max: usize,
    /// From this size on, entries that keep old segments in use are moved to new ones, so that a group that is
    /// rarely compacted does not keep what all others have written since. It bounds waste, not what is in use: a
    /// log that would still be more than half as long with everything moved grows beyond.
    pub log_bytes_max: u64,
    /// Who writes.
    pub driver: Driver,
    /// Whether a log must be there or must not. Who knows that there was one says so: a log that was lost would
    /// otherwise be made anew, empty.
    pub mode: OpenMode,
}

/// Who writes the log.
#[derive(Debug, Clone)]
pub enum Driver {
    /// A thread that owns the disk's waiting, and one that prepares and removes segments.
    Thread,
    /// A task of the current runtime, for simulation: no thread is started, and a sync takes simulated time.
    Task {
        /// How long a sync takes.
        sync_delay: SyncDelay,
    },
}

/// How long a sync takes in simulation: drawn from the seed for each, between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncDelay {
    /// The least.
    pub min: Duration,
    /// The most.
    pub max: Duration,
}

impl Default for SyncDelay {
    fn default() -> Self {
        Self { min: Duration::from_micros(50), max: Duration::from_millis(2) }
    }
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            batch_bytes_max: 64 << 20,
            queue_bytes_max: 128 << 20,
            cache_bytes_max: 32 << 20,
            log_bytes_max: 1 << 30,
            driver: Driver::Thread,
            mode: OpenMode::Either,
        }
    }
}

/// The smallest segment: room for a header and a little more.
const SEGMENT_BYTES_MIN: u64 = 32 * SEGMENT_HEADER_BYTES as u64;
/// The largest segment and batch: places within a segment have 32 bits, and a batch may come on top of what is
/// carried over.
const BYTES_LIMIT: u64 = 1 << 30;

impl LogOptions {
    /// # Errors
    /// `Invalid` with the limit that makes no sense.
    pub(super) fn check(&self) -> Result<()> {
        if !(SEGMENT_BYTES_MIN..=BYTES_LIMIT).contains(&self.segment_bytes) {
            return Err(Error::invalid(format!(
                "segment_bytes is {}: use {SEGMENT_BYTES_MIN} to {BYTES_LIMIT}",
                self.segment_bytes
            )));
        }
        if self.batch_bytes_max == 0 || self.batch_bytes_max as u64 > BYTES_LIMIT {
            return Err(Error::invalid(format!("batch_bytes_max is {}: use 1 to {BYTES_LIMIT}", self.batch_bytes_max)));
        }
        if let Driver::Task { sync_delay } = &self.driver
            && sync_delay.min > sync_delay.max
        {
            return Err(Error::invalid("sync_delay.min is more than sync_delay.max"));
        }
        Ok(())
    }
}
