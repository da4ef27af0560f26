//! The bytes of segment files; `docs/internals/node-log.md` has them in full.

use mainstay_core::{Error, Result};

use crate::formats;

/// The least that a disk writes whole or not at all: a torn block lacks a multiple of it.
pub(super) const SECTOR_BYTES: usize = 512;
/// The most that a block can be aligned to.
pub(super) const ALIGNMENT_MAX: u32 = 64 << 10;
/// The bytes of a segment's header; the first block starts at the alignment of the segment.
pub(super) const SEGMENT_HEADER_BYTES: usize = SECTOR_BYTES;
/// The version of segment files that this code writes.
pub(super) const VERSION: u16 = formats::SEGMENT.written() as u16;
/// The version before, whose blocks are aligned to [`SECTOR_BYTES`] and padded with zeros.
pub(super) const VERSION_1: u16 = 1;
/// What blocks are padded with. Not with zeros, because a sector of zeros was never written.
pub(super) const PADDING: u8 = 0x5a;
/// The header at the start of every block.
pub(super) const BLOCK_HEADER_BYTES: usize = 40;

const SEGMENT_MAGIC: [u8; 8] = *b"MAINSLOG";
const SEGMENT_CHECKSUM_AT: usize = SECTOR_BYTES - 4;
const BLOCK_MAGIC: u32 = 0x4b42_4c4d;

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) number: u32,
    /// The length that the file was created with; it may grow for a large batch but never be shorter.
    pub(super) len: u64,
    /// What blocks start and end at: a power of two of at least [`SECTOR_BYTES`].
    pub(super) alignment: u32,
    /// The version of the format that its blocks are in.
    pub(super) version: u16,
}

impl SegmentHeader {
    /// The header of a new segment.
    pub(super) fn new(number: u32, len: u64, alignment: u32) -> Self {
        Self { number, len, alignment, version: VERSION }
    }

    /// The header and the zeros up to the first block, which are written with one write.
    pub(super) fn encode_padded(&self) -> Vec<u8> {
        let mut bytes = self.encode().to_vec();
        bytes.resize(self.alignment as usize, 0);
        bytes
    }

    pub(super) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.len.to_le_bytes());
        if self.version > VERSION_1 {
            bytes[24..28].copy_from_slice(&self.alignment.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&bytes[..SEGMENT_CHECKSUM_AT]);
        bytes[SEGMENT_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header; the message of an error does not name the file yet.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.len() < SEGMENT_HEADER_BYTES {
            return Err(Error::corrupt("the file is shorter than a segment's header"));
        }
        if bytes[..8] != SEGMENT_MAGIC {
            return Err(Error::corrupt("the file does not start as a segment of a node log does"));
        }
        if u32_at(bytes, SEGMENT_CHECKSUM_AT) != crc32c::crc32c(&bytes[..SEGMENT_CHECKSUM_AT]) {
            return Err(Error::corrupt("the checksum of the segment's header is wrong"));
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        formats::SEGMENT.check_wide(version, "the segment")?;
        let alignment = if version == VERSION_1 { SECTOR_BYTES as u32 } else { u32_at(bytes, 24) };
        if !is_alignment(alignment) {
            return Err(Error::corrupt("the segment's header has an alignment that no segment has"));
        }
        Ok(Self { number: u32_at(bytes, 12), len: u64_at(bytes, 16), alignment, version })
    }
}

/// The header of a block: what was written with one write and one sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHeader {
    /// The sequence number of the first batch.
    pub(super) first_lsn: u64,
    /// How many batches there are.
    pub(super) batches: u32,
    /// The bytes of the block with its header, without the padding.
    pub(super) len: u32,
    /// What every eight bytes after the header are combined with, so that no sector is all zeros.
    pub(super) mask: u64,
    /// The checksum of everything after the header, with the padding, before masking.
    pub(super) checksum: u32,
}

impl BlockHeader {
    /// Writes the header for a place; at another place it is not valid.
    pub(super) fn encode(&self, segment: u32, offset: u64) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.first_lsn.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.batches.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.len.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.mask.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = header_checksum(&bytes, segment, offset);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header at a place, if there is a valid one.
    pub(super) fn decode(bytes: &[u8], segment: u32, offset: u64) -> Option<Self> {
        let bytes: &[u8; BLOCK_HEADER_BYTES] = bytes.get(..BLOCK_HEADER_BYTES)?.try_into().ok()?;
        if u32_at(bytes, 0) != BLOCK_MAGIC || u32_at(bytes, 4) != header_checksum(bytes, segment, offset) {
            return None;
        }
        let len = u32_at(bytes, 20);
        if (len as usize) < BLOCK_HEADER_BYTES {
            return None;
        }
        Some(Self {
            first_lsn: u64_at(bytes, 8),
            batches: u32_at(bytes, 16),
            len,
            mask: u64_at(bytes, 24),
            checksum: u32_at(bytes, 32),
        })
    }
}

