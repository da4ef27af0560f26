use std::fmt;
use std::future::Future;
use std::sync::Arc;

use mainstay_core::{Error, Result};

use crate::lock::LockMode;
use crate::manager::{Shared, StateManager};
use crate::registry::Known;
use crate::transaction::Transaction;

/// A named part of a partition's state that holds values of one type.
pub trait Collection: Sized + Send {
    /// Opens the collection of this name as part of a transaction, and creates it if need be. What was created can be
    /// used in the same transaction at once, and by others when that is committed.
    ///
    /// # Errors
    /// `Conflict` if the name is that of a collection of another type, `Invalid` for a name that cannot be one.
    fn open(state: &StateManager, tx: &mut Transaction, name: &str) -> impl Future<Output = Result<Self>> + Send;
}

/// What every handle of a collection has.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) known: Arc<Known>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?}", self.known, self.shared.partition)
    }
}

impl Handle {
    /// What every operation begins with: the transaction is of this partition, and the collection is there and stays.
    pub(crate) async fn enter(&self, tx: &mut Transaction, mode: LockMode) -> Result<()> {
        self.begin(tx)?;
        self.hold(tx, mode).await
    }

    /// The part of [`enter`](Handle::enter) that waits for nobody, for operations that wait for something else first.
    pub(crate) fn begin(&self, tx: &mut Transaction) -> Result<()> {
        tx.belongs_to(&self.shared)?;
        tx.check_usable()?;
        tx.start_operation();
        Ok(())
    }

    /// The other part: from now on the collection stays.
    pub(crate) async fn hold(&self, tx: &mut Transaction, mode: LockMode) -> Result<()> {
        tx.lock_collection(&self.known.intent, mode, || self.known.to_string()).await?;
        self.known.check(tx.id())
    }

    /// Says of which collection and key an error is.
    pub(crate) fn explain(&self, entry_key: &[u8], error: Error) -> Error {
        let text = format!("{}: {error}", self.name_of(entry_key));
        Error::new(error.kind(), text).with_source(error)
    }

    /// Names a key for people.
    pub(crate) fn name_of(&self, entry_key: &[u8]) -> String {
        let key = &entry_key[crate::layout::ENTRY_PREFIX_BYTES..];
        format!("{}, key {}", self.known, mainstay_core::key::display(key))
    }
}
