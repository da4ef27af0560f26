//! Transactions, locks and reliable collections: all of a partition's state, as keys in its one store.
//!
//! The path of a transaction: [`StateManager::begin`] → an operation of a collection takes its locks, reads what is
//! committed or written by the transaction itself, and notes what it writes → [`Transaction::commit`] makes one batch
//! of it, which the partition commits → the locks are released, and the transactions that wait for them go on.
//!
//! A [`StateManager`] is open for one epoch of a partition's primary: what it knows besides the store (locks, decoded
//! values) is worth nothing under another primary. Nothing here knows of services or other nodes.
//!
//! A partition of actors holds no collections: [`actor`] is what is stored there instead.

mod attempt;
mod call_graph;
mod commit;
mod commit_faults;
mod manager;
mod options;
mod partition_session;
mod retry;
mod transaction;

mod collection;
mod concurrent_queue;
mod dictionary;
mod queue;
mod registry;

mod gates;
mod watch;

pub mod actor;

mod cache;
mod entry;
mod expiry;
mod formats;
mod layout;
mod lock;
mod moment;
mod writes;
mod written;

#[cfg(feature = "planted-bugs")]
pub mod planted;

pub use attempt::Attempt;
pub use call_graph::CallGraph;
pub use collection::Collection;
pub use commit_faults::{CommitFault, CommitFaults};
pub use concurrent_queue::{CAPACITY_DEFAULT, ConcurrentQueue, NoItem};
pub use dictionary::{Change, Changed, Dictionary, Entries, Keys, Range, Watch};
pub use gates::Gates;
pub use lock::{Deadlock, LockHolder, LockMode, LockTimeout, LockWait, TransactionId, WaitsFor};
/// What a [`StateManager`] is opened on, and follows; here for those who see state and no replicas.
pub use mainstay_replica::{EpochLease, Partition, Quiescence, Role, RoleState};
pub use manager::{Closing, StateManager};
pub use options::{LOCK_TIMEOUT, RetryOptions, StateOptions, TRANSACTION_BYTES_MAX, VALUE_BYTES_MAX};
pub use queue::{Items, Queue, QueueChange, QueueChanged, QueueWatch};
pub use registry::{CollectionInfo, CollectionKind, NAME_BYTES_MAX};
pub use transaction::Transaction;
