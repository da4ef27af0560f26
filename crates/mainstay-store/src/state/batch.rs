//! The encoded form of writes; `docs/internals/state-store.md` has it byte by byte.

use mainstay_core::{Error, Result};
use smallvec::SmallVec;

use super::{Write, prefix_successor};
use crate::formats::WRITE_BATCH;

/// The version of a batch of puts and deletes alone, in the first byte.
const VERSION_1: u8 = 1;

/// The version of a batch with at least one add, stamped put or note, which builds that know version 1 alone refuse.
const VERSION_2: u8 = 2;

/// The version and the number of writes.
const HEAD_BYTES: usize = 1 + 8;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const DELETE_RANGE: u8 = 3;
const DELETE_FROM: u8 = 4;
const ADD: u8 = 5;
const PUT_STAMPED: u8 = 6;
const NOTE: u8 = 7;

/// The room that a batch starts with: enough for a small value or two without growing.
const BUFFER_BYTES_FIRST: usize = 256;

/// How long a prefix may be to need no allocation: a partition's number.
const PREFIX_BYTES_IN_PLACE: usize = 8;

/// Writes in the form in which they are logged and applied: encoded once, into a buffer that can be used again.
///
/// ```
/// use mainstay_store::state::{Write, WriteBatch, WriteBatchRef};
///
/// let mut batch = WriteBatch::with_prefix(b"p7/");
/// batch.put(b"name", b"alice").delete(b"mail");
/// let stored = WriteBatchRef::parse(batch.as_bytes())?;
/// assert_eq!(stored.iter().next(), Some(Write::Put { key: b"p7/name", value: b"alice" }));
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteBatch {
    buffer: Vec<u8>,
    prefix: SmallVec<[u8; PREFIX_BYTES_IN_PLACE]>,
    len: u64,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::with_prefix(&[])
    }

    /// An empty batch that puts a prefix in front of every key: it can touch no key outside of it.
    pub fn with_prefix(prefix: &[u8]) -> Self {
        let mut batch =
            Self { buffer: Vec::with_capacity(BUFFER_BYTES_FIRST), prefix: SmallVec::from_slice(prefix), len: 0 };
        batch.clear();
        batch
    }

    /// Sets a key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        self.buffer.push(PUT);
        self.push_key(key);
        push_bytes(&mut self.buffer, value);
        self.count(1)
    }

    /// Sets a key; key and value are given in parts that are put together here, so that nobody has to do so before.
    pub fn put_parts(&mut self, key: &[&[u8]], value: &[&[u8]]) -> &mut Self {
        self.buffer.push(PUT);
        push_varint(&mut self.buffer, self.prefix.len() + parts_bytes(key));
        self.buffer.extend_from_slice(&self.prefix);
        key.iter().for_each(|part| self.buffer.extend_from_slice(part));
        push_varint(&mut self.buffer, parts_bytes(value));
        value.iter().for_each(|part| self.buffer.extend_from_slice(part));
        self.count(1)
    }

    /// Removes a key.
    pub fn delete(&mut self, key: &[u8]) -> &mut Self {
        self.buffer.push(DELETE);
        self.push_key(key);
        self.count(1)
    }

    /// Removes all keys from `start` and before `end`; `None` removes all that follow, within the batch's prefix.
    pub fn delete_range(&mut self, start: &[u8], end: Option<&[u8]>) -> &mut Self {
        let tag_at = self.buffer.len();
        self.buffer.push(DELETE_RANGE);
        self.push_key(start);
        if let Some(end) = end {
            self.push_key(end);
        } else if let Some(end) = prefix_successor(&self.prefix) {
            push_bytes(&mut self.buffer, &end);
        } else {
            self.buffer[tag_at] = DELETE_FROM;
        }
        self.count(1)
    }

    /// Adds to a counter: a value of 8 bytes, `i64` little-endian. One that is not there is 0, and one that becomes 0 is
    /// removed; a sum stops at the ends of `i64`. Changes that are under way at the same time all count.
    ///
    /// A counter's key is for counters alone: applying fails with `Invalid` where it has a value of another length.
    pub fn add(&mut self, key: &[u8], delta: i64) -> &mut Self {
        self.buffer.push(ADD);
        self.push_key(key);
        self.buffer.extend_from_slice(&delta.to_le_bytes());
        self.count_new()
    }

    /// Sets the key that is `start`, then the stamp of the batch, then `end`. The stamp is a number of 8 bytes, big-endian,
    /// that is known when the batch is applied (see [`Writes`]): so keys can be in the order of commits.
    ///
    /// Two in one batch with the same start and end are the same key.
    pub fn put_stamped(&mut self, start: &[u8], end: &[u8], value: &[u8]) -> &mut Self {
        self.buffer.push(PUT_STAMPED);
        self.push_key(start);
        push_bytes(&mut self.buffer, end);
        push_bytes(&mut self.buffer, value);
        self.count_new()
    }

    /// Leaves a message for those who follow the log; it changes nothing. It has the batch's prefix in front, as keys
    /// have it.
    pub fn note(&mut self, note: &[u8]) -> &mut Self {
        self.buffer.push(NOTE);
        self.push_key(note);
        self.count_new()
    }

    /// Adds all writes of another batch, whose keys have their prefix already.
    pub fn extend(&mut self, other: WriteBatchRef<'_>) -> &mut Self {
        self.buffer[0] = self.buffer[0].max(other.bytes[0]);
        self.buffer.extend_from_slice(other.body());
        self.count(other.len)
    }

    /// The number of writes.
    pub fn len(&self) -> usize {
        usize::try_from(self.len).unwrap_or(usize::MAX)
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The size of the encoded form.
    pub fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The encoded form: what goes to the log, and what [`WriteBatchRef::parse`] takes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The writes in order, with their whole keys and the stamp 0.
    pub fn iter(&self) -> Writes<'_> {
        self.stamped(0)
    }

    /// The writes in order, with their whole keys and a stamp.
    pub fn stamped(&self, stamp: u64) -> Writes<'_> {
        Writes { rest: &self.buffer[HEAD_BYTES..], stamp }
    }

    /// Empties the batch; the prefix stays, and so does the buffer.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.buffer.push(VERSION_1);
        self.buffer.extend_from_slice(&0_u64.to_le_bytes());
        self.len = 0;
    }

    fn push_key(&mut self, key: &[u8]) {
        push_varint(&mut self.buffer, self.prefix.len() + key.len());
        self.buffer.extend_from_slice(&self.prefix);
        self.buffer.extend_from_slice(key);
    }

    /// Counts a write that version 1 does not have.
    fn count_new(&mut self) -> &mut Self {
        self.buffer[0] = VERSION_2;
        self.count(1)
    }

    fn count(&mut self, writes: u64) -> &mut Self {
        self.len += writes;
        self.buffer[1..HEAD_BYTES].copy_from_slice(&self.len.to_le_bytes());
        self
    }
}

