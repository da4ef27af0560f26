//! Reliable collections and their transactions.

pub use mainstay_state::{Attempt, StateManager, StateOptions, Transaction, TransactionId};

pub use mainstay_state::{Change, Changed, Dictionary, Entries, Keys, Range, Watch};
pub use mainstay_state::{Collection, CollectionInfo, CollectionKind, Gates};
pub use mainstay_state::{ConcurrentQueue, Items, NoItem, Queue, QueueChange, QueueChanged, QueueWatch};

pub use mainstay_state::{Deadlock, LockHolder, LockMode, LockTimeout, LockWait, WaitsFor};

pub use mainstay_state::{
    CAPACITY_DEFAULT, LOCK_TIMEOUT, NAME_BYTES_MAX, RetryOptions, TRANSACTION_BYTES_MAX, VALUE_BYTES_MAX,
};
