//! One replica of a replica set: a replicated log with a state store behind it, shared by many partitions.
//!
//! The path of a commit: [`Partition::commit`] → the committer merges what many callers commit into one log entry →
//! openraft proposes it → the log storage writes it to the node log and the network sends it to the other replicas → a
//! quorum has it → the state machine applies it to the state store → the committer answers the callers.
//!
//! Only this crate knows openraft. How bytes reach another node is a seam ([`Transport`]); an [`InProcessNetwork`] with
//! loss, delay, reordering, duplication and cuts stands in for a real one in tests and simulation.

mod activity;
mod changes;
mod claim;
mod committed;
mod election_watch;
mod folder_lock;
mod hand_over;
mod identity;
mod lease;
mod members;
mod node_replicas;
mod options;
mod partition;
mod quiescence;
mod replica;
mod role_state;
mod senders;
mod set_members;
mod transfer_target;
mod unfinished;
mod uniform_sets;

mod checkpoint_scheduler;
mod command;
mod committer;
mod health;
mod history;
mod local;
mod notify_wait;
mod object_put;
mod progress;
mod retention;

mod log_owner;
mod log_storage;
mod state_machine;

mod admission;
mod coalesce_empty_appends;
mod formats;
mod in_process;
mod lost_voters;
mod message;
mod network;
mod pipelined_appends;
mod receiver;
mod repeat;
mod transport;
mod wire;

mod inline_executor;
mod quiet;
mod raft;
mod runtime;
mod watch;

#[cfg(feature = "planted-bugs")]
pub mod planted;

#[cfg(test)]
mod tests;

pub use activity::SetActivity;
pub use changes::Changes;
pub use claim::Claim;
pub use committed::{Committed, Operation};
pub use folder_lock::FolderLock;
pub use health::Health;
pub use identity::FolderIdentity;
pub use in_process::{Handler, InProcessNetwork, Troubles};
pub use lease::EpochLease;
pub use mainstay_store::disk::sim::SimDisk;
pub use mainstay_store::disk::{Disk, RealDisk};
pub use mainstay_store::log::{LogActivity, LogOptions};
pub use mainstay_store::state::{DiskStoreOptions, Held, Key, KeyRange, Object, Order, Scan, prefix_successor};
pub use node_replicas::{NodeReplicas, NodeReplicasOptions, ReplicaSpec};
pub use options::{CheckpointOptions, CommitOptions, ReplicaOptions, Timing};
pub use partition::{Batch, Partition, Snapshot};
pub use quiescence::Quiescence;
pub use replica::{Identity, Replica, Status};
pub use role_state::{Role, RoleState};
pub use set_members::Members;
pub use transport::{Answer, Traffic, Transport};
pub use uniform_sets::{SETS_PER_LEVEL, UniformSets, UniformSetsOptions};