impl Default for WriteBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> IntoIterator for &'a WriteBatch {
    type Item = Write<'a>;
    type IntoIter = Writes<'a>;

    fn into_iter(self) -> Writes<'a> {
        self.iter()
    }
}

/// Writes that were received or read back, checked as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBatchRef<'a> {
    bytes: &'a [u8],
    len: u64,
}

impl<'a> WriteBatchRef<'a> {
    /// Checks an encoded batch from end to end, so that reading it cannot fail.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are no batch, `UnknownVersion` if they are one of another version.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let Some((head, body)) = bytes.split_at_checked(HEAD_BYTES) else {
            return Err(Error::corrupt(format!(
                "write batch of {} bytes is shorter than its head of {HEAD_BYTES}",
                bytes.len()
            )));
        };
        let version = head[0];
        WRITE_BATCH.check(version)?;
        let mut count = [0; 8];
        count.copy_from_slice(&head[1..]);
        let len = u64::from_le_bytes(count);

        let mut rest = body;
        let mut found = 0_u64;
        let mut needed = VERSION_1;
        while let Some(&tag) = rest.first() {
            let at = bytes.len() - rest.len();
            if split_write(&mut rest, 0).is_none() {
                return Err(Error::corrupt(format!("write {found} of a write batch is damaged at byte {at}")));
            }
            if tag >= ADD {
                needed = VERSION_2;
            }
            found += 1;
        }
        if found != len {
            return Err(Error::corrupt(format!("write batch has {found} writes where its head says {len}")));
        }
        if version != needed {
            return Err(Error::corrupt(format!("write batch has version {version} and writes of version {needed}")));
        }
        Ok(Self { bytes, len })
    }

    /// The number of writes.
    pub fn len(&self) -> usize {
        usize::try_from(self.len).unwrap_or(usize::MAX)
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The writes in order, with the stamp 0.
    pub fn iter(&self) -> Writes<'a> {
        self.stamped(0)
    }

    /// The writes in order, with a stamp.
    pub fn stamped(&self, stamp: u64) -> Writes<'a> {
        Writes { rest: self.body(), stamp }
    }
}

