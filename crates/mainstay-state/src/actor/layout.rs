//! Where everything of an actor lies in the store of its partition. The page for people is
//! `docs/internals/actor-state.md`.

use bytes::Bytes;
use mainstay_core::key::KEY_BYTES_MAX;
use mainstay_core::time::WallTime;
use mainstay_core::{ACTOR_ID_BYTES_MAX, ActorId, Error, RESTORE, Result};
use mainstay_replica::{KeyRange, Partition, Snapshot, prefix_successor};
use smallvec::SmallVec;
use uuid::Uuid;

use super::name::{
    EVENT_NAME_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, Kind, LANE_NAME_BYTES_MAX, REMINDER_NAME_BYTES_MAX,
    STATE_NAME_BYTES_MAX,
};
use crate::formats::ACTOR_LAYOUT;

/// The first byte of a key says what it is. Reliable collections have those below.
const LAYOUT: u8 = 0x40;
const KNOWN: u8 = 0x41;
const STATES: u8 = 0x42;
const REMINDERS: u8 = 0x43;
const ANSWERS: u8 = 0x44;
const DUE: u8 = 0x45;
const EXPIRES: u8 = 0x46;
const PUBLISHED: u8 = 0x47;
const UNFINISHED: u8 = 0x48;
const LANES: u8 = 0x49;
const LANES_EXPIRE: u8 = 0x4a;

/// The key of the record that says how this is laid out.
pub(super) const LAYOUT_KEY: &[u8] = &[LAYOUT];

/// What the keys of the marks start with that say whose deletion has left places behind.
pub(super) const UNFINISHED_KEYS: &[u8] = &[UNFINISHED];

/// The first byte of an encoded id: its kind. In the order of [`ActorId`]'s variants.
const NUMBER: u8 = 0x01;
const UUID: u8 = 0x02;
const TEXT: u8 = 0x03;

/// Ends a text, which no text has a byte of: [`ESCAPE`] stands before it and before itself, each then one greater.
const END: u8 = 0x00;
const ESCAPE: u8 = 0x01;

/// The most bytes of an encoded id: each byte of a text may be escaped.
const ENCODED_ID_BYTES_MAX: usize = 1 + 2 * ACTOR_ID_BYTES_MAX + 1;

/// The most bytes of a key: the place of an entry with the longest name in an index by time.
const STORED_KEY_BYTES_MAX: usize = 1 + 8 + ENCODED_ID_BYTES_MAX + NAME_BYTES_MAX;

const NAME_BYTES_MAX: usize = 1024;

// Longer keys push everything else out of a store's pages and memory.
const _: () = {
    assert!(STATE_NAME_BYTES_MAX <= NAME_BYTES_MAX);
    assert!(REMINDER_NAME_BYTES_MAX <= NAME_BYTES_MAX);
    assert!(IDEMPOTENCY_KEY_BYTES_MAX <= NAME_BYTES_MAX);
    assert!(EVENT_NAME_BYTES_MAX <= NAME_BYTES_MAX);
    assert!(LANE_NAME_BYTES_MAX <= NAME_BYTES_MAX);
    assert!(STORED_KEY_BYTES_MAX <= KEY_BYTES_MAX);
};

/// How long a key may be to be made without an allocation.
const KEY_BYTES_IN_PLACE: usize = 96;

/// A key of the store while it is needed.
pub(super) type Key = SmallVec<[u8; KEY_BYTES_IN_PLACE]>;

/// An actor's id as it stands in keys: in the order of ids, and none is the beginning of another.
#[derive(Debug, Clone)]
pub(super) struct EncodedId(SmallVec<[u8; 32]>);

impl EncodedId {
    pub(super) fn new(id: &ActorId) -> Self {
        let mut bytes = SmallVec::new();
        match id {
            ActorId::Number(number) => {
                bytes.push(NUMBER);
                // The sign turned around, so that negative numbers come first.
                bytes.extend_from_slice(&(number.cast_unsigned() ^ (1 << 63)).to_be_bytes());
            }
            ActorId::Uuid(uuid) => {
                bytes.push(UUID);
                bytes.extend_from_slice(uuid.as_bytes());
            }
            ActorId::Text(text) => {
                bytes.push(TEXT);
                let mut rest = text.as_bytes();
                while let Some(place) = rest.iter().position(|byte| *byte <= ESCAPE) {
                    bytes.extend_from_slice(&rest[..place]);
                    bytes.extend_from_slice(&[ESCAPE, rest[place] + 1]);
                    rest = &rest[place + 1..];
                }
                bytes.extend_from_slice(rest);
                bytes.push(END);
            }
        }
        Self(bytes)
    }

