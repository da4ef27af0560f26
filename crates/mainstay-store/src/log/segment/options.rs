use mainstay_core::time::Duration;
use mainstay_core::{Error, Result};

use super::format;
use crate::disk::OpenMode;

/// The limits of a [`SegmentLog`](super::SegmentLog).
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The size of a segment file; old ones are removed as wholes. Two are reserved at all times. The first are smaller, at most
    /// 1 MiB, and each is twice as long as the one before until they are that long: a log that holds little takes little.
    pub segment_bytes: u64,
    /// What blocks start and end at: what the disk writes whole or not at all, or destroys whole when the power fails in the midst
    /// of writing a part of it. 4,096 is right for all common disks; a disk of which it is known that its sectors have 512
    /// bytes, and not only that it takes as little, has smaller logs with that. A power of two from 512 to 65,536.
    pub block_alignment: u32,
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
    /// So much of the disk is kept back: with less left, [`check_space`](crate::log::NodeLog::check_space) says `Overloaded`, so
    /// that commits end before the log has to refuse a batch. Of a small file system a sixteenth at most; 0 for nothing.
    pub reserve_bytes: u64,
    /// Who writes.
    pub driver: Driver,
    /// Whether a log must be there or must not. Who knows that there was one says so: a log that was lost would
    /// otherwise be made anew, empty.
    pub mode: OpenMode,
}

/// Who writes the log.
#[derive(Debug, Clone)]
#[non_exhaustive]
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
            block_alignment: 4096,
            batch_bytes_max: 64 << 20,
            queue_bytes_max: 128 << 20,
            cache_bytes_max: 32 << 20,
            log_bytes_max: 1 << 30,
            reserve_bytes: 256 << 20,
            driver: Driver::Thread,
            mode: OpenMode::Either,
        }
    }
}

/// The smallest segment: room for a header, the reserve and a few blocks.
const SEGMENT_BLOCKS_MIN: u64 = 16;
/// How long the first segment of a log is at most.
const FIRST_SEGMENT_BYTES: u64 = 1 << 20;
/// The largest segment and batch: places within a segment have 32 bits, and a batch may come on top of what is
/// carried over.
const BYTES_LIMIT: u64 = 1 << 30;

impl LogOptions {
    /// The length of the first segment of a log.
    pub(super) fn first_length(&self) -> u64 {
        self.aligned(self.segment_bytes.min(FIRST_SEGMENT_BYTES))
    }

    /// How many bytes a new log takes: those of its first segment and of the next one, which is reserved.
    pub fn first_start_bytes(&self) -> u64 {
        let first = self.first_length();
        first.saturating_add(self.length_after(first))
    }

    /// The length of the segment after one that was created with a length.
    pub(super) fn length_after(&self, len: u64) -> u64 {
        self.aligned(len.saturating_mul(2).clamp(self.first_length(), self.segment_bytes))
    }

    /// The next length below that ends where a block may end.
    pub(super) fn aligned(&self, len: u64) -> u64 {
        len / u64::from(self.block_alignment) * u64::from(self.block_alignment)
    }

    /// # Errors
    /// `Invalid` with the limit that makes no sense.
    pub(super) fn check(&self) -> Result<()> {
        if !format::is_alignment(self.block_alignment) {
            return Err(Error::invalid(format!(
                "block_alignment is {}: use a power of two from {} to {}",
                self.block_alignment,
                format::SECTOR_BYTES,
                format::ALIGNMENT_MAX
            )));
        }
        let segment_bytes_min = SEGMENT_BLOCKS_MIN * u64::from(self.block_alignment);
        if !(segment_bytes_min..=BYTES_LIMIT).contains(&self.segment_bytes) {
            return Err(Error::invalid(format!(
                "segment_bytes is {}: use {segment_bytes_min} to {BYTES_LIMIT}",
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
