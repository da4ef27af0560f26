use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use mainstay_core::{Error, RESTORE, Result};
use parking_lot::Mutex;

use super::format::{self, SegmentHeader};
use super::index::Position;
use super::io_error::io_error;
use crate::disk::{Disk, DiskFile, OpenMode};

/// How much is zeroed at a time, so that the log's own syncs come between.
pub(super) const FILL_STEP_BYTES: usize = 256 << 10;

/// A segment file.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn DiskFile>,
    /// As it is on disk.
    header: SegmentHeader,
    /// Where it ends; a large batch moves it.
    len: AtomicU64,
    /// The blocks that are masked, by offset: nearly none.
    masks: Mutex<Vec<MaskedBlock>>,
    /// How far it is zeroed; `None` if it is not to be any further.
    filled: Mutex<Option<u64>>,
}

#[derive(Debug, Clone, Copy)]
struct MaskedBlock {
    start: u64,
    end: u64,
    mask: u64,
}

impl Segment {
    /// Reserves a new segment's room and writes its header. It is not durable yet.
    pub(super) fn create(disk: &dyn Disk, dir: &Path, header: SegmentHeader) -> io::Result<Self> {
        let SegmentHeader { number, len, .. } = header;
        let path = dir.join(file_name(number));
        // A file that an earlier attempt could not finish is begun again. Through the cache: who has a batch that needs the
        // segment waits for this, and need not wait for the disk.
        let cached = disk.open(&path, OpenMode::Either)?;
        let made = (|| {
            cached.set_len(0)?;
            cached.allocate(len)?;
            cached.write_all_at(&header.encode_padded(), 0)?;
            disk.open_direct(&path, OpenMode::Existing)
        })();
        let file = made.inspect_err(|_| {
            // On a full disk the little that was taken is given back; if not even that works, opening cleans up.
            let _ = disk.remove(&path);
        })?;
        let filled = Mutex::new(Some(u64::from(header.alignment)));
        Ok(Self { number, path, file, header, len: AtomicU64::new(len), masks: Mutex::default(), filled })
    }

    /// A segment that was found on disk.
    pub(super) fn found(header: SegmentHeader, path: PathBuf, file: Arc<dyn DiskFile>, len: u64) -> Self {
        let (number, len) = (header.number, AtomicU64::new(len));
        Self { number, path, file, header, len, masks: Mutex::default(), filled: Mutex::new(None) }
    }

    /// Lets a segment that was found empty be zeroed from its header on: nobody knows how much of it was.
    pub(super) fn restart_fill(&self) {
        *self.filled.lock() = Some(self.start());
    }

    /// Where its first block starts.
    pub(super) fn start(&self) -> u64 {
        u64::from(self.header.alignment)
    }

    /// What its blocks start and end at.
    pub(super) fn alignment(&self) -> u32 {
        self.header.alignment
    }

    /// What its blocks are padded with.
    pub(super) fn padding(&self) -> u8 {
        if self.header.version > format::VERSION_1 { format::PADDING } else { 0 }
    }

    /// The length that it was created with.
    pub(super) fn created_len(&self) -> u64 {
        self.header.len
    }

