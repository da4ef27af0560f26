use bytes::Bytes;
use mainstay_core::time::WallTime;
use mainstay_core::{ActorId, Epoch, Error, ErrorKind, PartitionId, Result};

use super::fields::{FieldReader, put_actor_id, put_short_text, put_text};
use super::formats::CALL_REQUEST;
use crate::call::caller::IDEMPOTENCY_KEY_BYTES_MAX;
use crate::call::chain::CHAIN_MAX;
use crate::call::session::SessionKey;
use crate::call::wire_call::WireKey;

/// The most bytes of a call on its way: arguments of 8 MiB, and what else it has.
pub const REQUEST_BYTES_MAX: usize = 9 << 20;

/// Which of the optional fields are there. Bits that are not known are ignored: what they stand for comes behind the arguments.
mod flag {
    pub(super) const ACTOR: u8 = 1 << 0;
    pub(super) const GIVEN_KEY: u8 = 1 << 1;
    pub(super) const SESSION_KEY: u8 = 1 << 2;
    pub(super) const TRACE: u8 = 1 << 3;
    pub(super) const EPOCH: u8 = 1 << 4;
}

/// What the key of a session says beside its numbers.
const REPEATED: u8 = 1 << 0;

/// A call on its way to another process, without its time limit, which travels beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequest<'b> {
    pub(crate) service: &'b str,
    pub(crate) partition: PartitionId,
    /// The actor; `None` for the object of a service.
    pub(crate) actor: Option<ActorId>,
    pub(crate) interface: &'b str,
    pub(crate) method: &'b str,
    pub(crate) key: Option<WireKey>,
    /// The trace that the call belongs to, as W3C Trace Context writes it.
    pub(crate) traceparent: Option<&'b str>,
    /// The epoch of the partition's primary that the caller knows of.
    pub(crate) epoch: Option<Epoch>,
    /// The turns that have led to the call, from the first to the last.
    pub(crate) chain: Vec<ChainTurn<'b>>,
    /// The encoded arguments.
    pub(crate) arguments: Bytes,
}

/// A turn of a chain that leads to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChainTurn<'b> {
    pub(crate) service: &'b str,
    pub(crate) actor: Option<ActorId>,
    pub(crate) method: &'b str,
}

impl<'b> CallRequest<'b> {
    /// The bytes of the call.
    ///
    /// # Errors
    /// `Invalid` if a name is too long or the chain has too many turns.
    pub fn encode(&self) -> Result<Bytes> {
        let mut out = Vec::with_capacity(128 + self.arguments.len());
        let mut flags = 0;
        flags |= if self.actor.is_some() { flag::ACTOR } else { 0 };
        flags |= match &self.key {
            None => 0,
            Some(WireKey::Given(_)) => flag::GIVEN_KEY,
            Some(WireKey::Session(_)) => flag::SESSION_KEY,
        };
        flags |= if self.traceparent.is_some() { flag::TRACE } else { 0 };
        flags |= if self.epoch.is_some() { flag::EPOCH } else { 0 };
        out.extend_from_slice(&[CALL_REQUEST.written(), flags]);
        put_text(&mut out, "the name of a service", self.service)?;
        out.extend_from_slice(&self.partition.0.to_le_bytes());
        if let Some(actor) = &self.actor {
            put_actor_id(&mut out, actor)?;
        }
        put_short_text(&mut out, "the name of an interface", self.interface)?;
        put_short_text(&mut out, "the name of a method", self.method)?;
        match &self.key {
            None => {}
            Some(WireKey::Given(key)) => put_text(&mut out, "an idempotency key", key)?,
            Some(WireKey::Session(key)) => {
                out.extend_from_slice(&key.session.to_le_bytes());
                out.extend_from_slice(&key.lane.to_le_bytes());
                out.extend_from_slice(&key.number.to_le_bytes());
                out.extend_from_slice(&key.expires.as_millis().to_le_bytes());
                out.push(if key.is_repeated { REPEATED } else { 0 });
            }
        }
        if let Some(traceparent) = self.traceparent {
            put_short_text(&mut out, "the trace context", traceparent)?;
        }
        if let Some(epoch) = self.epoch {
            out.extend_from_slice(&epoch.0.to_le_bytes());
        }
        let turns = u16::try_from(self.chain.len()).ok().filter(|turns| usize::from(*turns) <= CHAIN_MAX);
        let turns = turns.ok_or_else(|| {
            let turns = self.chain.len();
            Error::invalid(format!("chain of {turns} turns exceeds CHAIN_MAX of {CHAIN_MAX}: let a turn end first"))
        })?;
        out.extend_from_slice(&turns.to_le_bytes());
        for turn in &self.chain {
            put_text(&mut out, "the name of a service", turn.service)?;
            put_short_text(&mut out, "the name of a method", turn.method)?;
            out.push(turn.actor.is_some().into());
            if let Some(actor) = &turn.actor {
                put_actor_id(&mut out, actor)?;
            }
        }
        let length = u32::try_from(self.arguments.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&self.arguments);
        if out.len() > REQUEST_BYTES_MAX {
            return Err(too_large(out.len()));
        }
        Ok(out.into())
    }

