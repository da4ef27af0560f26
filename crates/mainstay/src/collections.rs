//! Reliable collections: state that changes in transactions.

pub use mainstay_state::{Attempt, Collection, Dictionary, StateManager, Transaction};
