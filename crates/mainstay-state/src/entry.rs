use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::contract::{Limits, Unknown};
use mainstay_core::time::{self, WallTime};
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_replica::Object;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::options::VALUE_BYTES_MAX;

/// What a collection holds: any serde type that can go from task to task.
pub(crate) trait Value: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Value for T {}

/// An entry as it is stored, and its value. Cheap to clone, and one pointer wide: it goes from hand to hand.
#[derive(Clone)]
pub(crate) struct Entry {
    parts: Arc<Parts>,
}

/// What an [`Entry`] gives to those who have it.
pub(crate) struct Parts {
    /// As it is stored.
    pub(crate) raw: Bytes,
    pub(crate) expires: Option<WallTime>,
    /// What the value's type does not know of what is stored.
    unknown: Option<Arc<Unknown>>,
    /// The value, of whatever type it was last read or written as.
    value: Arc<dyn Any + Send + Sync>,
}

impl Object for Parts {
    fn bytes(&self) -> &[u8] {
        &self.raw
    }
}

/// The first byte of a stored entry: the version in the upper half, what follows in the lower.
const PLAIN: u8 = 0x10;
const EXPIRING: u8 = 0x11;
const EXPIRY_BYTES: usize = 8;

const LIMITS: Limits = Limits { bytes_max: VALUE_BYTES_MAX, ..Limits::DEFAULT };

impl Deref for Entry {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl Entry {
    fn new(
        raw: Bytes,
        expires: Option<WallTime>,
        unknown: Option<Arc<Unknown>>,
        value: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self { parts: Arc::new(Parts { raw, expires, unknown, value }) }
    }

    /// Writes a value. What `replaced` holds that the value's type does not know is kept.
    pub(crate) fn encode<V: Value>(
        value: Arc<V>,
        expires: Option<WallTime>,
        replaced: Option<&Unknown>,
    ) -> Result<Self> {
        SCRATCH.with_borrow_mut(|bytes| {
            bytes.clear();
            match expires {
                None => bytes.push(PLAIN),
                Some(at) => {
                    bytes.push(EXPIRING);
                    bytes.extend_from_slice(&at.as_millis().to_be_bytes());
                }
            }
            let unknown = match replaced {
                None => LIMITS.encode_into(bytes, &*value).map(|()| None),
                Some(replaced) => LIMITS.encode_keeping_into(bytes, &*value, replaced).map(kept),
            };
            let raw = Bytes::copy_from_slice(bytes);
            // One huge value does not stay in every thread's memory.
            bytes.shrink_to(SCRATCH_BYTES_MAX);
            Ok(Self::new(raw, expires, unknown?, value))
        })
    }

    /// Reads a value.
    pub(crate) fn decode<V: Value>(raw: Bytes) -> Result<Self> {
        let (expires, payload) = split(&raw)?;
        let (value, unknown) = LIMITS.decode_keeping::<V>(payload)?;
        Ok(Self::new(raw, expires, kept(unknown), Arc::new(value)))
    }

    /// Reads a value that is not going to be changed.
    pub(crate) fn decode_value<V: Value>(raw: &[u8]) -> Result<V> {
        LIMITS.decode(split(raw)?.1)
    }

    /// A stored entry that is not decoded before its value is asked for.
    pub(crate) fn opaque(raw: Bytes) -> Result<Self> {
        let expires = expiry_of(&raw)?;
        Ok(Self::new(raw, expires, None, Arc::new(Opaque)))
    }

    /// What a store in memory keeps of it: all.
    pub(crate) fn object(&self) -> Arc<dyn Object> {
        self.parts.clone()
    }

    /// The entry that [`object`](Entry::object) gave; `None` for one of somebody else.
    pub(crate) fn of_object(object: Arc<dyn Object>) -> Option<Self> {
        let object: Arc<dyn Any + Send + Sync> = object;
        object.downcast().ok().map(|parts| Self { parts })
    }

    /// The value, decoded again if it was last used as another version of its type.
    pub(crate) fn value<V: Value>(&self) -> Result<Arc<V>> {
        if let Ok(value) = self.value.clone().downcast::<V>() {
            return Ok(value);
        }
        let decoded = Self::decode::<V>(self.raw.clone())?;
        decoded.value.clone().downcast::<V>().map_err(|_| Error::fatal("a value is not of the type it was decoded as"))
    }

    /// A copy of the value, to be changed.
    pub(crate) fn copy<V: Value + Clone>(&self) -> Result<V> {
        match self.value.downcast_ref::<V>() {
            Some(value) => Ok(value.clone()),
            None => self.value::<V>().map(|value| V::clone(&value)),
        }
    }

    /// What a new value of type `V` must keep of this one.
    pub(crate) fn unknown<V: Value>(&self) -> Result<Option<Arc<Unknown>>> {
        if self.value.is::<V>() {
            return Ok(self.unknown.clone());
        }
        Ok(Self::decode::<V>(self.raw.clone())?.unknown.clone())
    }

    /// Whether it is there for those who read now.
    pub(crate) fn is_live(&self) -> bool {
        // Most entries never expire, and then nobody asks what time it is.
        self.expires.is_none_or(|at| at > time::wall())
    }

    pub(crate) fn has_expired(&self, now: WallTime) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }
}

/// Stands for a value that was not decoded.
struct Opaque;

thread_local! {
    static SCRATCH: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// What a thread keeps for the next value that it encodes.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

fn kept(unknown: Unknown) -> Option<Arc<Unknown>> {
    if unknown.is_empty() { None } else { Some(Arc::new(unknown)) }
}

/// When a stored entry expires, without its value.
pub(crate) fn expiry_of(raw: &[u8]) -> Result<Option<WallTime>> {
    split(raw).map(|(expires, _)| expires)
}

/// The parts of a stored entry: when it expires, and its value.
pub(crate) fn split(raw: &[u8]) -> Result<(Option<WallTime>, &[u8])> {
    match raw.split_first() {
        Some((&PLAIN, payload)) => Ok((None, payload)),
        Some((&EXPIRING, rest)) => match rest.split_first_chunk::<EXPIRY_BYTES>() {
            Some((millis, payload)) => Ok((Some(WallTime::from_millis(u64::from_be_bytes(*millis))), payload)),
            None => Err(Error::corrupt("a stored entry ends before its time of expiry")),
        },
        Some((first, _)) => Err(Error::new(
            ErrorKind::UnknownVersion,
            format!(
                "a stored entry starts with {first:#04x}, which this build does not read: use the one that wrote it"
            ),
        )),
        None => Err(Error::corrupt("a stored entry is empty")),
    }
}
