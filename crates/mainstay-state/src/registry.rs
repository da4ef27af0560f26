//! Which collections a partition has: a durable record of name, kind and types for each.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, RESTORE, Result, contract};
use mainstay_replica::Snapshot;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::formats::{COLLECTION, NEXT_COLLECTION};
use crate::layout::{self, CollectionId};
use crate::lock::{LockMode, TransactionId};
use crate::queue::Line;
use crate::transaction::{Ending, Transaction};

/// The most bytes of the name of a collection or a gate.
pub const NAME_BYTES_MAX: usize = 256;

/// What a collection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CollectionKind {
    /// A [`Dictionary`](crate::Dictionary).
    Dictionary,
    /// A [`Queue`](crate::Queue).
    Queue,
    /// A [`ConcurrentQueue`](crate::ConcurrentQueue).
    ConcurrentQueue,
}

impl fmt::Display for CollectionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CollectionKind::Dictionary => "dictionary",
            CollectionKind::Queue => "queue",
            CollectionKind::ConcurrentQueue => "concurrent queue",
        })
    }
}

/// A collection's record: its name and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionInfo {
    /// Its name in the partition.
    pub name: String,
    /// What it is.
    pub kind: CollectionKind,
    /// The data contract of its keys; `None` for queues.
    pub key: Option<String>,
    /// The data contract of its values.
    pub value: String,
}

/// What is stored of a collection, behind a byte for the version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    id: u32,
    pub(crate) kind: CollectionKind,
    pub(crate) key: Option<String>,
    pub(crate) value: String,
}

/// The collections that are in use here.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    open: Mutex<HashMap<CollectionId, Arc<Known>>>,
    /// The first number that nobody was given here. The one of a transaction that was undone is not given again while
    /// handles and locks of what it created may be around.
    unused: AtomicU32,
}

/// A collection that is in use, shared by all of its handles.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) id: CollectionId,
    pub(crate) name: String,
    pub(crate) kind: CollectionKind,
    /// What queues know besides the store.
    pub(crate) line: Line,
    /// [`LIVE`], [`GONE`], the transaction that has created it and has not ended, or with [`DROPPED`] the one that has
    /// dropped it and has not ended.
    life: AtomicU64,
}

/// No transaction has these numbers: they are counted from 1.
const LIVE: u64 = 0;
const GONE: u64 = u64::MAX;
/// Is added to the number of a transaction.
const DROPPED: u64 = 1 << 63;

impl Known {
    /// Refuses a collection that was dropped, or that only another transaction knows of yet.
    pub(crate) fn check(&self, user: TransactionId) -> Result<()> {
        match self.life.load(Ordering::Acquire) {
            LIVE => Ok(()),
            creator if creator == user.0 => Ok(()),
            // Who drops it is refused at once.
            life if life == GONE || life == DROPPED | user.0 => Err(Error::new(
                ErrorKind::NotFound,
                format!("{self} does not exist: it was dropped, or never committed; open it again"),
            )),
            // Others wait for its lock, and are told what became of it.
            life if life & DROPPED != 0 => Ok(()),
            creator => Err(Error::new(
                ErrorKind::Retry,
                format!("{self} is being created by {}, which has not ended: try again", TransactionId(creator)),
            )),
        }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind, self.name)
    }
}

/// A collection comes to life, or is gone, when the transaction that creates or drops it has ended.
struct LifeChange {
    known: Arc<Known>,
    if_committed: u64,
    if_undone: u64,
}

impl LifeChange {
    fn set_life(&self, life: u64) {
        self.known.life.store(life, Ordering::Release);
        self.known.line.call_all();
    }
}

impl Ending for LifeChange {
    fn committed(self: Box<Self>) {
        self.set_life(self.if_committed);
    }

    fn undone(self: Box<Self>) {
        self.set_life(self.if_undone);
    }
}

impl Registry {
    fn known(&self, name: &str, record: &Record, life: u64) -> Arc<Known> {
        let id = CollectionId(record.id);
        let mut open = self.open.lock();
        if life == LIVE
            && let Some(known) = open.get(&id)
            // One whose creation nobody knew the outcome of, and which is there after all.
            && known.life.load(Ordering::Acquire) != GONE
        {
            return known.clone();
        }
        let known = Arc::new(Known {
            id,
            name: name.to_owned(),
            kind: record.kind,
            line: Line::default(),
            life: AtomicU64::new(life),
        });
        // Those that were dropped are not asked for again.
        open.retain(|_, known| known.life.load(Ordering::Acquire) != GONE);
        open.insert(id, known.clone());
        known
    }
}

