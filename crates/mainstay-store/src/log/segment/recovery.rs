//! Finding out what a folder of segments holds: which blocks are whole, and whether what is not was torn by a crash
//! or damaged afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, Result};

use super::file::{Segment, corrupt_at, file_name, file_number, io_error};
use super::format::{
    self, BLOCK_HEADER_BYTES, BlockHeader, SECTOR_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, align, u32_at,
};
use super::index::Index;
use super::record::{BATCH_HEADER_BYTES, BatchReader};
use crate::disk::{Disk, DiskFile, OpenMode};

/// What opening found.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) index: Index,
    /// From the oldest to the one that is written next.
    pub(super) segments: Vec<Arc<Segment>>,
    /// The empty segment after those, if it is there.
    pub(super) spare: Option<Arc<Segment>>,
    /// Where the last segment goes on.
    pub(super) end: u64,
    pub(super) next_lsn: u64,
}

/// A segment file as it was found.
struct Found {
    number: u32,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    bytes: Vec<u8>,
}

/// Reads all segments; `None` if there are none. Cleans up what a crash has left behind, and changes nothing if
/// anything is damaged.
pub(super) fn recover(disk: &dyn Disk, dir: &Path) -> Result<Option<Recovered>> {
    let numbers = list(disk, dir)?;
    let Some(oldest) = numbers.first().copied() else { return Ok(None) };
    let missing = (oldest..).zip(&numbers).find(|(expected, number)| expected != *number).map(|(expected, _)| expected);

    let mut state = Replay { index: Index::default(), next_lsn: None };
    let mut segments = Vec::new();
    let mut tail: Option<Tail> = None;
    let mut unused: Vec<Found> = Vec::new();
    for number in numbers {
        let found = load(disk, dir, number)?;
        let written = found.bytes.get(SEGMENT_HEADER_BYTES..).is_some_and(|rest| !format::is_zero(rest));
        if !written {
            unused.push(found);
            continue;
        }
        // Something was written here, which happens only after everything before was durable. Files that were created
        // ahead of their use and are empty may have lost one between them in a crash.
        if let Some(missing) = missing.filter(|missing| *missing < number) {
            return Err(missing_file(dir, missing));
        }
        if let Some(empty) = unused.first() {
            let what = "it is empty, but a later segment is not";
            return Err(corrupt_at(&empty.path, SEGMENT_HEADER_BYTES as u64, what));
        }
        if let Some(tail) = tail.as_ref().filter(|tail| !tail.torn.is_empty())
            && let Some(last) = segments.last()
        {
            let last: &Arc<Segment> = last;
            return Err(last.corrupt(tail.end, "a block is broken, but a later segment proves that it was whole"));
        }
        let header = header_of(&found)?;
        let segment = Segment::found(header, found.path.clone(), Arc::clone(&found.file), found.bytes.len() as u64);
        tail = Some(state.replay(&segment, found.bytes, number == oldest)?);
        segments.push(Arc::new(segment));
    }

    if let Some((group, index)) = state.index.first_missing() {
        return Err(Error::corrupt(format!(
            "entry {index} of group {} is in no file of node log folder {}: a file is missing; restore the folder from a \
             copy, or remove this node from its replica sets and start it with an empty folder",
            group.0,
            dir.display()
        )));
    }
    finish(disk, dir, state, segments, tail, unused)
}

/// Decides where the log goes on, and cleans up.
fn finish(
    disk: &dyn Disk,
    dir: &Path,
    state: Replay,
    mut segments: Vec<Arc<Segment>>,
    tail: Option<Tail>,
    unused: Vec<Found>,
) -> Result<Option<Recovered>> {
    let mut unused = unused.into_iter();
    let mut end = SEGMENT_HEADER_BYTES as u64;
    match (segments.last(), tail) {
        (Some(last), Some(tail)) => {
            // The next segment is durable before the first block of one is written.
            let next = unused.as_slice().first().filter(|next| next.number == last.number + 1);
            let Some(next) = next else { return Err(missing_file(dir, last.number + 1)) };
            header_of(next)?;
            tail.clean(last).map_err(|error| io_error("clean up the end of", &last.path, error))?;
            end = tail.end;
        }
        _ => {
            // Nothing was ever written, so nothing was ever acknowledged: the first usable file is as good as new.
            let Some(first) = unused.next() else { return Ok(None) };
            if first.number != 1 {
                let what = "it is empty and the oldest: files before it are missing";
                return Err(corrupt_at(&first.path, 0, what));
            }
            let header = match header_of(&first) {
                Ok(header) => header,
                Err(error) if error.kind() == ErrorKind::UnknownVersion => return Err(error),
                Err(_) => {
                    // The machine stopped while the log was created for the first time.
                    for unfinished in std::iter::once(&first).chain(unused.as_slice()) {
                        remove(disk, &unfinished.path)?;
                    }
                    disk.sync_dir(dir).map_err(|error| io_error("sync", dir, error))?;
                    return Ok(None);
                }
            };
            segments.push(take_empty(first, header)?);
        }
    }
    let wanted = segments.last().map_or(1, |segment| segment.number) + 1;
    let spare = match unused.next().map(|spare| (header_of(&spare), spare)) {
        Some((Ok(header), spare)) if spare.number == wanted => Some(take_empty(spare, header)?),
        Some((_, unfinished)) => remove(disk, &unfinished.path).map(|()| None)?,
        None => None,
    };
    // A segment that was created for a rotation which never happened.
    for later in unused {
        remove(disk, &later.path)?;
    }
    disk.sync_dir(dir).map_err(|error| io_error("sync", dir, error))?;
    let next_lsn = state.next_lsn.unwrap_or(1);
    Ok(Some(Recovered { index: state.index, segments, spare, end, next_lsn }))
}