impl<'a> WriteBatchRef<'a> {
    /// The encoded form.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn body(&self) -> &'a [u8] {
        // Parsing has seen that the head is there.
        &self.bytes[HEAD_BYTES..]
    }
}

impl<'a> IntoIterator for &WriteBatchRef<'a> {
    type Item = Write<'a>;
    type IntoIter = Writes<'a>;

    fn into_iter(self) -> Writes<'a> {
        self.iter()
    }
}

/// The writes of a batch, in order.
///
/// The stamp is what the keys of [`Write::PutStamped`] get: the place of the batch in the order of all. Who applies it
/// knows the stamp and gives it to [`WriteBatch::stamped`] or [`WriteBatchRef::stamped`].
#[derive(Debug, Clone)]
pub struct Writes<'a> {
    /// Always a sequence of whole writes: only a checked or a freshly encoded body gets here.
    rest: &'a [u8],
    stamp: u64,
}

impl<'a> Iterator for Writes<'a> {
    type Item = Write<'a>;

    fn next(&mut self) -> Option<Write<'a>> {
        split_write(&mut self.rest, self.stamp)
    }
}

/// Takes one write off the front; `None` if there is none or it is damaged.
fn split_write<'a>(rest: &mut &'a [u8], stamp: u64) -> Option<Write<'a>> {
    let (&tag, mut after) = rest.split_first()?;
    let first = split_bytes(&mut after)?;
    let write = match tag {
        PUT => Write::Put { key: first, value: split_bytes(&mut after)? },
        DELETE => Write::Delete { key: first },
        DELETE_RANGE => Write::DeleteRange { start: first, end: Some(split_bytes(&mut after)?) },
        DELETE_FROM => Write::DeleteRange { start: first, end: None },
        ADD => {
            let (delta, left) = after.split_first_chunk()?;
            after = left;
            Write::Add { key: first, delta: i64::from_le_bytes(*delta) }
        }
        PUT_STAMPED => {
            Write::PutStamped { start: first, stamp, end: split_bytes(&mut after)?, value: split_bytes(&mut after)? }
        }
        NOTE => Write::Note { note: first },
        _ => return None,
    };
    *rest = after;
    Some(write)
}

fn split_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = split_varint(rest)?;
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(bytes)
}

fn push_bytes(buffer: &mut Vec<u8>, bytes: &[u8]) {
    push_varint(buffer, bytes.len());
    buffer.extend_from_slice(bytes);
}

fn parts_bytes(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// Seven bits to a byte, the lowest first; the high bit says that more follow.
fn push_varint(buffer: &mut Vec<u8>, number: usize) {
    let mut left = number;
    while left >= 0x80 {
        buffer.push((left as u8 & 0x7f) | 0x80);
        left >>= 7;
    }
    buffer.push(left as u8);
}

fn split_varint(rest: &mut &[u8]) -> Option<usize> {
    let mut number = 0_u64;
    for (at, &byte) in rest.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit only.
        if at == 9 && bits > 1 {
            return None;
        }
        number |= bits << (7 * at);
        if byte & 0x80 == 0 {
            // One number has one form, so that equal batches have equal bytes.
            if byte == 0 && at > 0 {
                return None;
            }
            *rest = &rest[at + 1..];
            return usize::try_from(number).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests;
