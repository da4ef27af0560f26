use std::any::Any;
use std::fmt;

use mainstay_core::Result;

use crate::lock::TransactionId;

/// What waits for what outside of the locks of a partition: a seam. A transaction may be begun in a call that waits for another
/// call, which wants what the transaction has locked. The locks do not know of that; whoever runs the calls does.
///
/// To be correct:
/// - All are called by the code that uses the transaction, on its stack. They must not wait, nor use the partition.
/// - What waits for itself is refused, and nothing else.
pub trait CallGraph: fmt::Debug + Send + Sync {
    /// A transaction begins here.
    fn begun(&self, transaction: TransactionId);

    /// A transaction that is used here stands in line for a lock, behind those who hold it and those who came before. What is
    /// returned is kept for as long as it does.
    ///
    /// # Errors
    /// `Conflict` if one of those waits, by the calls in which they are used, for this one: then it does not wait.
    fn waits(&self, blockers: &[TransactionId], resource: &str) -> Result<Option<Box<dyn Any + Send>>>;

    /// A transaction that is used here has committed changes, or may have: the call that it is part of has changed something.
    fn committed(&self) {}
}
