use mainstay_core::time::Instant;
use mainstay_replica::Key;

use super::{LockMode, TransactionId};

/// What a transaction wants.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) hash: u64,
    pub(super) key: Key,
    pub(super) id: TransactionId,
    pub(super) mode: LockMode,
    /// When it was made: from then on the lock counts as held if it is granted at once.
    pub(super) made: Instant,
    /// The mode in which it holds the key already, which is weaker; then this is a conversion.
    pub(super) former: Option<LockMode>,
}