    /// The call of these bytes. What follows the arguments is skipped: it is of a later program.
    ///
    /// # Errors
    /// `Corrupt` if they are none, `TooLarge` if they are too many, `UnknownVersion` for those of another program.
    pub fn decode(bytes: &'b Bytes) -> Result<Self> {
        if bytes.len() > REQUEST_BYTES_MAX {
            return Err(too_large(bytes.len()));
        }
        let mut reader = FieldReader::new(CALL_REQUEST.name(), bytes);
        CALL_REQUEST.check(reader.u8()?)?;
        let flags = reader.u8()?;
        let has = |flag: u8| flags & flag != 0;
        let service = reader.text()?;
        let partition = PartitionId(reader.u64()?);
        let actor = if has(flag::ACTOR) { Some(reader.actor_id()?) } else { None };
        let (interface, method) = (reader.short_text()?, reader.short_text()?);
        let key = match (has(flag::GIVEN_KEY), has(flag::SESSION_KEY)) {
            (false, false) => None,
            (true, false) => {
                let key = reader.text()?;
                if key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
                    return Err(reader.bad("has an idempotency key that is empty or too long"));
                }
                Some(WireKey::Given(key.into()))
            }
            (false, true) => Some(WireKey::Session(SessionKey {
                session: reader.u64()?,
                lane: reader.u16()?,
                number: reader.u64()?,
                expires: WallTime::from_millis(reader.u64()?),
                is_repeated: reader.u8()? & REPEATED != 0,
            })),
            (true, true) => return Err(reader.bad("has two keys")),
        };
        let traceparent = if has(flag::TRACE) { Some(reader.short_text()?) } else { None };
        let epoch = if has(flag::EPOCH) { Some(Epoch(reader.u64()?)) } else { None };
        let turns = usize::from(reader.u16()?);
        if turns > CHAIN_MAX {
            return Err(reader.bad("has a chain of too many turns"));
        }
        let mut chain = Vec::with_capacity(turns);
        for _ in 0..turns {
            let (service, method) = (reader.text()?, reader.short_text()?);
            let actor = match reader.u8()? {
                0 => None,
                1 => Some(reader.actor_id()?),
                _ => return Err(reader.bad("has a turn that is neither of an actor nor of a service")),
            };
            chain.push(ChainTurn { service, actor, method });
        }
        let length = reader.u32()? as usize;
        reader.take(length)?;
        let end = reader.at();
        let arguments = bytes.slice(end - length..end);
        Ok(Self { service, partition, actor, interface, method, key, traceparent, epoch, chain, arguments })
    }
}

fn too_large(bytes: usize) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!("call of {bytes} bytes exceeds REQUEST_BYTES_MAX of {REQUEST_BYTES_MAX}: send less at a time"),
    )
}

#[cfg(test)]
mod tests;
