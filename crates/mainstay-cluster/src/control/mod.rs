//! The control set: what the cluster knows of itself, as records in one partition of a replica set of its own.
//!
//! The [records](record) are written by the controller alone. [`ControlState`] is all of them, as a value; each node has a
//! replica of the set and follows it with a [`ControlWatch`], so that whatever needs the state reads it locally.

pub mod record;

mod codec;
mod key;
mod state;
mod watch;

#[cfg(test)]
mod tests;

use mainstay_core::PartitionId;

pub use mainstay_core::CONTROL_SET;

pub(crate) use codec::{decode, encode};
pub(crate) use key::{NAME_BYTES_MAX, level_code, level_of};
pub use state::ControlState;
pub(crate) use state::replicated;
pub use watch::ControlWatch;

/// The partition of [`CONTROL_SET`] that holds the control records.
pub const CONTROL_PARTITION: PartitionId = PartitionId(0);

/// The first partition of a service. Those before it are kept for the system's own.
pub const FIRST_PARTITION: PartitionId = PartitionId(16);
