//! What a batch looks like inside of a block: a length, then its writes.

use bytes::Bytes;

use super::format::{u32_at, u64_at};
use super::index::Position;
use crate::log::GroupId;
use crate::log::batch::LogWrite;

const APPEND: u8 = 1;
const HARD_STATE: u8 = 2;
const TRUNCATE: u8 = 3;
const COMPACT: u8 = 4;
const REMOVE: u8 = 5;
const CARRY: u8 = 6;
const MOVED: u8 = 7;

/// What a carry has, as bits of its flags.
const HAS_HARD_STATE: u8 = 1;
const HAS_MARK: u8 = 2;

/// The length before each batch.
pub(super) const BATCH_HEADER_BYTES: usize = 4;
/// What a moved entry needs beside its bytes.
pub(super) const MOVED_HEADER_BYTES: usize = 1 + 8 + 8 + 4;
/// What a carry needs beside its hard state and its mark,
pub(super) const CARRY_HEADER_BYTES: usize = 1 + 8 + 8 + 8 + 1;
/// and what each of those needs beside its bytes.
pub(super) const TEXT_HEADER_BYTES: usize = 4;

/// The bytes that a write takes.
pub(super) fn size_of(write: &LogWrite) -> usize {
    match write {
        LogWrite::Append { entries, .. } if entries.is_empty() => 0,
        LogWrite::Append { entries, .. } => 1 + 8 + 8 + 4 + entries.iter().map(|entry| 4 + entry.len()).sum::<usize>(),
        LogWrite::HardState { state, .. } => 1 + 8 + 4 + state.len(),
        LogWrite::Truncate { .. } => 1 + 8 + 8,
        LogWrite::Compact { mark, .. } => 1 + 8 + 8 + 4 + mark.len(),
        LogWrite::Remove { .. } => 1 + 8,
    }
}

/// Writes a write; `entry` is told of every entry and where in the buffer it starts. The caller has checked that the
/// whole batch fits into 32 bits.
pub(super) fn encode(write: &LogWrite, buffer: &mut Vec<u8>, mut entry: impl FnMut(usize, &Bytes)) {
    match write {
        LogWrite::Append { entries, .. } if entries.is_empty() => {}
        LogWrite::Append { group, first, entries } => {
            head(buffer, APPEND, *group);
            buffer.extend_from_slice(&first.to_le_bytes());
            buffer.extend_from_slice(&(entries.len() as u32).to_le_bytes());
            for bytes in entries {
                buffer.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                entry(buffer.len(), bytes);
                buffer.extend_from_slice(bytes);
            }
        }
        LogWrite::HardState { group, state } => {
            head(buffer, HARD_STATE, *group);
            text(buffer, state);
        }
        LogWrite::Truncate { group, from } => {
            head(buffer, TRUNCATE, *group);
            buffer.extend_from_slice(&from.to_le_bytes());
        }
        LogWrite::Compact { group, through, mark } => {
            head(buffer, COMPACT, *group);
            buffer.extend_from_slice(&through.to_le_bytes());
            text(buffer, mark);
        }
        LogWrite::Remove { group } => head(buffer, REMOVE, *group),
    }
}

/// Writes what is known of a group at the start of a segment.
pub(super) fn encode_carry(buffer: &mut Vec<u8>, carry: &Carry) {
    head(buffer, CARRY, carry.group);
    buffer.extend_from_slice(&carry.first.to_le_bytes());
    buffer.extend_from_slice(&carry.next.to_le_bytes());
    let hard_state = if carry.hard_state.is_some() { HAS_HARD_STATE } else { 0 };
    let mark = if carry.mark.is_some() { HAS_MARK } else { 0 };
    buffer.push(hard_state | mark);
    for bytes in [&carry.hard_state, &carry.mark].into_iter().flatten() {
        text(buffer, bytes);
    }
}

