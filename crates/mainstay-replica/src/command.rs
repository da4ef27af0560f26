//! What a log entry says: the commits of many callers, merged by the committer and taken apart when they are applied.
//!
//! A command carries the epoch that it was written for. It is applied only if the entry was proposed in that very
//! epoch: a transaction that began under one primary can never land under another.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use mainstay_core::{Epoch, Error, Result, SequenceNumber};
use mainstay_store::state::{Write, WriteBatchRef};

use crate::formats::COMMAND;

/// The bits of a sequence number that count the commits within one entry.
const POSITION_BITS: u32 = 16;

/// How many commits one entry can hold.
pub(crate) const COMMITS_PER_ENTRY_MAX: usize = 1 << POSITION_BITS;

/// How many batches one commit can be of. Each has a length in the entry, for which the node log has room beside the bytes of
/// commits: see `log_batch_bytes`.
pub(crate) const BATCHES_PER_COMMIT_MAX: usize = 1 << 16;

/// The bytes in front of the commits.
const HEADER_BYTES: usize = 1 + 8 + 4;

/// The sequence number of a commit: the index of its entry and its place within it.
pub(crate) fn sequence_number(index: u64, position: usize) -> SequenceNumber {
    SequenceNumber(index << POSITION_BITS | position as u64)
}

/// The number below which all commits of a state lie, and no other: the state has applied all entries before `next`.
pub(crate) fn last_sequence_number(next: u64) -> SequenceNumber {
    SequenceNumber((next << POSITION_BITS).saturating_sub(1))
}

/// The index of the entry in which the first commit after a number can be.
pub(crate) fn entry_after(number: SequenceNumber) -> u64 {
    number.0.saturating_add(1) >> POSITION_BITS
}

/// How many bytes a commit takes in a command.
pub(crate) fn commit_bytes<'a>(batches: impl ExactSizeIterator<Item = &'a [u8]>) -> usize {
    4 + batches.map(|batch| 4 + batch.len()).sum::<usize>()
}

/// Encodes a commit, part by part.
pub(crate) fn encode_commit<'a>(batches: impl ExactSizeIterator<Item = &'a [u8]>, mut put: impl FnMut(&[u8])) {
    // There are far fewer, and they are far shorter, than 32 bits can say: see `CommitOptions`.
    put(&(batches.len() as u32).to_le_bytes());
    for batch in batches {
        put(&(batch.len() as u32).to_le_bytes());
        put(batch);
    }
}

/// Puts a command together.
#[derive(Debug)]
pub(crate) struct CommandBuilder {
    buffer: BytesMut,
    commits: u32,
}

impl CommandBuilder {
    pub(crate) fn new(epoch: Epoch, capacity: usize) -> Self {
        let mut buffer = BytesMut::with_capacity(HEADER_BYTES + capacity);
        buffer.put_u8(COMMAND.written());
        buffer.put_u64_le(epoch.0);
        buffer.put_u32_le(0);
        Self { buffer, commits: 0 }
    }

    /// Adds a commit: one or several write batches that are applied together.
    pub(crate) fn push<'a>(&mut self, batches: impl ExactSizeIterator<Item = &'a [u8]>) {
        encode_commit(batches, |part| self.buffer.put_slice(part));
        self.commits += 1;
    }

    /// Adds a commit that is encoded already.
    pub(crate) fn push_encoded(&mut self, commit: impl Buf) {
        self.buffer.put(commit);
        self.commits += 1;
    }

    pub(crate) fn finish(mut self) -> Bytes {
        self.buffer[9..HEADER_BYTES].copy_from_slice(&self.commits.to_le_bytes());
        self.buffer.freeze()
    }
}

/// Refuses a command that this program cannot apply, by its version alone: before it is in the log, where it would stop the
/// replica.
///
/// # Errors
/// `UnknownVersion`.
pub(crate) fn check_version(command: &[u8]) -> Result<()> {
    // One without a version is damaged, which parsing tells.
    command.first().map_or(Ok(()), |version| COMMAND.check(*version).map(|_| ()))
}

/// A command that was checked as a whole and can be applied.
#[derive(Debug)]
pub(crate) struct ParsedCommand<'a> {
    pub epoch: Epoch,
    /// Each with the place of its commit.
    batches: Vec<(usize, WriteBatchRef<'a>)>,
}

impl<'a> ParsedCommand<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut rest = bytes;
        let version = take(&mut rest, 1)?[0];
        COMMAND.check(version)?;
        let epoch = Epoch(take_u64(&mut rest)?);
        let commits = take_u32(&mut rest)?;
        if commits as usize > COMMITS_PER_ENTRY_MAX {
            return Err(Error::corrupt(format!("command is damaged: it claims {commits} commits")));
        }
        let mut batches = Vec::with_capacity(commits as usize);
        for position in 0..commits as usize {
            for _ in 0..take_u32(&mut rest)? {
                let len = take_u32(&mut rest)? as usize;
                batches.push((position, WriteBatchRef::parse(take(&mut rest, len)?)?));
            }
        }
        if !rest.is_empty() {
            return Err(Error::corrupt("command is damaged: found bytes after its end"));
        }
        Ok(Self { epoch, batches })
    }

    /// The commits in order, with the sequence numbers that they have as the entry of an index.
    pub(crate) fn commits(&self, index: u64) -> impl Iterator<Item = (SequenceNumber, &[(usize, WriteBatchRef<'a>)])> {
        self.batches.chunk_by(|one, next| one.0 == next.0).map(move |batches| {
            // A chunk is never empty.
            let position = batches.first().map_or(0, |(position, _)| *position);
            (sequence_number(index, position), batches)
        })
    }

    /// The commits with their writes, stamped with the sequence numbers that they have as the entry of an index.
    pub(crate) fn stamped(
        &self,
        index: u64,
    ) -> impl Iterator<Item = (SequenceNumber, impl Iterator<Item = Write<'a>>)> {
        self.commits(index)
            .map(|(number, batches)| (number, batches.iter().flat_map(move |(_, batch)| batch.stamped(number.0))))
    }

    /// All writes in order, stamped with the sequence numbers that they have as the entry of an index.
    pub(crate) fn writes(&self, index: u64) -> impl Iterator<Item = Write<'_>> {
        let left = self.batches.iter().map(|(_, batch)| batch.len()).sum();
        let stamped =
            move |(position, batch): &(usize, WriteBatchRef<'a>)| batch.stamped(sequence_number(index, *position).0);
        Counted { writes: self.batches.iter().flat_map(stamped), left }
    }
}

/// Things of which it is known how many are left, so that who takes them in makes room once.
struct Counted<I> {
    writes: I,
    left: usize,
}

impl<I: Iterator> Iterator for Counted<I> {
    type Item = I::Item;

    #[inline]
    fn next(&mut self) -> Option<I::Item> {
        self.left = self.left.saturating_sub(1);
        self.writes.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (taken, left) =
        rest.split_at_checked(count).ok_or_else(|| Error::corrupt("command is damaged: found its end too early"))?;
    *rest = left;
    Ok(taken)
}

fn take_u32(rest: &mut &[u8]) -> Result<u32> {
    Ok(take(rest, 4)?.get_u32_le())
}

fn take_u64(rest: &mut &[u8]) -> Result<u64> {
    Ok(take(rest, 8)?.get_u64_le())
}
