//! The transactions that turns have begun, so that a turn which waits for a call and one that wants what the first has locked are
//! known to wait for each other.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use mainstay_core::Result;
use mainstay_state::{CallGraph, TransactionId};
use parking_lot::Mutex;

use crate::call::chain::{Line, Link};
use crate::call::current;

/// How many transactions of a turn are known of, the last ones. One that has more open at a time is not found to wait for itself by
/// the others, and waits for as long as it may.
pub(crate) const TRANSACTIONS_KNOWN_MAX: usize = 64;

/// The turns that have begun transactions of a partition and wait for somebody.
#[derive(Default)]
pub(crate) struct TransactionTurns {
    turns: Arc<Turns>,
}

/// By their transactions.
#[derive(Default)]
pub(crate) struct Turns {
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
        let lock = |waiter: &Arc<Link>| -> Arc<dyn Line> {
            Arc::new(Lock { turns, blockers, resource, waiter: Arc::downgrade(waiter) })
        };
        let standing = current::stand_in_line(lock)?;
        Ok(standing.map(|standing| Box::new(standing) as Box<dyn Any + Send>))
    }
}

/// A transaction that a turn has begun.
pub(crate) struct Begun {
    pub(crate) turns: Arc<Turns>,
    pub(crate) transaction: TransactionId,
}

impl Begun {
    /// Notes that the turn waits for somebody.
    pub(crate) fn waits(&self, link: &Arc<Link>) {
        self.turns.waiting.lock().insert(self.transaction, Arc::downgrade(link));
    }

    /// To be called when the turn has ended.
    pub(crate) fn end(&self) {
        self.turns.waiting.lock().remove(&self.transaction);
    }
}

/// A lock that somebody stands in line for.
struct Lock {
    turns: Arc<Turns>,
    blockers: Vec<TransactionId>,
    resource: String,
    /// The turn that does. What it has locked itself it may release beside its wait.
    waiter: Weak<Link>,
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource)
    }
}

impl Line for Lock {
    fn callers(&self) -> Option<&Mutex<Vec<Arc<Link>>>> {
        None
    }

    fn holders(&self) -> Vec<Arc<Link>> {
        let waiting = self.turns.waiting.lock();
        let others = self.blockers.iter().filter_map(|blocker| waiting.get(blocker));
        others.filter(|turn| !turn.ptr_eq(&self.waiter)).filter_map(Weak::upgrade).collect()
    }

    fn remedy(&self) -> String {
        "the call that has locked it waits for this one: end its transaction before it calls, or call after it"
            .to_owned()
    }

    fn places(&self) -> Option<usize> {
        None
    }
}