/// Writes an entry anew that is moved out of an old segment; returns where its bytes start in the buffer.
pub(super) fn encode_moved(buffer: &mut Vec<u8>, group: GroupId, index: u64, bytes: &[u8]) -> usize {
    head(buffer, MOVED, group);
    buffer.extend_from_slice(&index.to_le_bytes());
    text(buffer, bytes);
    buffer.len() - bytes.len()
}

fn head(buffer: &mut Vec<u8>, tag: u8, group: GroupId) {
    buffer.push(tag);
    buffer.extend_from_slice(&group.0.to_le_bytes());
}

fn text(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    buffer.extend_from_slice(bytes);
}

/// All that is known of a group apart from its entries, as it was when a segment was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Carry {
    pub(super) group: GroupId,
    pub(super) first: u64,
    pub(super) next: u64,
    pub(super) hard_state: Option<Bytes>,
    pub(super) mark: Option<Bytes>,
}

/// A write as it is read back: entries are where they are.
#[derive(Debug)]
pub(super) enum Stored {
    Append { group: GroupId, first: u64, entries: Vec<Position> },
    HardState { group: GroupId, state: Bytes },
    Truncate { group: GroupId, from: u64 },
    Compact { group: GroupId, through: u64, mark: Bytes },
    Remove { group: GroupId },
    Carry(Carry),
    Moved { group: GroupId, index: u64, entry: Position },
}

/// Reads the writes of a batch, one by one.
#[derive(Debug)]
pub(super) struct BatchReader<'a> {
    bytes: &'a [u8],
    segment: u32,
    /// Where in the segment the rest of the bytes lies.
    offset: u32,
}

impl<'a> BatchReader<'a> {
    pub(super) fn new(bytes: &'a [u8], segment: u32, offset: u32) -> Self {
        Self { bytes, segment, offset }
    }

    /// The next write; `None` at the end, and a text that says what is wrong if the bytes make no sense.
    pub(super) fn next(&mut self) -> Result<Option<Stored>, &'static str> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let tag = self.take(1)?[0];
        let group = GroupId(self.u64()?);
        Ok(Some(match tag {
            APPEND => {
                let (first, count) = (self.u64()?, self.u32()?);
                // Every entry takes four bytes at least: a count that cannot be true reserves nothing.
                let mut entries = Vec::with_capacity((count as usize).min(self.bytes.len() / 4));
                for _ in 0..count {
                    entries.push(self.entry()?);
                }
                Stored::Append { group, first, entries }
            }
            HARD_STATE => Stored::HardState { group, state: self.text()? },
            TRUNCATE => Stored::Truncate { group, from: self.u64()? },
            COMPACT => Stored::Compact { group, through: self.u64()?, mark: self.text()? },
            REMOVE => Stored::Remove { group },
            CARRY => {
                let (first, next, flags) = (self.u64()?, self.u64()?, self.take(1)?[0]);
                let hard_state = if flags & HAS_HARD_STATE != 0 { Some(self.text()?) } else { None };
                let mark = if flags & HAS_MARK != 0 { Some(self.text()?) } else { None };
                Stored::Carry(Carry { group, first, next, hard_state, mark })
            }
            MOVED => Stored::Moved { group, index: self.u64()?, entry: self.entry()? },
            _ => return Err("it has a write of an unknown kind"),
        }))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or("it ends in the midst of a write")?;
        self.bytes = rest;
        // A segment is addressed by 32 bits, so what was taken from it is, too.
        self.offset += len as u32;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        Ok(u32_at(self.take(4)?, 0))
    }

    fn u64(&mut self) -> Result<u64, &'static str> {
        Ok(u64_at(self.take(8)?, 0))
    }

    fn text(&mut self) -> Result<Bytes, &'static str> {
        let len = self.u32()?;
        Ok(Bytes::copy_from_slice(self.take(len as usize)?))
    }

    fn entry(&mut self) -> Result<Position, &'static str> {
        let len = self.u32()?;
        let offset = self.offset;
        let bytes = self.take(len as usize)?;
        Ok(Position { segment: self.segment, offset, len, checksum: crc32c::crc32c(bytes) })
    }
}