/// Opens a collection, and creates it as part of the transaction if need be.
pub(crate) async fn open(
    tx: &mut Transaction,
    name: &str,
    kind: CollectionKind,
    key: Option<String>,
    value: String,
) -> Result<Arc<Known>> {
    check_name("collection", name)?;
    tx.start_operation();
    let place = layout::registry(name);
    let what = || format!("the name of {kind} {name:?}");
    // Two who both share a name could not both go on to create it. So whoever does not see it yet takes the lock for an update,
    // which only one has; whether it is there is certain when it is locked.
    let seems_there = tx.record(&place)?.is_some();
    tx.lock(&place, if seems_there { LockMode::Shared } else { LockMode::Update }, what).await?;
    let mut found = tx.record(&place)?;
    if found.is_none() {
        tx.lock(&place, LockMode::Update, what).await?;
        tx.lock(&place, LockMode::Exclusive, what).await?;
        found = tx.record(&place)?;
    }
    let shared = tx.shared().clone();
    if let Some(bytes) = found {
        let record = decode(name, &bytes)?;
        record.check(name, kind, key.as_deref(), &value)?;
        return Ok(shared.registry.known(name, &record, LIVE));
    }
    let record = Record { id: next_id(tx).await?, kind, key, value };
    tx.put_record(place, Some(encode(&record)?))?;
    let known = shared.registry.known(name, &record, tx.id().0);
    // Others who get hold of the handle wait until it is known whether the collection comes to be.
    tx.lock_collection(known.id, LockMode::Exclusive, || known.to_string()).await?;
    tx.endings.push(Box::new(LifeChange { known: known.clone(), if_committed: LIVE, if_undone: GONE }));
    Ok(known)
}

async fn next_id(tx: &mut Transaction) -> Result<u32> {
    let place = layout::next_collection();
    tx.lock(&place, LockMode::Exclusive, || "the number of the next collection".into()).await?;
    let id = match tx.record(&place)? {
        None => 1,
        Some(bytes) => read_next_id(&bytes)?,
    };
    let id = id.max(tx.shared().registry.unused.load(Ordering::Acquire));
    let Some(next) = id.checked_add(1) else {
        return Err(Error::new(ErrorKind::TooLarge, "a partition cannot have had more than 4294967295 collections"));
    };
    tx.shared().registry.unused.store(next, Ordering::Release);
    tx.put_record(place, Some(encode_next_id(next)))?;
    Ok(id)
}

fn encode_next_id(next: u32) -> Bytes {
    [&[NEXT_COLLECTION.written()], &next.to_be_bytes()[..]].concat().into()
}

fn read_next_id(record: &[u8]) -> Result<u32> {
    let damaged = || Error::corrupt(format!("the number of the next collection is damaged: {RESTORE}"));
    // Before it had a version.
    if let Ok(number) = <[u8; 4]>::try_from(record) {
        return Ok(u32::from_be_bytes(number));
    }
    let (version, rest) = record.split_first().ok_or_else(damaged)?;
    NEXT_COLLECTION.check(*version)?;
    rest.first_chunk().map(|number| u32::from_be_bytes(*number)).ok_or_else(damaged)
}

/// Drops a collection with all that it holds.
pub(crate) async fn drop_collection(tx: &mut Transaction, name: &str) -> Result<()> {
    check_name("collection", name)?;
    tx.start_operation();
    let place = layout::registry(name);
    tx.lock(&place, LockMode::Exclusive, || format!("the name of collection {name:?}")).await?;
    let Some(bytes) = tx.record(&place)? else {
        return Err(Error::new(ErrorKind::NotFound, format!("there is no collection {name:?} to drop")));
    };
    let record = decode(name, &bytes)?;
    let known = tx.shared().registry.known(name, &record, LIVE);
    tx.lock_collection(known.id, LockMode::Exclusive, || known.to_string()).await?;
    tx.writes.drop_collection(known.id, place)?;
    // What the same transaction has created is gone either way.
    let if_undone = if known.life.load(Ordering::Acquire) == tx.id().0 { GONE } else { LIVE };
    known.life.store(DROPPED | tx.id().0, Ordering::Release);
    tx.endings.push(Box::new(LifeChange { known, if_committed: GONE, if_undone }));
    Ok(())
}

/// The collections that a snapshot has.
pub(crate) fn list(snapshot: &Snapshot) -> Result<Vec<CollectionInfo>> {
    let mut found = Vec::new();
    for entry in layout::scan(snapshot, layout::REGISTRY_PREFIX)? {
        let (key, bytes) = entry?;
        let name = std::str::from_utf8(&key[layout::REGISTRY_PREFIX.len()..])
            .map_err(|_| Error::corrupt(format!("the name of a collection is not text: {RESTORE}")))?;
        let Record { kind, key, value, .. } = match decode(name, &bytes) {
            Ok(record) => record,
            // Whoever opens it is told; the others are there all the same.
            Err(error) if error.kind() == ErrorKind::UnknownVersion => {
                tracing::warn!(%error, "a collection is left out");
                continue;
            }
            Err(error) => return Err(error),
        };
        found.push(CollectionInfo { name: name.to_owned(), kind, key, value });
    }
    Ok(found)
}