    /// The key that says that the actor is known.
    pub(super) fn known(&self) -> Key {
        key(&[&[KNOWN], &self.0])
    }

    /// The key of the mark that says that the actor's deletion has left places behind.
    pub(super) fn unfinished(&self) -> Key {
        key(&[UNFINISHED_KEYS, &self.0])
    }

    /// The key of one of the actor's entries.
    pub(super) fn entry(&self, kind: Kind, name: &[u8]) -> Key {
        key(&[&[area(kind)], &self.0, name])
    }

    /// What the keys of the actor's entries of a kind start with.
    pub(super) fn entries(&self, kind: Kind) -> Key {
        key(&[&[area(kind)], &self.0])
    }

    /// The place of one of the actor's entries in the index by time of its kind, if that has one.
    pub(super) fn place(&self, kind: Kind, at: WallTime, name: &[u8]) -> Option<Key> {
        Some(key(&[&[time_area(kind)?], &at.as_millis().to_be_bytes(), &self.0, name]))
    }
}

pub(super) fn area(kind: Kind) -> u8 {
    match kind {
        Kind::State => STATES,
        Kind::Reminder => REMINDERS,
        Kind::Answer => ANSWERS,
        Kind::Event => PUBLISHED,
        Kind::Lane => LANES,
    }
}

fn time_area(kind: Kind) -> Option<u8> {
    match kind {
        Kind::State | Kind::Event => None,
        Kind::Reminder => Some(DUE),
        Kind::Answer => Some(EXPIRES),
        Kind::Lane => Some(LANES_EXPIRE),
    }
}

fn key(parts: &[&[u8]]) -> Key {
    let mut key = Key::new();
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

/// The keys that start with a prefix, after another key if there is one.
pub(super) fn range(prefix: &[u8], after: Option<&[u8]>) -> KeyRange {
    let range = KeyRange::prefix(prefix);
    match after {
        Some(after) => KeyRange { start: std::ops::Bound::Excluded(Bytes::copy_from_slice(after)), end: range.end },
        None => range,
    }
}

/// The keys of all actors that are known, after one of them if there is one.
pub(super) fn all_known(after: Option<&EncodedId>) -> KeyRange {
    range(&[KNOWN], after.map(EncodedId::known).as_deref())
}

/// The places in the index by time of a kind up to a moment, after one of them if there is one. There is no index of states.
pub(super) fn places(kind: Kind, until: WallTime, after: Option<&[u8]>) -> Option<KeyRange> {
    let area = time_area(kind)?;
    let end = match until.as_millis().checked_add(1) {
        Some(end) => Some(Bytes::from([&[area][..], &end.to_be_bytes()].concat())),
        None => prefix_successor(&[area]).map(Bytes::from),
    };
    let start = match after {
        Some(after) => std::ops::Bound::Excluded(Bytes::copy_from_slice(after)),
        None => std::ops::Bound::Included(Bytes::copy_from_slice(&[area])),
    };
    Some(KeyRange { start, end: end.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded) })
}

/// The actor that a key stands for, of those that say which are known.
pub(super) fn parse_known(key: &[u8]) -> Result<ActorId> {
    let parse = || {
        let (&KNOWN, rest) = key.split_first()? else { return None };
        let (id, rest) = split_id(rest)?;
        rest.is_empty().then_some(id)
    };
    parse().ok_or_else(|| damaged("the key of an actor", key))
}

/// The actor and the name that an entry's key stands for.
pub(super) fn parse_entry(kind: Kind, key: &[u8]) -> Result<(ActorId, &str)> {
    let parse = || {
        let (first, rest) = key.split_first()?;
        if *first != area(kind) {
            return None;
        }
        let (id, name) = split_id(rest)?;
        Some((id, std::str::from_utf8(name).ok()?))
    };
    parse().ok_or_else(|| damaged(&format!("the key of an actor's {kind}"), key))
}

