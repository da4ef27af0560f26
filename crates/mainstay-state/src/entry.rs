use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::contract::{Encodable, Limits, Unknown};
use mainstay_core::format::PROGRAM;
use mainstay_core::time::WallTime;
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_replica::Object;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::formats::ENTRY;
use crate::options::VALUE_BYTES_MAX;

/// What a collection holds: any serde type that can go from task to task.
pub(crate) trait Value: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Value for T {}

/// An entry as it is stored, and its value. Cheap to clone: it goes from hand to hand.
#[derive(Clone)]
pub(crate) enum Entry {
    /// A value that does not expire, and all of which its type knows. Nobody has its bytes, of which there are `len`: it is
    /// encoded again where they are wanted. So a store in memory has one allocation for it, and a change makes one.
    Plain { value: Arc<dyn Encodable>, len: u32 },
    /// Any other.
    Stored(Arc<Stored>),
}

/// An entry with the bytes that are stored.
pub(crate) struct Stored {
    raw: Bytes,
    expires: Option<WallTime>,
    /// What the value's type does not know of what is stored.
    unknown: Option<Arc<Unknown>>,
    /// The value, of whatever type it was last read or written as.
    value: Arc<dyn Any + Send + Sync>,
}

/// The first byte of a stored entry: the version in the upper half, what follows in the lower.
const PLAIN: u8 = ENTRY.written() << 4;
const EXPIRING: u8 = ENTRY.written() << 4 | 1;
const EXPIRY_BYTES: usize = 8;

const LIMITS: Limits = Limits { bytes_max: VALUE_BYTES_MAX, ..Limits::DEFAULT };

impl Entry {
    fn new(
        raw: Bytes,
        expires: Option<WallTime>,
        unknown: Option<Arc<Unknown>>,
        value: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self::Stored(Arc::new(Stored { raw, expires, unknown, value }))
    }