/// Takes an empty segment into use. Who created it may have failed to sync it, or was killed before.
fn take_empty(found: Found, header: SegmentHeader) -> Result<Arc<Segment>> {
    let len = found.bytes.len() as u64;
    let segment = Segment::found(header, found.path, found.file, len);
    segment.sync_header().map_err(|error| io_error("write to", &segment.path, error))?;
    Ok(Arc::new(segment))
}

fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<u32>> {
    let names = disk.list(dir).map_err(|error| io_error("list", dir, error))?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| file_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn load(disk: &dyn Disk, dir: &Path, number: u32) -> Result<Found> {
    let path = dir.join(file_name(number));
    let failed = |error| io_error("read", &path, error);
    let file = disk.open(&path, OpenMode::Existing).map_err(failed)?;
    // Before there is memory for it: places in a segment have 32 bits.
    let Ok(len) = u32::try_from(file.len().map_err(failed)?) else {
        return Err(corrupt_at(&path, 0, "it is longer than a segment can be"));
    };
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0).map_err(failed)?;
    Ok(Found { number, path, file, bytes })
}

fn header_of(found: &Found) -> Result<SegmentHeader> {
    let header = SegmentHeader::decode(&found.bytes).map_err(|error| match error.kind() {
        ErrorKind::UnknownVersion => Error::new(
            ErrorKind::UnknownVersion,
            format!("node log file {}: {error}; open it with the build that wrote it", found.path.display()),
        ),
        _ => corrupt_at(&found.path, 0, &error.to_string()),
    })?;
    if header.number != found.number {
        return Err(corrupt_at(&found.path, 12, "its header has the number of another segment"));
    }
    if (found.bytes.len() as u64) < header.len {
        return Err(corrupt_at(&found.path, found.bytes.len() as u64, "the file was cut off"));
    }
    Ok(header)
}

fn missing_file(dir: &Path, number: u32) -> Error {
    Error::corrupt(format!(
        "file {} of node log folder {} is missing; restore the folder from a copy, or remove this node from its replica \
         sets and start it with an empty folder",
        file_name(number),
        dir.display()
    ))
}

fn remove(disk: &dyn Disk, path: &Path) -> Result<()> {
    disk.remove(path).map_err(|error| io_error("remove", path, error))
}

/// The end of what is whole in a segment.
#[derive(Debug)]
struct Tail {
    /// Where the next block goes.
    end: u64,
    /// The last block, as it is on disk.
    last_block: Option<(u64, Vec<u8>)>,
    /// What was written after it and never synced, up to the last byte that is not zero.
    torn: Vec<u8>,
}

impl Tail {
    /// Zeroes what a crash has torn, and writes the last block once more: if this process failed to sync it before,
    /// the operating system shows it but will not write it by itself.
    fn clean(&self, segment: &Segment) -> std::io::Result<()> {
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

/// What was read so far.
struct Replay {
    index: Index,
    next_lsn: Option<u64>,
}

impl Replay {
    /// Reads the blocks of a segment that has some.
    fn replay(&mut self, segment: &Segment, mut bytes: Vec<u8>, oldest: bool) -> Result<Tail> {
        let mut at = SEGMENT_HEADER_BYTES;
        let mut last_block: Option<(u64, Vec<u8>)> = None;
        let mut last_range = 0..0;
        loop {
            let rest = &bytes[at.min(bytes.len())..];
            let Some(block) = self.block(segment, at as u64, rest)? else { break };
            last_range = at..at + align(u64::from(block.len)) as usize;
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
            self.next_lsn = Some(block.first_lsn + u64::from(block.batches));
            at = last_range.end;
        }
        if last_block.is_none() && !last_range.is_empty() {
            last_block = Some((last_range.start as u64, bytes[last_range].to_vec()));
        }
        let rest = &bytes[at.min(bytes.len())..];
        let torn = rest.iter().rposition(|byte| *byte != 0).map_or(&[][..], |last| &rest[..=last]).to_vec();
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
        if self.next_lsn.is_some_and(|expected| expected != header.first_lsn) {
            return Err(segment.corrupt(offset, "batches are missing before this block"));
        }
        let extent = align(u64::from(header.len)) as usize;
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
        for _ in 0..block.batches {
            let wrong = |what| segment.corrupt((at + start) as u64, &format!("a batch cannot be read: {what}"));
            let Some(header) = bytes.get(start..start + BATCH_HEADER_BYTES) else {
                return Err(wrong("the block ends before it"));
            };
            let from = start + BATCH_HEADER_BYTES;
            let Some(batch) = bytes.get(from..from + u32_at(header, 0) as usize) else {
                return Err(wrong("the block ends in the midst of it"));
            };
            // Places in a segment have 32 bits: `load` has seen to it.
            let mut reader = BatchReader::new(batch, segment.number, (at + from) as u32);
            while let Some(write) = reader.next().map_err(wrong)? {
                self.index.replay(write, oldest).map_err(wrong)?;
            }
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
