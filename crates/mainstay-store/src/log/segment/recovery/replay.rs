use mainstay_core::Result;

use super::tail::Tail;
use crate::log::segment::file::Segment;
use crate::log::segment::format::{self, BLOCK_HEADER_BYTES, BlockHeader, SECTOR_BYTES, align, u32_at};
use crate::log::segment::rebuild::{BatchPlace, Rebuild};
use crate::log::segment::record::{BATCH_HEADER_BYTES, BatchReader};

/// The largest sequence number that is believed: no log gets there, and what is counted from it has an end, too.
const LSN_MAX: u64 = 1 << 62;

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Replay {
    pub(super) groups: Rebuild,
    pub(super) next_lsn: Option<u64>,
}

impl Replay {
    /// Reads the blocks of a segment that has some.
    pub(super) fn replay(&mut self, segment: &Segment, mut bytes: Vec<u8>, oldest: bool) -> Result<Tail> {
        let mut at = segment.start() as usize;
        let mut last_block: Option<(u64, Vec<u8>)> = None;
        let mut last_range = 0..0;
        loop {
            let rest = &bytes[at.min(bytes.len())..];
            let Some(block) = self.block(segment, at as u64, rest)? else { break };
            last_range = at..at + align(u64::from(block.len), segment.alignment()) as usize;
            // Only the last block is wanted as it was; it is unmasked in place below.
            let masked = block.mask != 0;
            if masked {
                last_block = Some((at as u64, bytes[last_range.clone()].to_vec()));
                format::mask(
                    &mut bytes[at + BLOCK_HEADER_BYTES..last_range.end],
                    (at + BLOCK_HEADER_BYTES) as u64,
                    block.mask,
                );
                segment.add_mask(
                    (at + BLOCK_HEADER_BYTES) as u64,
                    (last_range.len() - BLOCK_HEADER_BYTES) as u64,
                    block.mask,
                );
            } else {
                last_block = None;
            }
            let content = &bytes[at..at + block.len as usize];
            self.batches(segment, at, content, &block, oldest)?;
            // Far below the end of the numbers: `block` has seen to it.
            self.next_lsn = Some(block.first_lsn + u64::from(block.batches));
            at = last_range.end;
        }
        if last_block.is_none() && !last_range.is_empty() {
            last_block = Some((last_range.start as u64, bytes[last_range].to_vec()));
        }
        let rest = &bytes[at.min(bytes.len())..];
        // As far as something was written, in whole units of the disk: it is never written to in part.
        let written = rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let torn = rest[..rest.len().min(align(written as u64, segment.alignment()) as usize)].to_vec();
        Ok(Tail { end: at as u64, last_block, torn })
    }

    /// The block at a place; `None` if the log ends before it, whole or torn.
    ///
    /// The argument stands in `docs/internals/node-log.md`: a block is written only after the one before was synced,
    /// no sector of a block is all zeros once it is written, and a sector is written whole or not at all.
    fn block(&self, segment: &Segment, offset: u64, rest: &[u8]) -> Result<Option<BlockHeader>> {
        let first_sector = &rest[..rest.len().min(SECTOR_BYTES)];
        if format::is_zero(first_sector) {
            // If a later block is here, this one was synced before it.
            let sectors = rest.chunks(SECTOR_BYTES).enumerate().skip(1);
            for (number, sector) in sectors {
                let place = offset + (number * SECTOR_BYTES) as u64;
                if BlockHeader::decode(sector, segment.number, place).is_some() {
                    return Err(segment.corrupt(offset, "a block is missing, but a later one proves that it was whole"));
                }
            }
            return Ok(None);
        }
        let Some(header) = BlockHeader::decode(rest, segment.number, offset) else {
            return Err(segment.corrupt(offset, "the header of a block is wrong"));
        };
        if header.batches == 0 || !(1..=LSN_MAX).contains(&header.first_lsn) {
            return Err(segment.corrupt(offset, "the header of a block has numbers that no block has"));
        }
        if self.next_lsn.is_some_and(|expected| expected != header.first_lsn) {
            return Err(segment.corrupt(offset, "batches are missing before this block"));
        }
        let extent = align(u64::from(header.len), segment.alignment()) as usize;
        let found = &rest[..extent.min(rest.len())];
        if found.len() == extent && block_checksum(found, offset, header.mask) == header.checksum {
            return Ok(Some(header));
        }
        let unwritten = found.len() < extent || found.chunks(SECTOR_BYTES).any(format::is_zero);
        if unwritten && format::is_zero(&rest[found.len()..]) {
            return Ok(None);
        }
        Err(segment.corrupt(offset, "the checksum of a block is wrong"))
    }

    /// Applies the batches of a whole block.
    fn batches(&mut self, segment: &Segment, at: usize, bytes: &[u8], block: &BlockHeader, oldest: bool) -> Result<()> {
        let mut start = BLOCK_HEADER_BYTES;
        for number in 0..block.batches {
            let wrong = |what: &str| segment.corrupt((at + start) as u64, &format!("a batch cannot be read: {what}"));
            let Some(header) = bytes.get(start..start + BATCH_HEADER_BYTES) else {
                return Err(wrong("the block ends before it"));
            };
            let from = start + BATCH_HEADER_BYTES;
            let Some(batch) = bytes.get(from..from + u32_at(header, 0) as usize) else {
                return Err(wrong("the block ends in the midst of it"));
            };
            // Places in a segment have 32 bits: `load` has seen to it.
            let reader = BatchReader::new(batch, segment.number, (at + from) as u32);
            let place = match (at as u64 == segment.start(), number, segment.number) {
                (true, 0, 2..) if oldest => BatchPlace::Start,
                (true, 0, 2..) => BatchPlace::Seam,
                _ => BatchPlace::Within,
            };
            self.groups.batch(reader, place).map_err(|what| wrong(&what))?;
            start = from + batch.len();
        }
        Ok(())
    }
}

fn block_checksum(block: &[u8], offset: u64, mask: u64) -> u32 {
    let content = &block[BLOCK_HEADER_BYTES..];
    if mask == 0 {
        return crc32c::crc32c(content);
    }
    let mut content = content.to_vec();
    format::mask(&mut content, offset + BLOCK_HEADER_BYTES as u64, mask);
    crc32c::crc32c(&content)
}
