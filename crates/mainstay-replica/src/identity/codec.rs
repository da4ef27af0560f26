//! The bytes of an identity file, in all versions that are read.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Buf as _, BufMut, BytesMut};
use mainstay_core::{ClusterId, Epoch, Error, Level, NodeId, ReplicaId, SetId};
use mainstay_store::log::GroupId;

use super::{NodeIdentity, Phase, ReplicaRecord, TOMBSTONES_MAX, new_cluster};
use crate::formats::IDENTITY;

const MAGIC: &[u8; 8] = b"MAINSTAY";

/// Version 1 named no cluster, and every persisted replica had the id of its node.
pub(super) const VERSION_WITHOUT_CLUSTER: u8 = 1;
/// Version 2 named no program.
const VERSION_WITHOUT_PROGRAM: u8 = 2;
/// Version 3, as those before, had one replica of each set, by its number, and counted no starts.
const VERSION_WITH_FIXED_SETS: u8 = 3;

/// What all versions start with: magic and version; and what they end with.
const HEAD_BYTES: usize = 8 + 1;
const SUM_BYTES: usize = 4;

/// Set, replica, group, data-loss number and phase of a replica; set and replica of a tombstone.
const REPLICA_BYTES: usize = 3 + 8 + 8 + 4 + 1;
const TOMBSTONE_BYTES: usize = 3 + 8;
/// Node, cluster, boot, token, flag and group; the longest name of a program; both counts.
const FIXED_BYTES: usize = 8 + 16 + 8 + 8 + 1 + 8 + (1 + u8::MAX as usize) + 2 + 2;

/// The longest file: with a replica of as many sets as there can be.
pub(super) const BYTES_MAX: u64 =
    (HEAD_BYTES + FIXED_BYTES + REPLICA_BYTES * u16::MAX as usize + TOMBSTONE_BYTES * TOMBSTONES_MAX + SUM_BYTES)
        as u64;

const PERSISTED: u8 = 0;
const VOLATILE: u8 = 1;

const CREATING: u8 = 0;
const LIVE: u8 = 1;
const DROPPING: u8 = 2;

/// What was found in a file.
pub(super) struct Read {
    /// The version that it was written in.
    pub version: u8,
    pub identity: NodeIdentity,
}

/// What keeps an identity from being read.
pub(super) enum Unreadable {
    Version(Error),
    Damaged(&'static str),
}

type Found<T> = Result<T, Unreadable>;

impl NodeIdentity {
    /// Reads a file of a length from its first bytes.
    pub(super) fn decode(bytes: &[u8], len: u64) -> Found<Read> {
        if bytes.len() < HEAD_BYTES + SUM_BYTES || len > BYTES_MAX {
            return Err(Unreadable::Damaged("its length is wrong"));
        }
        let (content, sum) = bytes.split_at(bytes.len() - SUM_BYTES);
        let Some(rest) = content.strip_prefix(MAGIC) else { return Err(Unreadable::Damaged("it is not ours")) };
        let (version, rest) = (rest[0], &rest[1..]);
        IDENTITY.check(version).map_err(Unreadable::Version)?;
        if crc32c::crc32c(content).to_le_bytes() != sum {
            return Err(Unreadable::Damaged("its checksum is wrong"));
        }
        let mut fields = Fields(rest);
        let identity = match version {
            ..=VERSION_WITH_FIXED_SETS => fixed_sets(version, &mut fields)?,
            _ => current(&mut fields)?,
        };
        fields.end()?;
        Ok(Read { version, identity })
    }