fn header_checksum(bytes: &[u8; BLOCK_HEADER_BYTES], segment: u32, offset: u64) -> u32 {
    let place = crc32c::crc32c_append(crc32c::crc32c(&segment.to_le_bytes()), &offset.to_le_bytes());
    crc32c::crc32c_append(place, &bytes[8..])
}

/// The next place at which a block may start or end.
pub(super) fn align(len: u64, alignment: u32) -> u64 {
    len.next_multiple_of(u64::from(alignment))
}

/// True if blocks can be aligned to it.
pub(super) fn is_alignment(alignment: u32) -> bool {
    alignment.is_power_of_two() && (SECTOR_BYTES as u32..=ALIGNMENT_MAX).contains(&alignment)
}

/// True if a sector, or any other run of bytes, is all zeros.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    // Most sectors differ from zero at once; the others are checked eight bytes at a time.
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().all(|word| u64::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

/// Combines bytes that lie at an offset of a file with a mask; doing it twice gives the bytes back.
pub(super) fn mask(bytes: &mut [u8], offset: u64, mask: u64) {
    if mask == 0 {
        return;
    }
    // The mask as seen from the first byte.
    let turned = mask.rotate_right((offset % 8) as u32 * 8).to_le_bytes();
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte ^= turned[at % 8];
    }
}

/// A mask under which no sector of a block is all zeros: 0, which changes nothing, nearly always.
///
/// A sector of 64 words can only be all zeros under the one mask that all of its words equal. So among one more
/// candidates than there are sectors, one fits.
pub(super) fn choose_mask(block: &[u8]) -> u64 {
    let fits = |mask: u64| {
        // The first sector has the header, whose magic number is not zero.
        block.chunks(SECTOR_BYTES).skip(1).all(|sector| {
            let (words, _) = sector.as_chunks::<8>();
            words.iter().any(|word| u64::from_le_bytes(*word) != mask)
        })
    };
    let sectors = (block.len() / SECTOR_BYTES) as u64;
    (0..=sectors).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).find(|mask| fits(*mask)).unwrap_or(0)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sector_of_a_masked_block_is_zero_and_the_mask_comes_off() {
        let golden = 0x9e37_79b9_7f4a_7c15u64;
        let mut block = vec![1; SECTOR_BYTES];
        block.extend([0; SECTOR_BYTES]);
        // A sector that the first mask would turn to zeros, and a last one with a little data.
        block.extend(golden.to_le_bytes().repeat(64));
        block.extend([0; SECTOR_BYTES - 1]);
        block.push(1);
        let chosen = choose_mask(&block);
        assert_eq!(chosen, golden.wrapping_mul(2));
        let mut masked = block.clone();
        mask(&mut masked[BLOCK_HEADER_BYTES..], BLOCK_HEADER_BYTES as u64, chosen);
        assert!(masked.chunks(SECTOR_BYTES).all(|sector| !is_zero(sector)));
        // Any part can be unmasked by itself.
        let (from, to) = (521, 1999);
        let mut part = masked[from..to].to_vec();
        mask(&mut part, from as u64, chosen);
        assert_eq!(part, block[from..to]);
        assert_eq!(choose_mask(&[1; 4096]), 0);
    }

    #[test]
    fn headers_are_read_back_and_only_at_their_place() {
        let header = SegmentHeader::new(7, 1 << 20, 4096);
        assert_eq!(SegmentHeader::decode(&header.encode()).unwrap(), header);
        assert_eq!(SegmentHeader::decode(&header.encode_padded()).unwrap(), header);
        assert_eq!(header.encode_padded().len(), 4096);
        let before = SegmentHeader { version: VERSION_1, alignment: 512, ..header };
        assert_eq!(SegmentHeader::decode(&before.encode()).unwrap(), before);
        for alignment in [0, 256, 513, 1 << 17] {
            SegmentHeader::decode(&SegmentHeader::new(7, 1 << 20, alignment).encode()).unwrap_err();
        }
        let block = BlockHeader { first_lsn: 9, batches: 2, len: 100, mask: 3, checksum: 4 };
        let bytes = block.encode(7, 512);
        assert_eq!(BlockHeader::decode(&bytes, 7, 512), Some(block));
        assert_eq!(BlockHeader::decode(&bytes, 7, 1024), None);
        assert_eq!(BlockHeader::decode(&bytes, 8, 512), None);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BlockHeader::decode(&bytes, 7, 512), None);
        }
    }
}
