use std::error::Error as StdError;
use std::fmt;

use mainstay_core::{Error, ErrorKind};

use super::TransactionId;
use super::wait::LockWait;

/// Transactions that wait for each other in a circle. It is the cause, by [`source`](StdError::source), of the
/// error of kind [`Retry`](ErrorKind::Retry) that the victim gets.
///
/// The victim is the one whose request closed the circle. The others go on once it has been aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock {
    /// The transaction whose request was refused.
    pub victim: TransactionId,
    /// The circle: each waits for the next, and the last for the first, which is the victim.
    pub cycle: Vec<LockWait>,
}

impl Deadlock {
    pub(super) fn into_error(self) -> Error {
        let waits: Vec<String> = self.cycle.iter().map(LockWait::to_string).collect();
        let message = format!(
            "deadlock: {}; {} closed the circle and is the victim: abort it and run it again",
            waits.join("; "),
            self.victim
        );
        Error::new(ErrorKind::Retry, message).with_source(self)
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a circle of {} waiting transactions", self.cycle.len())
    }
}

impl StdError for Deadlock {}
