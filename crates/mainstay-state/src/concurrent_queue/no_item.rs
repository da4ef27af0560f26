use std::error::Error as StdError;
use std::fmt;

use mainstay_core::time::Duration;

/// No item came for a [`dequeue`](super::ConcurrentQueue::dequeue) within its time limit. It is the cause, by
/// [`source`](StdError::source), of an error of kind [`Timeout`](mainstay_core::ErrorKind::Timeout).
///
/// Nobody was in the way, so that [`transact`](crate::StateManager::transact) does not try again: the time limit is how long
/// the caller wants to wait, and not how long one of several tries does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoItem {
    /// The time limit.
    pub limit: Duration,
}

impl fmt::Display for NoItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the queue was empty for {:?}", self.limit)
    }
}

impl StdError for NoItem {}
