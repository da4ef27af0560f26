//! Reliable collections: state that changes in transactions.

pub use mainstay_state::{Attempt, Collection, ConcurrentQueue, Dictionary, Queue, StateManager, Transaction};
