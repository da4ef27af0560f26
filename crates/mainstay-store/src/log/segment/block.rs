use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::time;

use super::file::Segment;
use super::format::{self, BLOCK_HEADER_BYTES, BlockHeader, SECTOR_BYTES, align};
use super::index::Position;
use super::record::BATCH_HEADER_BYTES;
use crate::log::Done;

/// A block that is being built: batches are written straight into the bytes that will go to disk.
pub(super) struct Gather {
    pub(super) segment: Arc<Segment>,
    pub(super) offset: u64,
    pub(super) buffer: Vec<u8>,
    pub(super) dones: Vec<Done>,
    pub(super) batches: u32,
    /// No batch is added any more.
    pub(super) closed: bool,
    first_lsn: u64,
    /// Where the batch starts that is being written.
    batch_start: usize,
    /// Of the bytes after the header.
    checksum: u32,
}

/// A block that is ready to be written.
pub(super) struct Block {
    pub(super) segment: Arc<Segment>,
    pub(super) offset: u64,
    /// With header and padding.
    pub(super) bytes: Bytes,
    pub(super) dones: Vec<Done>,
    pub(super) last_lsn: u64,
    /// The bytes of its batches.
    pub(super) content_bytes: usize,
    /// The memory that it takes.
    pub(super) cost: usize,
    /// When it was taken to be written.
    pub(super) taken: time::Instant,
    header: BlockHeader,
}

/// The room that a block starts out with; it grows.
const BLOCK_BYTES_START: usize = 4096;

impl Gather {
    pub(super) fn new(segment: Arc<Segment>, offset: u64, first_lsn: u64) -> Self {
        let mut buffer = Vec::with_capacity(BLOCK_BYTES_START);
        buffer.resize(BLOCK_HEADER_BYTES, 0);
        Self {
            segment,
            offset,
            buffer,
            dones: Vec::new(),
            batches: 0,
            closed: false,
            first_lsn,
            batch_start: BLOCK_HEADER_BYTES,
            checksum: 0,
        }
    }

    /// The bytes of a block with one batch.
    pub(super) fn bytes_for(size: usize, alignment: u32) -> u64 {
        align((BLOCK_HEADER_BYTES + BATCH_HEADER_BYTES + size) as u64, alignment)
    }

    /// Starts a batch of a size.
    pub(super) fn begin_batch(&mut self, size: usize) {
        self.batch_start = self.buffer.len();
        self.buffer.reserve(BATCH_HEADER_BYTES + size);
        // A batch's size is bounded far below what 32 bits can say: see `LogOptions`.
        self.buffer.extend_from_slice(&(size as u32).to_le_bytes());
    }

    /// Ends the batch: from now on it belongs to the block.
    pub(super) fn end_batch(&mut self, done: Option<Done>) {
        self.checksum = crc32c::crc32c_append(self.checksum, &self.buffer[self.batch_start..]);
        self.batches += 1;
        self.dones.extend(done);
    }

    /// The bytes of an entry in it.
    pub(super) fn entry(&self, position: Position) -> Option<Bytes> {
        let start = usize::try_from(u64::from(position.offset).checked_sub(self.offset)?).ok()?;
        self.buffer.get(start..start + position.len as usize).map(Bytes::copy_from_slice)
    }

    /// Pads the block and gives it its header.
    pub(super) fn seal(mut self) -> Block {
        let len = self.buffer.len();
        let padded = align(len as u64, self.segment.alignment()) as usize;
        self.buffer.resize(padded, self.segment.padding());
        let checksum = crc32c::crc32c_append(self.checksum, &self.buffer[len..]);
        // A block is bounded by `BLOCK_BYTES_MAX` and the largest batch, which both are far below 4 GiB.
        let header =
            BlockHeader { first_lsn: self.first_lsn, batches: self.batches, len: len as u32, mask: 0, checksum };
        self.buffer[..BLOCK_HEADER_BYTES].copy_from_slice(&header.encode(self.segment.number, self.offset));
        if self.buffer.capacity() > 2 * padded + SECTOR_BYTES {
            self.buffer.shrink_to_fit();
        }
        let cost = self.buffer.capacity();
        Block {
            taken: time::now(),
            segment: self.segment,
            offset: self.offset,
            bytes: Bytes::from(self.buffer),
            dones: self.dones,
            last_lsn: self.first_lsn + u64::from(self.batches) - 1,
            content_bytes: len - BLOCK_HEADER_BYTES,
            cost,
            header,
        }
    }
}

impl Block {
    /// Writes it to its place, masked if a sector would be all zeros. It is not durable yet.
    pub(super) fn write(&self) -> std::io::Result<()> {
        let mask = format::choose_mask(&self.bytes);
        if mask == 0 {
            return self.segment.file.write_all_at(&self.bytes, self.offset);
        }
        let start = self.offset + BLOCK_HEADER_BYTES as u64;
        let mut masked = self.bytes.to_vec();
        format::mask(&mut masked[BLOCK_HEADER_BYTES..], start, mask);
        let header = BlockHeader { mask, ..self.header };
        masked[..BLOCK_HEADER_BYTES].copy_from_slice(&header.encode(self.segment.number, self.offset));
        self.segment.add_mask(start, (self.bytes.len() - BLOCK_HEADER_BYTES) as u64, mask);
        self.segment.file.write_all_at(&masked, self.offset)
    }
}

impl std::fmt::Debug for Gather {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gather").field("offset", &self.offset).field("batches", &self.batches).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("offset", &self.offset).field("header", &self.header).finish_non_exhaustive()
    }
}
