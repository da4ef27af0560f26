//! Finding out what a folder of segments holds: which blocks are whole, and whether what is not was torn by a crash
//! or damaged afterwards.

mod replay;
mod tail;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, RESTORE, Result};

use replay::Replay;
use tail::Tail;

use super::file::{Segment, corrupt_at, file_name, file_number};
use super::format::{self, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::index::Index;
use super::io_error::io_error;
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
/// anything is damaged. Empty segments that are taken into use get this alignment.
pub(super) fn recover(disk: &dyn Disk, dir: &Path, alignment: u32) -> Result<Option<Recovered>> {
    let numbers = list(disk, dir)?;
    let Some(oldest) = numbers.first().copied() else { return Ok(None) };
    let missing = numbers.windows(2).find(|pair| pair[1] - pair[0] > 1).map(|pair| pair[0] + 1);

    let mut replay = Replay::default();
    let mut read = ReadSegments::default();
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
        if let Some((last, tail)) = read.last().filter(|(_, tail)| !tail.torn.is_empty()) {
            return Err(last.corrupt(tail.end, "a block is broken, but a later segment proves that it was whole"));
        }
        let header = header_of(&found)?;
        let segment = Segment::found(header, found.path.clone(), Arc::clone(&found.file), found.bytes.len() as u64);
        let tail = replay.replay(&segment, found.bytes, number == oldest)?;
        read.push(Arc::new(segment), tail);
    }

    let index = replay.groups.finish().map_err(|(group, index)| {
        Error::corrupt(format!(
            "entry {index} of group {} is in no file of node log folder {}: a file is missing; {RESTORE}",
            group.0,
            dir.display()
        ))
    })?;
    let next_lsn = replay.next_lsn.unwrap_or(1);
    let Some(Resume { segments, spare, end }) = finish(disk, dir, read, unused, alignment)? else { return Ok(None) };
    Ok(Some(Recovered { index, segments, spare, end, next_lsn }))
}

/// The segments that something was written to, and how the last two end.
#[derive(Default)]
struct ReadSegments {
    segments: Vec<Arc<Segment>>,
    tail: Option<Tail>,
    tail_before: Option<Tail>,
}

impl ReadSegments {
    fn push(&mut self, segment: Arc<Segment>, tail: Tail) {
        self.segments.push(segment);
        self.tail_before = self.tail.replace(tail);
    }

    fn last(&self) -> Option<(&Arc<Segment>, &Tail)> {
        self.segments.last().zip(self.tail.as_ref())
    }

    /// Takes the last segment away if it has no whole block and is not the first of all. The log has never got there
    /// then: it goes on in the one before, which was whole before anything was written to this one.
    ///
    /// # Errors
    /// `Corrupt` if there is none before.
    fn take_blank(&mut self) -> Result<Option<(Arc<Segment>, Tail)>> {
        let Some((last, _)) = self.last().filter(|(last, tail)| tail.is_blank() && last.number > 1) else {
            return Ok(None);
        };
        if self.segments.len() == 1 {
            let what = "it has no whole block and is the oldest: files before it are missing";
            return Err(last.corrupt(SEGMENT_HEADER_BYTES as u64, what));
        }
        let tail = std::mem::replace(&mut self.tail, self.tail_before.take());
        Ok(self.segments.pop().zip(tail))
    }
}

/// Where the log goes on.
struct Resume {
    segments: Vec<Arc<Segment>>,
    spare: Option<Arc<Segment>>,
    end: u64,
}

