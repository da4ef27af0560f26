//! Transactions, locks and reliable collections: all of a partition's state, as keys in its one store.
//!
//! The path of a transaction: `StateManager::begin` → an operation of a collection takes its locks, reads what is
//! committed or written by the transaction itself, and notes what it writes → `Transaction::commit` makes one batch of
//! it, which the partition commits → the locks are released.

#[allow(dead_code, unused_imports, reason = "transactions, which take the locks, are on their way")]
mod lock;

pub use lock::{Deadlock, LockHolder, LockMode, LockTimeout, LockWait, TransactionId, WaitsFor};
