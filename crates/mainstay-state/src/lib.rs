//! Transactions, locks and reliable collections: all of a partition's state, as keys in its one store.
//!
//! The path of a transaction: `StateManager::begin` → an operation of a collection takes its locks, reads what is
//! committed or written by the transaction itself, and notes what it writes → `Transaction::commit` makes one batch of
//! it, which the partition commits → the locks are released.
