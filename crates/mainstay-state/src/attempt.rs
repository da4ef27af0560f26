use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::transaction::Transaction;

/// The transaction that [`transact`](crate::StateManager::transact) lends to its body: used like any other, and committed
/// when the body has returned `Ok`.
///
/// It is lent by value because the future of a body that borrows it could not move from thread to thread: the compiler
/// cannot yet show that of an async closure with a borrowed argument.
#[derive(Debug)]
pub struct Attempt {
    /// Empty only while it is dropped. In a box, because it goes from hand to hand.
    transaction: Option<Box<Transaction>>,
    returned: Arc<Mutex<Option<Box<Transaction>>>>,
}

/// Where the transaction comes back when the body is done with it.
pub(crate) struct Returned(Arc<Mutex<Option<Box<Transaction>>>>);

impl Attempt {
    pub(crate) fn new(transaction: Transaction) -> (Self, Returned) {
        let returned = Arc::default();
        (Self { transaction: Some(Box::new(transaction)), returned: Arc::clone(&returned) }, Returned(returned))
    }
}

impl Returned {
    pub(crate) fn take(&self) -> Option<Box<Transaction>> {
        self.0.lock().take()
    }
}

#[allow(clippy::expect_used, reason = "it is taken out by `drop` alone")]
impl Deref for Attempt {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        self.transaction.as_ref().expect("a live attempt has its transaction")
    }
}

#[allow(clippy::expect_used, reason = "it is taken out by `drop` alone")]
impl DerefMut for Attempt {
    fn deref_mut(&mut self) -> &mut Transaction {
        self.transaction.as_mut().expect("a live attempt has its transaction")
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        *self.returned.lock() = self.transaction.take();
    }
}
