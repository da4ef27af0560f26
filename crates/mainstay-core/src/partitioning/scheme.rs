use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::partition_key::{PARTITION_KEY_BYTES_MAX, PartitionKey, hash};
use super::share::Share;
use crate::{Error, ErrorKind, Result};

/// The most partitions of a service. Each costs an object, a task and a record, whether it is used or not; far more
/// than cores in a cluster spread no load.
pub const PARTITIONS_MAX: u32 = 10_000;

/// The longest name of a partition.
pub const PARTITION_NAME_BYTES_MAX: usize = 256;

/// How a service is cut into partitions. It is chosen when the service first starts and recorded with its data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Partitioning {
    /// Equal ranges of keys.
    Uniform {
        /// How many.
        count: u32,
        /// The lowest key.
        low: i64,
        /// The highest key.
        high: i64,
    },
    /// One partition for each name.
    Named {
        /// The names, in the order of the partitions.
        names: Vec<String>,
    },
    /// One partition for everything.
    Singleton,
}

impl Partitioning {
    /// Equal ranges over all of `i64`.
    pub const fn uniform(count: u32) -> Self {
        Self::uniform_between(count, i64::MIN, i64::MAX)
    }

    /// Equal ranges over the keys from `low` to `high`, both included, for callers that give numbers. A text or a uuid
    /// is hashed to any `i64`, so such a key needs [all of them](Partitioning::uniform).
    pub const fn uniform_between(count: u32, low: i64, high: i64) -> Self {
        Self::Uniform { count, low, high }
    }

    /// One partition for each name.
    pub fn named<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self::Named { names: names.into_iter().map(Into::into).collect() }
    }

    /// One partition for everything.
    pub const fn singleton() -> Self {
        Self::Singleton
    }

    /// How many partitions there are.
    pub fn count(&self) -> u32 {
        match self {
            Self::Uniform { count, .. } => *count,
            // More than u32::MAX names are more than PARTITIONS_MAX either way.
            Self::Named { names } => u32::try_from(names.len()).unwrap_or(u32::MAX),
            Self::Singleton => 1,
        }
    }

    /// Says whether a service can be cut like this.
    ///
    /// # Errors
    /// `Invalid` without partitions, with more than [`PARTITIONS_MAX`] or more than there are keys, and with names that are
    /// empty, too long or given twice.
    pub fn check(&self) -> Result<()> {
        let count = self.count();
        if count == 0 {
            return Err(Error::invalid(format!("partitioning {self} has no partition: give it at least one")));
        }
        if count > PARTITIONS_MAX {
            return Err(Error::invalid(format!(
                "partitioning has {count} partitions, more than PARTITIONS_MAX of {PARTITIONS_MAX}: use fewer"
            )));
        }
        match self {
            Self::Uniform { low, high, .. } if low > high => {
                Err(Error::invalid(format!("partitioning {self} has no keys: give the lower end of the range first")))
            }
            Self::Uniform { low, high, .. } if u128::from(count) > width(*low, *high) => Err(Error::invalid(format!(
                "partitioning {self} has more partitions than keys: use fewer partitions or a wider range"
            ))),
            Self::Named { names } => check_names(names),
            _ => Ok(()),
        }
    }

    /// Which partition a key belongs to, counted from 0.
    ///
    /// # Errors
    /// `Invalid` if the key is of another kind than the partitioning, outside its range or not among its names,
    /// `TooLarge` for a text above [`PARTITION_KEY_BYTES_MAX`].
    pub fn partition_of(&self, key: &PartitionKey) -> Result<u32> {
        match (self, key) {
            (Self::Uniform { count, low, high }, PartitionKey::Number(number)) => index(*count, *low, *high, *number)
                .ok_or_else(|| {
                    Error::invalid(format!("key {number} is outside of {self}: give a number from {low} to {high}"))
                }),
            (Self::Uniform { count, low: i64::MIN, high: i64::MAX }, PartitionKey::Text(text)) => {
                if text.len() > PARTITION_KEY_BYTES_MAX {
                    return Err(Error::new(
                        ErrorKind::TooLarge,
                        format!(
                            "key {key} exceeds PARTITION_KEY_BYTES_MAX of {PARTITION_KEY_BYTES_MAX} bytes: use a shorter \
                             one"
                        ),
                    ));
                }
                Ok(index_in_all(*count, hash(text.as_bytes())))
            }
            (Self::Uniform { count, low: i64::MIN, high: i64::MAX }, PartitionKey::Uuid(uuid)) => {
                Ok(index_in_all(*count, hash(uuid.as_bytes())))
            }
            (Self::Named { names }, PartitionKey::Named(name)) => {
                let place = names.iter().position(|known| known == name);
                place.and_then(|place| u32::try_from(place).ok()).ok_or_else(|| {
                    Error::invalid(format!("there is no partition of {key}: the names are {}", quoted(names)))
                })
            }
            (Self::Singleton, PartitionKey::Singleton) => Ok(0),
            (_, key) => Err(Error::invalid(format!("{key} is no key for {self}: give {}", self.wanted()))),
        }
    }

    /// What a partition is responsible for; `None` if there is no such partition.
    pub fn share(&self, partition: u32) -> Option<Share> {
        if partition >= self.count() {
            return None;
        }
        match self {
            Self::Uniform { count, low, high } => {
                let last = if partition + 1 == *count { *high } else { start(*count, *low, *high, partition + 1) - 1 };
                Some(Share::Range { low: start(*count, *low, *high, partition), high: last })
            }
            Self::Named { names } => names.get(partition as usize).cloned().map(Share::Name),
            Self::Singleton => Some(Share::Whole),
        }
    }

    fn wanted(&self) -> String {
        match self {
            Self::Uniform { low: i64::MIN, high: i64::MAX, .. } => "an i64, a text or a uuid".to_owned(),
            Self::Uniform { low, high, .. } => format!("an i64 from {low} to {high}"),
            Self::Named { names } => format!("PartitionKey::named(..) with one of {}", quoted(names)),
            Self::Singleton => "() or PartitionKey::singleton()".to_owned(),
        }
    }
}

