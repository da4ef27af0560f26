//! The stream in which a whole state travels; `docs/internals/state-store.md` has it byte by byte.

use bytes::{BufMut, Bytes, BytesMut};
use mainstay_core::{Error, ErrorKind, Result};

use super::{Counts, EXPORT_CHUNK_BYTES_MAX, Mark, Scan};
use crate::formats;

const MAGIC: [u8; 4] = *b"MSXP";

const ENTRIES: u8 = 1;
const TRAILER: u8 = 2;

/// Magic, version, kind, two zeros, sequence number, checksum.
const HEAD_BYTES: usize = 20;
const VERSION_AT: usize = 4;
const KIND_AT: usize = 5;
const CHECKSUM_AT: usize = 16;

/// Turns the entries of a whole state into chunks.
pub(crate) struct ChunkWriter {
    scan: Scan,
    mark: Mark,
    counts: Counts,
    /// The entry that had no room in the chunk before.
    held: Option<(Bytes, Bytes)>,
    sequence: u64,
    checksum: u32,
    done: bool,
}

impl ChunkWriter {
    /// A writer over a scan of all keys in ascending order.
    pub(crate) fn new(scan: Scan, mark: Mark) -> Self {
        Self { scan, mark, counts: Counts::default(), held: None, sequence: 0, checksum: 0, done: false }
    }

    fn chunk(&mut self) -> Result<Bytes> {
        let mut chunk = BytesMut::new();
        chunk.put_bytes(0, HEAD_BYTES);
        while let Some((key, value)) = self.held.take().map(Ok).or_else(|| self.scan.next()).transpose()? {
            let entry_bytes = 8 + key.len() + value.len();
            if chunk.len() > HEAD_BYTES && chunk.len() + entry_bytes > EXPORT_CHUNK_BYTES_MAX {
                self.held = Some((key, value));
                break;
            }
            self.counts.entries += 1;
            self.counts.bytes += (key.len() + value.len()) as u64;
            chunk.put_u32_le(length(&key)?);
            chunk.put_u32_le(length(&value)?);
            chunk.put_slice(&key);
            chunk.put_slice(&value);
        }
        if chunk.len() > HEAD_BYTES {
            return Ok(self.seal(chunk, ENTRIES));
        }
        chunk.put_u64_le(self.counts.entries);
        chunk.put_u64_le(self.counts.bytes);
        chunk.put_u64_le(self.mark.index);
        chunk.put_slice(&self.mark.note);
        self.done = true;
        Ok(self.seal(chunk, TRAILER))
    }

    fn seal(&mut self, mut chunk: BytesMut, kind: u8) -> Bytes {
        chunk[..4].copy_from_slice(&MAGIC);
        chunk[VERSION_AT] = formats::EXPORT.written();
        chunk[KIND_AT] = kind;
        chunk[8..CHECKSUM_AT].copy_from_slice(&self.sequence.to_le_bytes());
        self.checksum = checksum(self.checksum, &chunk);
        chunk[CHECKSUM_AT..HEAD_BYTES].copy_from_slice(&self.checksum.to_le_bytes());
        self.sequence += 1;
        chunk.freeze()
    }
}

impl Iterator for ChunkWriter {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let chunk = self.chunk();
        // After a failed read the stream has a hole; it must not go on and look complete.
        self.done |= chunk.is_err();
        Some(chunk)
    }
}

fn length(bytes: &Bytes) -> Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| {
        Error::new(ErrorKind::TooLarge, format!("a key or value of {} bytes is too long to export", bytes.len()))
    })
}

/// The checksum of a chunk continues that of the chunk before, so that chunks of two exports cannot be mixed.
fn checksum(before: u32, chunk: &[u8]) -> u32 {
    let over_head = crc32c::crc32c_append(before, &chunk[..CHECKSUM_AT]);
    crc32c::crc32c_append(over_head, &chunk[HEAD_BYTES..])
}

/// Checks chunks as they come in and takes them apart. A chunk that is refused leaves the reader as it was.
#[derive(Debug, Default)]
pub(crate) struct ChunkReader {
    sequence: u64,
    checksum: u32,
    counts: Counts,
    last_key: Option<Bytes>,
    mark: Option<Mark>,
}

impl ChunkReader {
    /// The entries of the next chunk; none for the last, which completes the stream.
    pub(crate) fn accept<'a>(&mut self, chunk: &'a [u8]) -> Result<Entries<'a>> {
        let sequence = self.sequence;
        let damaged =
            |what: &str| Error::corrupt(format!("chunk {sequence} of an import {what}: send the export anew"));
        if self.mark.is_some() {
            return Err(damaged("comes after the end of the stream"));
        }
        let Some((head, body)) = chunk.split_at_checked(HEAD_BYTES) else {
            return Err(damaged("is cut off within its head"));
        };
        if head[..4] != MAGIC {
            return Err(damaged("does not start like an export"));
        }
        formats::EXPORT.check_of(head[VERSION_AT], format_args!("chunk {sequence} of an import"))?;
        if u64_at(head, 8) != sequence {
            return Err(damaged(&format!("is out of order: its number is {}", u64_at(head, 8))));
        }
        let checksum = checksum(self.checksum, chunk);
        if checksum != u32_at(head, CHECKSUM_AT) {
            return Err(damaged("is damaged or belongs to another export: its checksum differs"));
        }
        let entries = match head[KIND_AT] {
            ENTRIES => {
                self.check_entries(body).ok_or_else(|| damaged("has entries that are cut off or not in order"))?
            }
            TRAILER => {
                self.mark =
                    Some(self.check_trailer(body).ok_or_else(|| damaged("ends a stream that is not complete"))?);
                Entries { rest: &[] }
            }
            other => return Err(damaged(&format!("has the unknown kind {other}"))),
        };
        self.sequence += 1;
        self.checksum = checksum;
        Ok(entries)
    }

    /// The mark and the counts of a complete stream.
    pub(crate) fn complete(&self) -> Result<(Mark, Counts)> {
        match &self.mark {
            Some(mark) => Ok((mark.clone(), self.counts)),
            None => Err(Error::corrupt(format!(
                "import ends after {} chunks without the last one: send the export anew",
                self.sequence
            ))),
        }
    }

    fn check_entries<'a>(&mut self, body: &'a [u8]) -> Option<Entries<'a>> {
        let mut rest = body;
        let mut counts = self.counts;
        let mut last = self.last_key.as_deref();
        while !rest.is_empty() {
            let (key, value) = split_entry(&mut rest)?;
            if last.is_some_and(|last| key <= last) {
                return None;
            }
            last = Some(key);
            counts.entries += 1;
            counts.bytes += (key.len() + value.len()) as u64;
        }
        self.last_key = last.map(Bytes::copy_from_slice);
        self.counts = counts;
        Some(Entries { rest: body })
    }

    fn check_trailer(&self, body: &[u8]) -> Option<Mark> {
        let (numbers, note) = body.split_at_checked(24)?;
        let counts = Counts { entries: u64_at(numbers, 0), bytes: u64_at(numbers, 8) };
        (counts == self.counts).then(|| Mark { index: u64_at(numbers, 16), note: Bytes::copy_from_slice(note) })
    }
}

/// The entries of a chunk that was checked.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        split_entry(&mut self.rest)
    }
}

fn split_entry<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (lengths, after) = rest.split_at_checked(8)?;
    let (key, after) = after.split_at_checked(u32_at(lengths, 0) as usize)?;
    let (value, after) = after.split_at_checked(u32_at(lengths, 4) as usize)?;
    *rest = after;
    Some((key, value))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests;
