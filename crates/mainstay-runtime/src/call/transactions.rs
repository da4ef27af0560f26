//! The open transactions of turns, as part of the wait-for graph: a turn that waits for a call and another turn that waits
//! for a lock of the first are found to wait for each other.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use mainstay_core::Result;
use mainstay_state::{CallGraph, TransactionId};
use parking_lot::Mutex;

use crate::call::chain::{HeldResource, Link};
use crate::call::current;

/// The bound on tracked transactions per turn, the most recent ones. A deadlock through an older open transaction is not
/// detected, and ends by the lock timeout.
pub(crate) const TRANSACTIONS_KNOWN_MAX: usize = 64;

/// The transactions of a partition whose turns wait for calls.
#[derive(Default)]
pub(crate) struct TransactionTurns {
    turns: Arc<TransactionTable>,
}

/// The waiting turns, by transaction.
#[derive(Default)]
pub(crate) struct TransactionTable {
    waiting: Mutex<HashMap<TransactionId, Weak<Link>>>,
}

impl fmt::Debug for TransactionTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransactionTurns({})", self.turns.waiting.lock().len())
    }
}

impl CallGraph for TransactionTurns {
    fn begun(&self, transaction: TransactionId) {
        current::begin_transaction(&self.turns, transaction);
    }

    fn waits(&self, blockers: &[TransactionId], resource: &str) -> Result<Option<Box<dyn Any + Send>>> {
        let (turns, blockers, resource) = (self.turns.clone(), blockers.to_vec(), resource.to_owned());
        let lock = |waiter: &Arc<Link>| -> Arc<dyn HeldResource> {
            Arc::new(LockWait { turns, blockers, resource, waiter: Arc::downgrade(waiter) })
        };
        let standing = current::wait_for(lock)?;
        Ok(standing.map(|standing| Box::new(standing) as Box<dyn Any + Send>))
    }

    fn committed(&self) {
        current::note_effects();
    }
}

/// A transaction of a turn.
pub(crate) struct TurnTransaction {
    pub(crate) turns: Arc<TransactionTable>,
    pub(crate) transaction: TransactionId,
}

impl TurnTransaction {
    /// Registers that the turn waits for a call.
    pub(crate) fn waits(&self, link: &Arc<Link>) {
        self.turns.waiting.lock().insert(self.transaction, Arc::downgrade(link));
    }

    /// Removes the registration when the turn has ended.
    pub(crate) fn end(&self) {
        self.turns.waiting.lock().remove(&self.transaction);
    }
}

/// A lock for which a turn waits, as a resource of the wait-for graph.
struct LockWait {
    turns: Arc<TransactionTable>,
    blockers: Vec<TransactionId>,
    resource: String,
    /// The turn that waits. Its own locks do not block it: another task of the turn may release them meanwhile.
    waiter: Weak<Link>,
}

impl fmt::Display for LockWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource)
    }
}

impl HeldResource for LockWait {
    fn callers(&self) -> Option<&Mutex<Vec<Arc<Link>>>> {
        None
    }

    fn holders(&self) -> Vec<Arc<Link>> {
        let waiting = self.turns.waiting.lock();
        let others = self.blockers.iter().filter_map(|blocker| waiting.get(blocker));
        others.filter(|turn| !turn.ptr_eq(&self.waiter)).filter_map(Weak::upgrade).collect()
    }

    fn remedy(&self) -> String {
        "the call that holds the lock waits for this one: commit its transaction before it makes the call".to_owned()
    }

    fn capacity(&self) -> Option<usize> {
        None
    }
}