/// Written as in the attribute of a service.
impl fmt::Display for Partitioning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform { count, low: i64::MIN, high: i64::MAX } => write!(f, "uniform({count})"),
            Self::Uniform { count, low, high } => write!(f, "uniform({count}, {low}..={high})"),
            Self::Named { names } => write!(f, "named({})", quoted(names)),
            Self::Singleton => f.write_str("singleton"),
        }
    }
}

fn check_names(names: &[String]) -> Result<()> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() || name.len() > PARTITION_NAME_BYTES_MAX {
            return Err(Error::invalid(format!(
                "partition name {name:?} has {} bytes: a name has 1 to {PARTITION_NAME_BYTES_MAX}",
                name.len()
            )));
        }
        if !seen.insert(name) {
            return Err(Error::invalid(format!("partition name {name:?} is given twice: leave one out")));
        }
    }
    Ok(())
}

/// How many names a message lists.
const NAMES_SHOWN_MAX: usize = 16;

fn quoted(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(NAMES_SHOWN_MAX).map(|name| format!("{name:?}")).collect();
    let more = if names.len() > NAMES_SHOWN_MAX { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// How many keys there are from `low` to `high`.
fn width(low: i64, high: i64) -> u128 {
    u128::from(high.abs_diff(low)) + 1
}

/// `floor((key - low) * count / width)`: ranges whose lengths differ by one key at most.
fn index(count: u32, low: i64, high: i64, key: i64) -> Option<u32> {
    if key < low || key > high {
        return None;
    }
    let place = u128::from(key.abs_diff(low)) * u128::from(count) / width(low, high);
    // Less than `count`, because the distance is less than the width.
    u32::try_from(place).ok()
}

/// [`index`] over all of `i64`, where no key is outside.
fn index_in_all(count: u32, key: i64) -> u32 {
    ((u128::from(key.abs_diff(i64::MIN)) * u128::from(count)) >> 64) as u32
}

/// The first key of a partition: the least that [`index`] maps to it.
fn start(count: u32, low: i64, high: i64, partition: u32) -> i64 {
    let distance = (u128::from(partition) * width(low, high)).div_ceil(u128::from(count));
    // Within the range, because `partition` is less than `count`.
    (i128::from(low) + distance.cast_signed()) as i64
}
