//! What every other room speaks in: ids, errors, data contracts, and the seams through which time, randomness
//! and tasks come in.
//!
//! Nothing here knows about disks, sockets or consensus. The seams ([`time`], [`random`], [`task`]) are the only
//! modules of the workspace that touch the real clock, the operating system's randomness and bare `spawn`;
//! everything else goes through them, which is what lets a whole cluster run in simulation by seed.

mod actor_id;
mod backoff;
mod error;
pub mod id;

pub mod contract;
pub mod format;
pub mod key;
pub mod partitioning;

pub mod random;
pub mod task;
pub mod time;
pub mod timings;

pub use actor_id::{ACTOR_ID_BYTES_MAX, ActorId};
pub use backoff::{Backoff, Retries};
pub use error::{Error, ErrorKind, OrError, RESTORE, Result};
pub use id::{CONTROL_SET, ClusterId, Epoch, Level, NodeId, PartitionId, ReplicaId, SequenceNumber, SetId};
