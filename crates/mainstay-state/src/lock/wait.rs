use std::fmt;

use super::{LockMode, TransactionId};

/// A transaction that waits for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockWait {
    /// Who waits.
    pub transaction: TransactionId,
    /// The collection and the key, for people.
    pub resource: String,
    /// The mode that it wants.
    pub mode: LockMode,
    /// For whom it waits: in a [`Deadlock`](super::Deadlock) the next transaction of the cycle alone.
    pub waits_for: Vec<WaitsFor>,
}

/// Why one transaction waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitsFor {
    /// It holds the key in a mode that excludes the wanted one.
    Holder {
        /// Who holds the key.
        transaction: TransactionId,
        /// The mode in which it does.
        mode: LockMode,
    },
    /// It waits for the same key and will be served first.
    Ahead {
        /// Who is ahead in the queue.
        transaction: TransactionId,
        /// The mode that it waits for.
        mode: LockMode,
    },
}

impl WaitsFor {
    /// The transaction that is waited for.
    pub fn transaction(&self) -> TransactionId {
        match self {
            Self::Holder { transaction, .. } | Self::Ahead { transaction, .. } => *transaction,
        }
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holder { transaction, mode } => write!(f, "{transaction} holds it in {mode} mode"),
            Self::Ahead { transaction, mode } => {
                write!(f, "{transaction} is ahead in the queue for it in {mode} mode")
            }
        }
    }
}

impl fmt::Display for LockWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits for {} in {} mode", self.transaction, self.resource, self.mode)?;
        for (n, blocker) in self.waits_for.iter().enumerate() {
            write!(f, "{} {blocker}", if n == 0 { ", but" } else { " and" })?;
        }
        Ok(())
    }
}
