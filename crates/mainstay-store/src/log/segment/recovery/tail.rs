use crate::log::segment::file::Segment;
use crate::log::segment::format::{self, SECTOR_BYTES};

/// The end of what is whole in a segment.
#[derive(Debug)]
pub(super) struct Tail {
    /// Where the next block goes.
    pub(super) end: u64,
    /// The last block, as it is on disk.
    pub(super) last_block: Option<(u64, Vec<u8>)>,
    /// What was written after it and never synced, up to the last byte that is not zero and on to the next block's place.
    pub(super) torn: Vec<u8>,
}

impl Tail {
    /// True if the segment has something after its header, and no whole block.
    pub(super) fn is_blank(&self) -> bool {
        self.last_block.is_none()
    }

    /// True if the first sector of a block was written that is not whole. It is a valid header then: anything else is
    /// damage.
    pub(super) fn has_begun_block(&self) -> bool {
        !format::is_zero(&self.torn[..self.torn.len().min(SECTOR_BYTES)])
    }

    /// Zeroes what a crash has torn, and writes the last block once more: if this process failed to sync it before,
    /// the operating system shows it but will not write it by itself.
    pub(super) fn clean(&self, segment: &Segment) -> std::io::Result<()> {
        if let Some((offset, bytes)) = &self.last_block {
            segment.file.write_all_at(bytes, *offset)?;
        }
        if !self.torn.is_empty() {
            segment.file.write_all_at(&vec![0; self.torn.len()], self.end)?;
        }
        let synced = segment.file.sync();
        if synced.is_err() && !self.torn.is_empty() {
            // For the same reason the next who opens the log would see zeros that may never reach the disk, and leave
            // them alone: it has to see what was torn.
            segment.file.write_all_at(&self.torn, self.end)?;
        }
        synced
    }
}
