use std::fmt;

use uuid::Uuid;
use xxhash_rust::xxh64::xxh64;

use crate::{Error, Result};

/// The longest text that is taken as a key. It is hashed anew by every process that makes a proxy, and what is longer
/// is a value.
pub const PARTITION_KEY_BYTES_MAX: usize = 64 << 10;

/// What a caller gives to reach a partition.
///
/// An `i64` is taken as it is, which lets a caller choose the partition. A text or a uuid is [hashed](hash). `()` is the
/// key of a service with one partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartitionKey {
    /// A number, taken as it is.
    Number(i64),
    /// A text, placed by the hash of its UTF-8 bytes.
    Text(String),
    /// A uuid, placed by the hash of its 16 bytes.
    Uuid(Uuid),
    /// The name of a partition.
    Named(String),
    /// The only partition there is.
    Singleton,
}

/// Seed of the hash. Part of the format: with another one every stored key would be looked for elsewhere.
const HASH_SEED: u64 = 0;

/// The number that stands for a text or a uuid: XXH64 with seed 0 over the bytes, its 64 bits taken as an `i64` in two's
/// complement. Part of the format of stored data, and the same on every machine and in every version.
///
/// ```
/// assert_eq!(mainstay_core::partitioning::hash(b"alice"), 8_332_761_332_120_969_289);
/// ```
pub fn hash(bytes: &[u8]) -> i64 {
    xxh64(bytes, HASH_SEED).cast_signed()
}

impl PartitionKey {
    /// The key of a partition that has a name.
    pub fn named(name: impl Into<String>) -> Self {
        Self::Named(name.into())
    }

    /// The key of the one partition of a service that has no more.
    pub fn singleton() -> Self {
        Self::Singleton
    }
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "number {number}"),
            Self::Text(text) => write!(f, "text {}", Shown(text)),
            Self::Uuid(uuid) => write!(f, "uuid {uuid}"),
            Self::Named(name) => write!(f, "name {}", Shown(name)),
            Self::Singleton => f.write_str("singleton"),
        }
    }
}

/// How many characters of a key are shown in a message: enough to know it by, and not a page of it.
const SHOWN_CHARS_MAX: usize = 64;

/// A text in quotes, cut off where it is long.
struct Shown<'t>(&'t str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(SHOWN_CHARS_MAX) {
            None => write!(f, "{:?}", self.0),
            Some((end, _)) => write!(f, "{:?}… ({} bytes)", &self.0[..end], self.0.len()),
        }
    }
}

impl From<i64> for PartitionKey {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<i32> for PartitionKey {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u32> for PartitionKey {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

/// The upper half of all `u64` is no key, which is an `i64` and its own place among the partitions.
impl TryFrom<u64> for PartitionKey {
    type Error = Error;

    fn try_from(number: u64) -> Result<Self> {
        number.try_into().map(Self::Number).map_err(|_| {
            Error::invalid(format!(
                "partition key {number} is above i64::MAX: use `number.cast_signed()` if every number may be one, or a text"
            ))
        })
    }
}

impl From<&str> for PartitionKey {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for PartitionKey {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<String> for PartitionKey {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Uuid> for PartitionKey {
    fn from(uuid: Uuid) -> Self {
        Self::Uuid(uuid)
    }
}

impl From<()> for PartitionKey {
    fn from((): ()) -> Self {
        Self::Singleton
    }
}