    /// Writes a value. What `replaced` holds that the value's type does not know is kept. `is_kept` says whether the store
    /// is to keep values of so many bytes as they are.
    pub(crate) fn encode<V: Value>(
        value: Arc<V>,
        expires: Option<WallTime>,
        replaced: Option<&Unknown>,
        is_kept: impl FnOnce(usize) -> bool,
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
            let entry = match unknown {
                Err(error) => Err(error),
                Ok(None) if expires.is_none() && is_kept(bytes.len()) => {
                    // At most VALUE_BYTES_MAX and one.
                    Ok(Self::Plain { value, len: bytes.len() as u32 })
                }
                Ok(unknown) => Ok(Self::new(Bytes::copy_from_slice(bytes), expires, unknown, value)),
            };
            // One huge value does not stay in every thread's memory.
            bytes.shrink_to(SCRATCH_BYTES_MAX);
            entry
        })
    }

    /// Reads a value.
    pub(crate) fn decode<V: Value>(raw: Bytes) -> Result<Self> {
        let (value, expires, unknown) = Self::decode_parts::<V>(&raw)?;
        Ok(Self::new(raw, expires, unknown, Arc::new(value)))
    }

    fn decode_parts<V: Value>(raw: &[u8]) -> Result<(V, Option<WallTime>, Option<Arc<Unknown>>)> {
        let (expires, payload) = split(raw)?;
        let (value, unknown) = LIMITS.decode_keeping::<V>(payload)?;
        Ok((value, expires, kept(unknown)))
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

    /// How many bytes are stored.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Plain { len, .. } => *len as usize,
            Self::Stored(stored) => stored.raw.len(),
        }
    }

    /// What is stored.
    ///
    /// # Errors
    /// What encoding it fails with, although it could be encoded when it was written.
    pub(crate) fn raw(&self) -> Result<Cow<'_, [u8]>> {
        match self {
            Self::Plain { value, len } => Ok(Cow::Owned(plain(value, *len).to_bytes()?.into())),
            Self::Stored(stored) => Ok(Cow::Borrowed(&stored.raw)),
        }
    }

    pub(crate) fn expires(&self) -> Option<WallTime> {
        match self {
            Self::Plain { .. } => None,
            Self::Stored(stored) => stored.expires,
        }
    }

    /// What a store in memory keeps, if it is to keep more than bytes.
    pub(crate) fn object(&self) -> Option<Object> {
        match self {
            Self::Plain { value, len } => Some(plain(value, *len)),
            Self::Stored(_) => None,
        }
    }

    /// The entry that [`object`](Entry::object) gave.
    pub(crate) fn of_object(object: Object) -> Result<Self> {
        match object {
            Object { value, head: PLAIN, len } => Ok(Self::Plain { value, len }),
            // Of somebody else.
            other => Self::opaque(other.to_bytes()?),
        }
    }

    /// The value, of whatever type it was last read or written as.
    fn any(&self) -> &(dyn Any + Send + Sync) {
        match self {
            Self::Plain { value, .. } => &**value,
            Self::Stored(stored) => &*stored.value,
        }
    }

    /// The value, decoded again if it was last used as another version of its type.
    pub(crate) fn value<V: Value>(&self) -> Result<Arc<V>> {
        let value: Arc<dyn Any + Send + Sync> = match self {
            Self::Plain { value, .. } => value.clone(),
            Self::Stored(stored) => stored.value.clone(),
        };
        match value.downcast::<V>() {
            Ok(value) => Ok(value),
            Err(_) => Ok(Arc::new(Self::decode_parts::<V>(&self.raw()?)?.0)),
        }
    }

    /// A copy of the value, to be changed.
    pub(crate) fn copy<V: Value + Clone>(&self) -> Result<V> {
        match self.any().downcast_ref::<V>() {
            Some(value) => Ok(value.clone()),
            None => Ok(Self::decode_parts::<V>(&self.raw()?)?.0),
        }
    }

    /// What a new value of type `V` must keep of this one.
    pub(crate) fn unknown<V: Value>(&self) -> Result<Option<Arc<Unknown>>> {
        match self {
            _ if !self.any().is::<V>() => Ok(Self::decode_parts::<V>(&self.raw()?)?.2),
            Self::Plain { .. } => Ok(None),
            Self::Stored(stored) => Ok(stored.unknown.clone()),
        }
    }

    pub(crate) fn has_expired(&self, now: WallTime) -> bool {
        self.expires().is_some_and(|at| at <= now)
    }
}

fn plain(value: &Arc<dyn Encodable>, len: u32) -> Object {
    Object { value: value.clone(), head: PLAIN, len }
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
        Some((first, _)) => {
            ENTRY.check_of(first >> 4, "a stored entry")?;
            Err(Error::new(
                ErrorKind::UnknownVersion,
                format!(
                    "a stored entry starts with {first:#04x}, which this program ({PROGRAM}) does not read: start the one that \
                     wrote it"
                ),
            ))
        }
        None => Err(Error::corrupt("a stored entry is empty")),
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::format::golden::{Golden, damaged};

    use super::*;

    #[test]
    fn golden_entries_are_what_is_written() {
        for (name, expires) in [("entry-plain", None), ("entry-expiring", Some(WallTime::from_millis(9)))] {
            let entry = Entry::encode(Arc::new("value".to_owned()), expires, None, |_| false).unwrap();
            let bytes = entry.raw().unwrap();
            Golden::of(env!("CARGO_MANIFEST_DIR")).check(name, &ENTRY, &bytes);
            assert_eq!(Entry::decode_value::<String>(&bytes).unwrap(), "value");
            assert_eq!(expiry_of(&bytes).unwrap(), expires);
            for (_, bytes) in damaged(&bytes) {
                let Err(error) = Entry::decode::<String>(bytes.into()) else { continue };
                assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::UnknownVersion), "{error}");
            }
        }
        let later = split(&[0x20, 0]).unwrap_err();
        assert!(later.to_string().starts_with("a stored entry has format version 2, and this program ("), "{later}");
        assert_eq!(split(&[0x12, 0]).unwrap_err().kind(), ErrorKind::UnknownVersion);
    }
}