/// The name that the key of an actor's entry stands for, behind the actor's prefix.
pub(super) fn parse_name<'a>(kind: Kind, id: &ActorId, prefix: &[u8], key: &'a [u8]) -> Result<&'a str> {
    key.strip_prefix(prefix)
        .and_then(|name| std::str::from_utf8(name).ok())
        .ok_or_else(|| damaged(&format!("the key of a {kind} of actor {id}"), key))
}

/// What a place in an index by time stands for.
pub(super) struct Place<'a> {
    pub(super) at: WallTime,
    pub(super) id: ActorId,
    /// The key of the entry that it is the place of.
    pub(super) entry: Key,
    pub(super) name: &'a str,
}

/// The entry that a place in an index by time stands for.
pub(super) fn parse_place(kind: Kind, place: &[u8]) -> Result<Place<'_>> {
    let parse = || {
        let (first, rest) = place.split_first()?;
        if Some(*first) != time_area(kind) {
            return None;
        }
        let (millis, rest) = rest.split_first_chunk::<8>()?;
        let (id, name) = split_id(rest)?;
        let at = WallTime::from_millis(u64::from_be_bytes(*millis));
        Some(Place { at, id, entry: key(&[&[area(kind)], rest]), name: std::str::from_utf8(name).ok()? })
    };
    parse().ok_or_else(|| damaged(&format!("the place of an actor's {kind} in the order of time"), place))
}

fn damaged(what: &str, key: &[u8]) -> Error {
    Error::corrupt(format!("{what} is damaged ({}): {RESTORE}", key.escape_ascii()))
}

/// Takes an id off the front; `None` if there is none.
fn split_id(bytes: &[u8]) -> Option<(ActorId, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    match *kind {
        NUMBER => {
            let (number, rest) = rest.split_first_chunk()?;
            Some((ActorId::Number((u64::from_be_bytes(*number) ^ (1 << 63)).cast_signed()), rest))
        }
        UUID => {
            let (uuid, rest) = rest.split_first_chunk()?;
            Some((ActorId::Uuid(Uuid::from_bytes(*uuid)), rest))
        }
        TEXT => {
            let (escaped, rest) = rest.split_at_checked(rest.iter().position(|byte| *byte == END)?)?;
            let mut text = Vec::with_capacity(escaped.len());
            let mut bytes = escaped.iter();
            while let Some(&byte) = bytes.next() {
                text.push(match byte {
                    ESCAPE => bytes.next()?.checked_sub(1).filter(|byte| *byte <= ESCAPE)?,
                    byte => byte,
                });
            }
            Some((ActorId::Text(String::from_utf8(text).ok()?.into()), &rest[1..]))
        }
        _ => None,
    }
}

/// Refuses a partition that holds something else than actors, and says whether it is new.
pub(super) fn check_partition(partition: &Partition, snapshot: &Snapshot) -> Result<bool> {
    let id = partition.id();
    let below = KeyRange { start: std::ops::Bound::Unbounded, end: std::ops::Bound::Excluded(LAYOUT_KEY.into()) };
    if let Some(entry) = snapshot.scan(below, mainstay_replica::Order::Ascending)?.next() {
        entry?;
        return Err(Error::invalid(format!(
            "partition {id} holds reliable collections, and cannot hold actors too: give the actors a service of their own"
        )));
    }
    match snapshot.get(LAYOUT_KEY)?.as_deref() {
        Some([version, ..]) => {
            ACTOR_LAYOUT.check_of(*version, format_args!("the layout of the actors of partition {id}"))?;
            Ok(false)
        }
        Some([]) => Err(Error::corrupt(format!(
            "the record of how the actors of partition {id} are stored is empty: {RESTORE}"
        ))),
        None => match snapshot.scan(KeyRange::all(), mainstay_replica::Order::Ascending)?.next().transpose()? {
            None => Ok(true),
            Some(_) => Err(Error::corrupt(format!(
                "partition {id} has entries, and no record of how they are stored: {RESTORE}"
            ))),
        },
    }
}

/// Refuses a partition that holds actors, for those who keep something else there.
pub(crate) fn refuse_actors(snapshot: &Snapshot) -> Result<()> {
    match snapshot.get(LAYOUT_KEY)? {
        None => Ok(()),
        Some(_) => Err(Error::invalid(
            "the partition holds actors, and cannot hold reliable collections too: give them a service of their own",
        )),
    }
}

#[cfg(test)]
mod tests;