    pub(super) fn encode(&self) -> BytesMut {
        let mut bytes = BytesMut::new();
        bytes.put_slice(MAGIC);
        bytes.put_u8(IDENTITY.written());
        bytes.put_u64_le(self.node.0);
        bytes.put_u128_le(self.cluster.0);
        bytes.put_u64_le(self.boot);
        bytes.put_u64_le(self.log_token.0);
        bytes.put_u8(self.has_log.into());
        bytes.put_u64_le(self.next_group);
        // A version of a program is far shorter; it was read from a field of that length, or is this one's.
        let program = self.program.as_deref().unwrap_or_default();
        bytes.put_u8(program.len() as u8);
        bytes.put_slice(program.as_bytes());
        // As many sets as a `u16` tells apart: a folder has one replica of each, and `create_replica` refuses another.
        bytes.put_u16_le(self.replicas.len() as u16);
        for ((set, replica), record) in &self.replicas {
            put_set(&mut bytes, *set);
            bytes.put_u64_le(replica.0);
            bytes.put_u64_le(record.group.0);
            bytes.put_u32_le(record.data_loss);
            bytes.put_u8(match record.phase {
                Phase::Creating => CREATING,
                Phase::Live => LIVE,
                Phase::Dropping => DROPPING,
            });
        }
        bytes.put_u16_le(self.tombstones.len() as u16);
        for (set, replica) in &self.tombstones {
            put_set(&mut bytes, *set);
            bytes.put_u64_le(replica.0);
        }
        let sum = crc32c::crc32c(&bytes);
        bytes.put_u32_le(sum);
        bytes
    }
}

fn put_set(bytes: &mut BytesMut, set: SetId) {
    // Level none has no replicas.
    bytes.put_u8(if set.level == Level::Volatile { VOLATILE } else { PERSISTED });
    bytes.put_u16_le(set.number);
}

/// An identity of versions 1 to 3: a replica of each persisted set, all of which are live.
fn fixed_sets(version: u8, fields: &mut Fields<'_>) -> Found<NodeIdentity> {
    let node = NodeId(fields.u64()?);
    let sets = fields.u16()?;
    // A node alone: it is a cluster from now on. Its replicas are in its log under the id of the node.
    let (mut cluster, mut ids, mut has_log) = (ClusterId(0), vec![ReplicaId(node.0); usize::from(sets)], false);
    if version == VERSION_WITHOUT_CLUSTER {
        cluster = new_cluster();
    } else {
        cluster.0 = fields.u128()?;
        for id in &mut ids {
            id.0 = fields.u64()?;
        }
        has_log = fields.flag()?;
    }
    let program = if version > VERSION_WITHOUT_PROGRAM { fields.program()? } else { None };
    let live = |number| ReplicaRecord { group: GroupId(u64::from(number)), data_loss: 0, phase: Phase::Live };
    let persisted = |number| SetId { level: Level::Persisted, number };
    Ok(NodeIdentity {
        cluster,
        node,
        boot: 0,
        log_token: ids.first().copied().unwrap_or_default(),
        has_log,
        next_group: u64::from(sets),
        program,
        replicas: (0..sets).zip(ids).map(|(number, id)| ((persisted(number), id), live(number))).collect(),
        tombstones: VecDeque::new(),
    })
}

fn current(fields: &mut Fields<'_>) -> Found<NodeIdentity> {
    let node = NodeId(fields.u64()?);
    let cluster = ClusterId(fields.u128()?);
    let (boot, log_token) = (fields.u64()?, ReplicaId(fields.u64()?));
    let (has_log, next_group) = (fields.flag()?, fields.u64()?);
    let program = fields.program()?;
    let mut replicas = BTreeMap::new();
    for _ in 0..fields.u16()? {
        let (set, replica) = (fields.set()?, ReplicaId(fields.u64()?));
        let (group, data_loss) = (fields.u64()?, fields.u32()?);
        let phase = match fields.u8()? {
            CREATING => Phase::Creating,
            LIVE => Phase::Live,
            DROPPING => Phase::Dropping,
            _ => return Err(Unreadable::Damaged("a replica in it is in no phase")),
        };
        if group >= next_group || data_loss > Epoch::DATA_LOSS_MAX {
            return Err(Unreadable::Damaged("it has a replica that there cannot be"));
        }
        replicas.insert((set, replica), ReplicaRecord { group: GroupId(group), data_loss, phase });
    }
    let count = fields.u16()?;
    let tombstones = (0..count).map(|_| Ok((fields.set()?, ReplicaId(fields.u64()?)))).collect::<Found<_>>()?;
    Ok(NodeIdentity { cluster, node, boot, log_token, has_log, next_group, program, replicas, tombstones })
}

/// What is left to be read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Found<&'a [u8]> {
        let Some((taken, rest)) = self.0.split_at_checked(count) else {
            return Err(Unreadable::Damaged("its length is wrong"));
        };
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Found<u8> {
        Ok(self.take(1)?.get_u8())
    }

    fn u16(&mut self) -> Found<u16> {
        Ok(self.take(2)?.get_u16_le())
    }

    fn u32(&mut self) -> Found<u32> {
        Ok(self.take(4)?.get_u32_le())
    }

    fn u64(&mut self) -> Found<u64> {
        Ok(self.take(8)?.get_u64_le())
    }

    fn u128(&mut self) -> Found<u128> {
        Ok(self.take(16)?.get_u128_le())
    }

    fn flag(&mut self) -> Found<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Unreadable::Damaged("it has a flag that is none")),
        }
    }

    fn set(&mut self) -> Found<SetId> {
        let level = match self.u8()? {
            PERSISTED => Level::Persisted,
            VOLATILE => Level::Volatile,
            _ => return Err(Unreadable::Damaged("it has a level that is none")),
        };
        Ok(SetId { level, number: self.u16()? })
    }

    fn program(&mut self) -> Found<Option<String>> {
        let len = usize::from(self.u8()?);
        match std::str::from_utf8(self.take(len)?) {
            Ok("") => Ok(None),
            Ok(program) => Ok(Some(program.to_owned())),
            Err(_) => Err(Unreadable::Damaged("the name of its program is no text")),
        }
    }

    fn end(&self) -> Found<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Unreadable::Damaged("its length is wrong")) }
    }
}