    /// Makes the header of an empty segment durable by writing it once more: if a sync of the file has failed before, the operating system
    /// shows what was written but may never write it by itself.
    pub(super) fn sync_header(&self) -> io::Result<()> {
        self.file.write_all_at(&self.header.encode_padded(), 0)?;
        self.file.sync()
    }

    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// Reserves more room.
    pub(super) fn grow(&self, len: u64) -> io::Result<()> {
        if len > self.len() {
            self.file.allocate(len)?;
            self.len.store(len, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes zeros over the next part, before `until`, of a segment that nothing was written to yet, and syncs them; false
    /// when there is nothing left to do. Space that was reserved but never written makes every later sync wait for the file
    /// system's journal.
    ///
    /// # Errors
    /// If a sync fails, after which nobody knows what of the file is on disk. Zeros that cannot be written are no error:
    /// their room is reserved, and reads as zeros anyway.
    pub(super) fn fill_step(&self, until: u64) -> io::Result<bool> {
        static ZEROS: [u8; FILL_STEP_BYTES] = [0; FILL_STEP_BYTES];
        let mut filled = self.filled.lock();
        let Some(from) = *filled else { return Ok(false) };
        // Up to a multiple of a step, which is one of whatever the file system counts in.
        let step_end = (from + 1).next_multiple_of(FILL_STEP_BYTES as u64);
        let to = step_end.min(until).min(self.len());
        if to <= from {
            return Ok(false);
        }
        if let Err(error) = self.file.write_all_at(&ZEROS[..(to - from) as usize], from) {
            tracing::warn!(path = %self.path.display(), %error, "cannot zero a node log file ahead of its use");
            *filled = None;
            return Ok(false);
        }
        self.file.sync()?;
        *filled = Some(to);
        Ok(true)
    }

    /// How far it is zeroed, while it still is.
    #[cfg(test)]
    pub(super) fn filled(&self) -> Option<u64> {
        *self.filled.lock()
    }

    /// Ends the zeroing before the first block is written.
    pub(super) fn stop_fill(&self) {
        *self.filled.lock() = None;
    }

    /// Remembers that a block is masked.
    pub(super) fn add_mask(&self, start: u64, len: u64, mask: u64) {
        if mask != 0 {
            self.masks.lock().push(MaskedBlock { start, end: start + len, mask });
        }
    }

    /// Takes the mask off bytes that were read.
    pub(super) fn unmask(&self, bytes: &mut [u8], offset: u64) {
        let masks = self.masks.lock();
        let end = offset + bytes.len() as u64;
        let first = masks.partition_point(|block| block.end <= offset);
        for block in masks[first..].iter().take_while(|block| block.start < end) {
            let (from, to) = (block.start.max(offset), block.end.min(end));
            format::mask(&mut bytes[(from - offset) as usize..(to - offset) as usize], from, block.mask);
        }
    }

    /// Reads a run of entries, which lie in order, with one read, and checks each.
    pub(super) fn read(&self, entries: &[Position]) -> Result<Vec<Bytes>> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(Vec::new()) };
        let start = u64::from(first.offset);
        let end = u64::from(last.offset) + u64::from(last.len);
        let mut bytes = vec![0; (end - start) as usize];
        self.file.read_exact_at(&mut bytes, start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.corrupt(start, "the file ends before an entry that was written"),
            _ => io_error("read from", &self.path, error),
        })?;
        self.unmask(&mut bytes, start);
        let bytes = Bytes::from(bytes);
        let mut found = Vec::with_capacity(entries.len());
        for entry in entries {
            let from = (u64::from(entry.offset) - start) as usize;
            let part = bytes.slice(from..from + entry.len as usize);
            if crc32c::crc32c(&part) != entry.checksum {
                return Err(self.corrupt(u64::from(entry.offset), "the checksum of an entry is wrong"));
            }
            found.push(part);
        }
        Ok(found)
    }

    /// An error that names the place and the remedy.
    pub(super) fn corrupt(&self, offset: u64, what: &str) -> Error {
        corrupt_at(&self.path, offset, what)
    }
}

pub(super) fn corrupt_at(path: &Path, offset: u64, what: &str) -> Error {
    Error::corrupt(format!(
        "node log file {} is damaged at offset {offset}: {what}; nothing was changed: {RESTORE}",
        path.display()
    ))
}

/// The name of a segment's file.
pub(super) fn file_name(number: u32) -> String {
    format!("{number:010}.segment")
}

/// The number that a file name stands for.
pub(super) fn file_number(name: &str) -> Option<u32> {
    let number: u32 = name.strip_suffix(".segment")?.parse().ok()?;
    // Only the one spelling: "1.segment" is not ours.
    (number > 0 && file_name(number) == name).then_some(number)
}
