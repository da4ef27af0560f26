use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use mainstay_core::{Error, Result};
use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};

use crate::manager::StateManager;
use crate::transaction::Transaction;

/// The transaction that [`transact`](crate::StateManager::transact) lends to its body: used like any other, and committed
/// when the body has returned `Ok`.
///
/// It is lent by value because the future of a body that borrows it could not move from thread to thread: the compiler
/// cannot yet show that of an async closure with a borrowed argument.
pub struct Attempt {
    /// Nobody else waits for it: who has lent it asks once, when the body has ended.
    transaction: OwnedMappedMutexGuard<Option<Transaction>, Transaction>,
}

/// Where the transaction is when the body is done with it.
pub(crate) struct Lent {
    transaction: Arc<Mutex<Option<Transaction>>>,
}

impl Lent {
    /// Begins a transaction, where it stays, and lends it to a body.
    #[inline]
    pub(crate) fn begin(state: &StateManager) -> Result<(Self, Attempt)> {
        // Made where it stays, because moving it there would be a good part of what it costs.
        let transaction: Arc<Mutex<Option<Transaction>>> = Arc::default();
        match transaction.clone().try_lock_owned() {
            Ok(place) => {
                let lent = OwnedMutexGuard::map(place, |place| place.get_or_insert_with(|| state.begin()));
                Ok((Self { transaction }, Attempt { transaction: lent }))
            }
            Err(_) => Err(Error::fatal("a transaction that nobody has seen is in use")),
        }
    }

    /// The transaction; `None` if the body has kept it.
    pub(crate) fn returned(&mut self) -> Option<&mut Transaction> {
        Arc::get_mut(&mut self.transaction).and_then(|transaction| transaction.get_mut().as_mut())
    }

    /// The same to keep.
    pub(crate) fn into_transaction(self) -> Option<Transaction> {
        Arc::into_inner(self.transaction).and_then(Mutex::into_inner)
    }
}

impl Deref for Attempt {
    type Target = Transaction;

    #[inline]
    fn deref(&self) -> &Transaction {
        &self.transaction
    }
}

impl DerefMut for Attempt {
    #[inline]
    fn deref_mut(&mut self) -> &mut Transaction {
        &mut self.transaction
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attempt({:?})", **self)
    }
}
