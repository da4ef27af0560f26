//! Where everything of a partition lies in its store. The page for people is `docs/internals/collections.md`.

use bytes::Bytes;
use mainstay_core::Result;
use mainstay_core::time::WallTime;
use mainstay_replica::{Key, KeyRange, Order, Scan, Snapshot};

/// A collection of a partition. Never used for another one, even after the collection was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CollectionId(pub(crate) u32);

/// The first byte of a key says what it is.
const REGISTRY: u8 = 0x01;
const GATES: u8 = 0x02;
const NEXT_ID: u8 = 0x03;
const ENTRIES: u8 = 0x10;
const LENGTHS: u8 = 0x11;
const EXPIRIES: u8 = 0x12;
/// Locks that stand for something that has no key of its own in the store.
const QUEUE_ENDS: u8 = 0x20;

/// What stands before the key in an entry's key.
pub(crate) const ENTRY_PREFIX_BYTES: usize = 5;
/// What stands before the key in an entry's place among those that expire.
pub(crate) const EXPIRY_PREFIX_BYTES: usize = 13;

fn with_id(area: u8, id: CollectionId) -> [u8; ENTRY_PREFIX_BYTES] {
    let [a, b, c, d] = id.0.to_be_bytes();
    [area, a, b, c, d]
}

/// The record of a collection by its name; also what is locked to create or drop it.
pub(crate) fn registry(name: &str) -> Key {
    Key::concat(&[&[REGISTRY], name.as_bytes()])
}

/// All records of collections start with this.
pub(crate) const REGISTRY_PREFIX: &[u8] = &[REGISTRY];

/// The record of a gate by its name.
pub(crate) fn gate(name: &str) -> Key {
    Key::concat(&[&[GATES], name.as_bytes()])
}

/// All records of gates start with this.
pub(crate) const GATES_PREFIX: &[u8] = &[GATES];

/// The id that the next collection gets.
pub(crate) fn next_collection() -> Key {
    Key::from(&[NEXT_ID][..])
}

/// What the keys of a collection's entries start with.
pub(crate) fn entry_prefix(id: CollectionId) -> [u8; ENTRY_PREFIX_BYTES] {
    with_id(ENTRIES, id)
}

/// The number of entries of a collection; locked shared by all who use the collection, and exclusively by who clears
/// or drops it.
pub(crate) fn length(id: CollectionId) -> Key {
    Key::from(&with_id(LENGTHS, id)[..])
}

/// The place of an entry among those of its collection that expire: in the order of time.
pub(crate) fn expiry(at: WallTime, entry_key: &[u8]) -> Vec<u8> {
    let (prefix, key) = entry_key.split_at(ENTRY_PREFIX_BYTES);
    let mut place = Vec::with_capacity(EXPIRY_PREFIX_BYTES + key.len());
    place.push(EXPIRIES);
    place.extend_from_slice(&prefix[1..]);
    place.extend_from_slice(&at.as_millis().to_be_bytes());
    place.extend_from_slice(key);
    place
}

/// The places of all entries that expire start with this.
pub(crate) const EXPIRIES_PREFIX: &[u8] = &[EXPIRIES];

/// The places of a collection's entries that expire start with this.
pub(crate) fn expiry_prefix(id: CollectionId) -> [u8; ENTRY_PREFIX_BYTES] {
    with_id(EXPIRIES, id)
}

/// The places of a collection's entries that have expired at a moment.
pub(crate) fn expired(id: CollectionId, now: WallTime) -> KeyRange {
    let start = Bytes::copy_from_slice(&expiry_prefix(id));
    let end = [&start[..], &now.as_millis().saturating_add(1).to_be_bytes()].concat();
    KeyRange::half_open(start, Some(end.into()))
}

/// When and which entry a place among those that expire stands for; `None` if it is no such place.
pub(crate) fn parse_expiry(place: &[u8]) -> Option<(WallTime, Key)> {
    let (prefix, rest) = place.split_at_checked(ENTRY_PREFIX_BYTES)?;
    let (millis, key) = rest.split_first_chunk::<8>()?;
    let (&EXPIRIES, id) = prefix.split_first()? else { return None };
    Some((WallTime::from_millis(u64::from_be_bytes(*millis)), Key::concat(&[&[ENTRIES], id, key])))
}

/// The collection that an entry's key belongs to; `None` for other keys.
pub(crate) fn collection_of(entry_key: &[u8]) -> Option<CollectionId> {
    let (&ENTRIES, rest) = entry_key.split_first()? else { return None };
    let id: [u8; 4] = rest.get(..4)?.try_into().ok()?;
    Some(CollectionId(u32::from_be_bytes(id)))
}

/// What is locked at the ends of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueEnd {
    /// Where items leave.
    Head,
    /// Where items come in.
    Tail,
}

/// The lock of an end of a queue.
pub(crate) fn queue_end(id: CollectionId, end: QueueEnd) -> Key {
    Key::concat(&[&with_id(QUEUE_ENDS, id), &[end as u8]])
}

/// What a snapshot holds under keys that start with a prefix.
pub(crate) fn scan(snapshot: &Snapshot, prefix: &[u8]) -> Result<Scan> {
    snapshot.scan(KeyRange::prefix(prefix), Order::Ascending)
}
