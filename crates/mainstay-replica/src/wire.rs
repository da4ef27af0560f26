//! The building blocks of everything this crate writes to the log or sends to a peer: little-endian numbers, votes, log
//! ids, memberships and entries. `docs/internals/replica.md` has the bytes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use mainstay_core::format::Format;
use mainstay_core::{Epoch, Error, NodeId, Result};
use openraft::EntryPayload;

use crate::formats::LOG_ENTRY;
use crate::raft::{self, Command, Entry, LogId, Member, Membership, StoredMembership, Vote};

/// What no log and no succession of primaries will ever reach, so that counting on cannot overflow. A sequence number has
/// 48 bits for the index, an epoch 40 for the term.
const INDEX_MAX: u64 = (1 << 47) - 1;
const TERM_MAX: u64 = Epoch::TERM_MAX / 2;

/// The bytes of an entry before its payload: version, term, kind.
const ENTRY_HEAD_BYTES: usize = 1 + 8 + 1;

/// About how many bytes the membership of a small set takes.
const MEMBERSHIP_BYTES: usize = 64;

const KIND_BLANK: u8 = 0;
const KIND_COMMAND: u8 = 1;
const KIND_MEMBERSHIP: u8 = 2;

/// Reads a byte string front to back; every shortage is a `Corrupt` error that names what was expected.
pub(crate) struct Reader {
    bytes: Bytes,
    what: &'static str,
}

impl Reader {
    /// Starts reading after checking the version, which is the first byte of every format.
    pub(crate) fn new(format: &Format, bytes: Bytes) -> Result<Self> {
        Self::named(format, format.name(), bytes)
    }

    /// The same for something that is called otherwise than its format.
    pub(crate) fn named(format: &Format, what: &'static str, bytes: Bytes) -> Result<Self> {
        let mut reader = Self { bytes, what };
        let version = reader.u8()?;
        format.check_of(version, what)?;
        Ok(reader)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        self.need(1)?;
        Ok(self.bytes.get_u8())
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.need(4)?;
        Ok(self.bytes.get_u32_le())
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.need(8)?;
        Ok(self.bytes.get_u64_le())
    }

    pub(crate) fn u128(&mut self) -> Result<u128> {
        self.need(16)?;
        Ok(self.bytes.get_u128_le())
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.bad(&format!("flag of value {other}"))),
        }
    }

    /// A byte string with its length in front; shares the buffer.
    pub(crate) fn bytes(&mut self) -> Result<Bytes> {
        let len = self.u32()? as usize;
        self.need(len)?;
        Ok(self.bytes.split_to(len))
    }

    pub(crate) fn rest(self) -> Bytes {
        self.bytes
    }

    /// Refuses what has more than is known, where all of it must be understood.
    pub(crate) fn end(self) -> Result<()> {
        if self.bytes.is_empty() { Ok(()) } else { Err(self.bad("bytes after its end")) }
    }

    pub(crate) fn bad(&self, found: &str) -> Error {
        Error::corrupt(format!("{} is damaged: found {found}", self.what))
    }

    fn need(&self, count: usize) -> Result<()> {
        if self.bytes.len() < count { Err(self.bad("its end too early")) } else { Ok(()) }
    }

    pub(crate) fn vote(&mut self) -> Result<Vote> {
        let (term, node, committed) = (self.term()?, self.u64()?, self.flag()?);
        Ok(raft::vote(term, node, committed))
    }

    /// A term with room above it: openraft counts on from there.
    fn term(&mut self) -> Result<u64> {
        match self.u64()? {
            term if term <= TERM_MAX => Ok(term),
            term => Err(self.bad(&format!("the impossible term {term}"))),
        }
    }

    /// The index of a log entry, with room above it.
    pub(crate) fn index(&mut self) -> Result<u64> {
        match self.u64()? {
            index if index <= INDEX_MAX => Ok(index),
            index => Err(self.bad(&format!("the impossible index {index}"))),
        }
    }

    pub(crate) fn log_id(&mut self) -> Result<LogId> {
        Ok(raft::log_id(self.term()?, self.index()?))
    }

    pub(crate) fn optional_log_id(&mut self) -> Result<Option<LogId>> {
        if self.flag()? { Ok(Some(self.log_id()?)) } else { Ok(None) }
    }

    pub(crate) fn membership(&mut self) -> Result<Membership> {
        let configs = self.u8()?;
        let mut config = Vec::new();
        for _ in 0..configs {
            let voters = self.u32()?;
            let mut set = BTreeSet::new();
            for _ in 0..voters {
                set.insert(self.u64()?);
            }
            config.push(set);
        }
        let count = self.u32()?;
        let mut nodes = BTreeMap::new();
        for _ in 0..count {
            nodes.insert(self.u64()?, Member { node: NodeId(self.u64()?) });
        }
        if config.is_empty() && nodes.is_empty() {
            return Ok(Membership::default());
        }
        Membership::new(config, nodes).map_err(|error| self.bad("an impossible membership").with_source(error))
    }

    pub(crate) fn stored_membership(&mut self) -> Result<StoredMembership> {
        let log_id = self.optional_log_id()?;
        Ok(StoredMembership::new(log_id, self.membership()?))
    }
}