/// Decides where the log goes on, and cleans up.
fn finish(
    disk: &dyn Disk,
    dir: &Path,
    mut read: ReadSegments,
    unused: Vec<Found>,
    alignment: u32,
) -> Result<Option<Resume>> {
    let mut unused = unused.into_iter();
    let blank = read.take_blank()?;
    let ReadSegments { mut segments, tail, .. } = read;
    let end;
    let mut spare = None;
    match (segments.last(), tail, blank) {
        (Some(last), Some(tail), Some((blank, torn))) => {
            // The segment after it is durable before the first block is written. One that no block was begun in may
            // be the spare one, with damage where nothing is.
            if torn.has_begun_block() {
                let wanted = successor(&blank)?;
                if unused.as_slice().first().is_none_or(|next| next.number != wanted) {
                    return Err(missing_file(dir, wanted));
                }
            }
            // Before anything is written to the segment before: what is left here would be taken for a proof that
            // all of that was durable.
            torn.clean(&blank).map_err(|error| io_error("clean up", &blank.path, error))?;
            let header = SegmentHeader::new(blank.number, blank.created_len(), alignment);
            let blank = Segment::found(header, blank.path.clone(), Arc::clone(&blank.file), blank.len());
            blank.sync_header().map_err(|error| io_error("write to", &blank.path, error))?;
            blank.restart_fill();
            tail.clean(last).map_err(|error| io_error("clean up the end of", &last.path, error))?;
            end = tail.end;
            spare = Some(Arc::new(blank));
        }
        (Some(last), Some(tail), None) => {
            // The next segment is durable before the first block of one is written.
            let wanted = successor(last)?;
            let next = unused.next().filter(|next| next.number == wanted);
            let Some(next) = next else { return Err(missing_file(dir, wanted)) };
            let header = header_of(&next)?;
            tail.clean(last).map_err(|error| io_error("clean up the end of", &last.path, error))?;
            end = tail.end;
            spare = Some(take_empty(next, header, alignment)?);
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
                // The machine stopped while the log was created for the first time. The first file is durable before
                // the next is made: with a next one there was a log, and it is damaged.
                Err(_) if unused.as_slice().is_empty() && is_unfinished(&first) => return Ok(None),
                Err(error) => return Err(error),
            };
            let first = take_empty(first, header, alignment)?;
            end = first.start();
            segments.push(first);
            if let Some((Ok(header), next)) = unused.as_slice().first().map(|next| (header_of(next), next))
                && next.number == 2
            {
                spare = unused.next().map(|next| take_empty(next, header, alignment)).transpose()?;
            }
        }
    }
    // Segments that were created for a rotation which never happened.
    for later in unused {
        remove(disk, &later.path)?;
    }
    disk.sync_dir(dir).map_err(|error| io_error("sync", dir, error))?;
    Ok(Some(Resume { segments, spare, end }))
}

/// The number of the segment after one.
fn successor(segment: &Segment) -> Result<u32> {
    segment.number.checked_add(1).ok_or_else(|| segment.corrupt(12, "no segment can have a number after its own"))
}

/// True for what a crash may leave of a file that was being created: no header, which is written whole or not at all, or
/// one of a file that is not as long yet.
fn is_unfinished(found: &Found) -> bool {
    format::is_zero(&found.bytes)
        || SegmentHeader::decode(&found.bytes).is_ok_and(|header| header.number == found.number)
}

/// Takes an empty segment into use, whatever version and alignment it was created with. Who created it may have failed to sync it,
/// or was killed before.
fn take_empty(found: Found, header: SegmentHeader, alignment: u32) -> Result<Arc<Segment>> {
    let len = found.bytes.len() as u64;
    let header = SegmentHeader::new(header.number, header.len, alignment);
    let segment = Segment::found(header, found.path, found.file, len);
    segment.sync_header().map_err(|error| io_error("write to", &segment.path, error))?;
    segment.restart_fill();
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
    let file = disk.open_direct(&path, OpenMode::Existing).map_err(failed)?;
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
        ErrorKind::UnknownVersion => error.about(format_args!("node log file {}", found.path.display())),
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
    Error::corrupt(format!("file {} of node log folder {} is missing; {RESTORE}", file_name(number), dir.display()))
}

fn remove(disk: &dyn Disk, path: &Path) -> Result<()> {
    disk.remove(path).map_err(|error| io_error("remove", path, error))
}