/// The collection that a record is of; `None` if this build cannot read it.
pub(crate) fn id_of(record: &[u8]) -> Option<CollectionId> {
    decode("", record).ok().map(|record| CollectionId(record.id))
}

/// Refuses what cannot be the name of a collection or a gate.
pub(crate) fn check_name(of: &str, name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(format!("the name of a {of} is empty: give it at least one letter")));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("the name of a {of} has {} bytes, and NAME_BYTES_MAX is {NAME_BYTES_MAX}", name.len()),
        ));
    }
    if let Some(control) = name.chars().find(|letter| letter.is_control()) {
        return Err(Error::invalid(format!(
            "the name of {of} {name:?} has a control character {control:?}: leave it out"
        )));
    }
    Ok(())
}

fn encode(record: &Record) -> Result<Bytes> {
    let mut bytes = vec![COLLECTION.written()];
    contract::encode_into(&mut bytes, record)?;
    Ok(bytes.into())
}

fn decode(name: &str, bytes: &[u8]) -> Result<Record> {
    let Some((version, rest)) = bytes.split_first() else {
        return Err(Error::corrupt(format!("the record of collection {name:?} is empty: {RESTORE}")));
    };
    COLLECTION.check_of(*version, format_args!("the record of collection {name:?}"))?;
    contract::decode(rest).map_err(|error| {
        Error::corrupt(format!("the record of collection {name:?} is damaged: {RESTORE}")).with_source(error)
    })
}

impl Record {
    /// Refuses to open a collection as something else than it is.
    fn check(&self, name: &str, kind: CollectionKind, key: Option<&str>, value: &str) -> Result<()> {
        if (self.kind, self.key.as_deref(), self.value.as_str()) == (kind, key, value) {
            return Ok(());
        }
        let wanted = Record { id: self.id, kind, key: key.map(str::to_owned), value: value.to_owned() };
        let mut text = format!("collection {name:?} is a {self}, and was opened as a {wanted}: open it as what it is");
        if self.kind == kind && self.key.as_deref() == key {
            text += &format!(
                "; if the type has only been renamed, keep its name in the data with #[serde(rename = {:?})]",
                self.value
            );
        }
        Err(Error::new(ErrorKind::Conflict, text))
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{} from {key} to {}", self.kind, self.value),
            None => write!(f, "{} of {}", self.kind, self.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::format::golden::{Golden, damaged, longer};

    use super::*;

    #[test]
    fn golden_records_of_collections_are_what_is_written() {
        let golden = Golden::of(env!("CARGO_MANIFEST_DIR"));
        let key = Some("String".to_owned());
        let dictionary = Record { id: 7, kind: CollectionKind::Dictionary, key, value: "u64".to_owned() };
        let queue = Record { id: 8, kind: CollectionKind::Queue, key: None, value: "Order".to_owned() };
        for (name, record) in [("collection-dictionary", dictionary), ("collection-queue", queue)] {
            let bytes = encode(&record).unwrap();
            golden.check(name, &COLLECTION, &bytes);
            assert_eq!(decode("books", &bytes).unwrap(), record);
            for (_, bytes) in damaged(&bytes) {
                let Err(error) = decode("books", &bytes) else { continue };
                assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::UnknownVersion), "{error}");
                assert!(error.to_string().contains("collection \"books\""), "{error}");
            }
        }
    }

    #[test]
    fn golden_numbers_of_the_next_collection_are_what_is_written() {
        let bytes = encode_next_id(0x0102_0304);
        Golden::of(env!("CARGO_MANIFEST_DIR")).check("next-collection", &NEXT_COLLECTION, &bytes);
        assert_eq!(read_next_id(&bytes).unwrap(), 0x0102_0304);
        assert_eq!(read_next_id(&longer(&bytes)).unwrap(), 0x0102_0304);
        assert_eq!(read_next_id(&[1, 2, 3, 4]).unwrap(), 0x0102_0304, "as it was without a version");
        assert_eq!(read_next_id(&[2, 1, 2, 3, 4]).unwrap_err().kind(), ErrorKind::UnknownVersion);
        for cut in [&[][..], &[1], &[1, 2, 3]] {
            assert_eq!(read_next_id(cut).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