pub(crate) fn put_vote(buffer: &mut BytesMut, vote: &Vote) {
    buffer.put_u64_le(vote.leader_id.term);
    buffer.put_u64_le(vote.leader_id.voted_for);
    buffer.put_u8(vote.committed.into());
}

pub(crate) fn put_log_id(buffer: &mut BytesMut, id: &LogId) {
    buffer.put_u64_le(id.leader_id.term);
    buffer.put_u64_le(id.index);
}

pub(crate) fn put_optional_log_id(buffer: &mut BytesMut, id: Option<&LogId>) {
    buffer.put_u8(id.is_some().into());
    if let Some(id) = id {
        put_log_id(buffer, id);
    }
}

pub(crate) fn put_bytes(buffer: &mut BytesMut, bytes: &[u8]) {
    // Everything that is sent or logged is bounded far below 4 GiB before it gets here.
    buffer.put_u32_le(bytes.len() as u32);
    buffer.put_slice(bytes);
}

pub(crate) fn put_membership(buffer: &mut BytesMut, membership: &Membership) {
    let config = membership.get_joint_config();
    buffer.put_u8(config.len() as u8);
    for voters in config {
        buffer.put_u32_le(voters.len() as u32);
        voters.iter().for_each(|id| buffer.put_u64_le(*id));
    }
    buffer.put_u32_le(membership.nodes().count() as u32);
    for (id, member) in membership.nodes() {
        buffer.put_u64_le(*id);
        buffer.put_u64_le(member.node.0);
    }
}

pub(crate) fn put_stored_membership(buffer: &mut BytesMut, stored: &StoredMembership) {
    put_optional_log_id(buffer, stored.log_id().as_ref());
    put_membership(buffer, stored.membership());
}

/// About how many bytes an entry is encoded to.
pub(crate) fn entry_bytes(entry: &Entry) -> usize {
    match &entry.payload {
        EntryPayload::Normal(command) => ENTRY_HEAD_BYTES + command.0.len(),
        EntryPayload::Blank => ENTRY_HEAD_BYTES,
        EntryPayload::Membership(_) => ENTRY_HEAD_BYTES + MEMBERSHIP_BYTES,
    }
}

/// The bytes of an entry as they stand in the node log and in an append message. The index is not in it: the place says it.
pub(crate) fn encode_entry(entry: &Entry) -> Bytes {
    let mut buffer = BytesMut::with_capacity(entry_bytes(entry));
    buffer.put_u8(LOG_ENTRY.written());
    buffer.put_u64_le(entry.log_id.leader_id.term);
    match &entry.payload {
        EntryPayload::Blank => buffer.put_u8(KIND_BLANK),
        EntryPayload::Normal(command) => {
            buffer.put_u8(KIND_COMMAND);
            buffer.put_slice(&command.0);
        }
        EntryPayload::Membership(membership) => {
            buffer.put_u8(KIND_MEMBERSHIP);
            put_membership(&mut buffer, membership);
        }
    }
    buffer.freeze()
}

pub(crate) fn decode_entry(index: u64, bytes: Bytes) -> Result<Entry> {
    let mut reader = Reader::new(&LOG_ENTRY, bytes)?;
    let term = reader.term()?;
    let payload = match reader.u8()? {
        KIND_BLANK => {
            reader.end()?;
            EntryPayload::Blank
        }
        KIND_COMMAND => EntryPayload::Normal(Command(reader.rest())),
        KIND_MEMBERSHIP => {
            let membership = reader.membership()?;
            reader.end()?;
            EntryPayload::Membership(membership)
        }
        other => return Err(reader.bad(&format!("an entry of kind {other}"))),
    };
    Ok(Entry { log_id: raft::log_id(term, index), payload })
}
