//! How a service is cut into partitions, and which of them a key belongs to.
//!
//! A [`Partitioning`] has a fixed number of partitions, counted from 0. A [`PartitionKey`] is what a caller gives. Both
//! are values: where a partition lives, and under which id it is stored, is known elsewhere.
//!
//! ```
//! use mainstay_core::partitioning::{PartitionKey, Partitioning};
//!
//! let ten = Partitioning::uniform(10);
//! assert_eq!(ten.partition_of(&PartitionKey::from(i64::MIN))?, 0);
//! assert_eq!(ten.partition_of(&PartitionKey::from(i64::MAX))?, 9);
//! assert_eq!(ten.partition_of(&PartitionKey::from("alice"))?, ten.partition_of(&PartitionKey::from("alice"))?);
//!
//! let regions = Partitioning::named(["eu", "us"]);
//! assert_eq!(regions.partition_of(&PartitionKey::named("us"))?, 1);
//! let error = regions.partition_of(&PartitionKey::from("us")).unwrap_err();
//! assert!(error.to_string().contains("PartitionKey::named"));
//! # Ok::<(), mainstay_core::Error>(())
//! ```

mod partition_key;
mod scheme;
mod share;

#[cfg(test)]
mod tests;

pub use partition_key::{PARTITION_KEY_BYTES_MAX, PartitionKey, hash};
pub use scheme::{PARTITION_NAME_BYTES_MAX, PARTITIONS_MAX, Partitioning};
pub use share::Share;
