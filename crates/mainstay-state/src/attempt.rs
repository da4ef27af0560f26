use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::manager::StateManager;
use crate::transaction::Transaction;

/// The transaction that [`transact`](crate::StateManager::transact) lends to its body: used like any other, and committed
/// when the body has returned `Ok`.
///
/// It is lent by value because the future of a body that borrows it could not move from thread to thread: the compiler
/// cannot yet show that of an async closure with a borrowed argument.
pub struct Attempt {
    /// There until this is dropped. In a place of its own, because it is large and this is moved about.
    transaction: Option<Box<Transaction>>,
    lender: Arc<Lender>,
}

/// Where the transaction is when the body is done with it.
#[derive(Default)]
struct Lender {
    returned: Mutex<Option<Box<Transaction>>>,
}

/// What is left of a transaction that was lent.
pub(crate) struct Lent {
    lender: Arc<Lender>,
}

impl Lent {
    /// Begins a transaction, and lends it to a body.
    #[inline]
    pub(crate) fn begin(state: &StateManager) -> (Self, Attempt) {
        let lender = Arc::<Lender>::default();
        let transaction = Some(Box::new(state.begin()));
        (Self { lender: lender.clone() }, Attempt { transaction, lender })
    }

    /// The transaction; `None` if the body has kept it.
    #[inline]
    pub(crate) fn returned(mut self) -> Option<Box<Transaction>> {
        Arc::get_mut(&mut self.lender)?.returned.get_mut().take()
    }
}

impl Drop for Attempt {
    #[inline]
    fn drop(&mut self) {
        *self.lender.returned.lock() = self.transaction.take();
    }
}

/// Why a transaction that is used is there.
const LENT: &str = "only a drop takes the transaction away";

impl Deref for Attempt {
    type Target = Transaction;

    #[inline]
    #[allow(clippy::expect_used, reason = "an attempt that was dropped cannot be reached")]
    fn deref(&self) -> &Transaction {
        self.transaction.as_deref().expect(LENT)
    }
}

impl DerefMut for Attempt {
    #[inline]
    #[allow(clippy::expect_used, reason = "an attempt that was dropped cannot be reached")]
    fn deref_mut(&mut self) -> &mut Transaction {
        self.transaction.as_deref_mut().expect(LENT)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attempt({:?})", **self)
    }
}
