use std::collections::VecDeque;

use bytes::Bytes;

use super::index::Position;

/// The newest blocks, as they were built: readers get slices of them.
#[derive(Debug, Default)]
pub(super) struct BlockCache {
    /// In the order of their places.
    blocks: VecDeque<CachedBlock>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedBlock {
    segment: u32,
    offset: u32,
    last_lsn: u64,
    bytes: Bytes,
    /// What it costs, which may be more than what it holds.
    cost: usize,
}

impl BlockCache {
    /// Adds the newest block.
    pub(super) fn push(&mut self, segment: u32, offset: u32, last_lsn: u64, bytes: Bytes, cost: usize) {
        self.bytes += cost;
        self.blocks.push_back(CachedBlock { segment, offset, last_lsn, bytes, cost });
    }

    /// Drops the oldest blocks over a limit; what is not durable yet stays.
    pub(super) fn shrink(&mut self, bytes_max: usize, durable_lsn: u64) {
        while self.bytes > bytes_max
            && let Some(block) = self.blocks.front().filter(|block| block.last_lsn <= durable_lsn)
        {
            self.bytes -= block.cost;
            self.blocks.pop_front();
        }
    }

    /// The bytes of an entry.
    pub(super) fn get(&self, position: Position) -> Option<Bytes> {
        let place = (position.segment, position.offset);
        let after = self.blocks.partition_point(|block| (block.segment, block.offset) <= place);
        let block = self.blocks.get(after.checked_sub(1)?).filter(|block| block.segment == position.segment)?;
        let start = (position.offset - block.offset) as usize;
        let end = start + position.len as usize;
        (end <= block.bytes.len()).then(|| block.bytes.slice(start..end))
    }
}
