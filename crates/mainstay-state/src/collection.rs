use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mainstay_core::{Error, Result, task};
use mainstay_replica::Key;

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
    ///
    /// An operation that finds all it needs in memory never waits, and others of the runtime must have a chance all the same:
    /// so each takes part in tokio's cooperative budget.
    pub(crate) async fn enter(&self, tx: &mut Transaction, mode: LockMode) -> Result<()> {
        task::yield_for_budget().await;
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

    /// [`enter`](Handle::enter) by an operation that locks a key next. It waits for nobody unless it must.
    #[inline]
    pub(crate) async fn enter_and_lock(&self, tx: &mut Transaction, key: &Key, mode: LockMode) -> Result<()> {
        if self.try_enter_and_lock(tx, key, mode)? {
            return Ok(());
        }
        self.hold_and_lock(tx, key, mode).await
    }

    /// Does all of it, or begins the operation and does no more.
    fn try_enter_and_lock(&self, tx: &mut Transaction, key: &Key, mode: LockMode) -> Result<bool> {
        self.begin(tx)?;
        if !task::take_budget() || !tx.try_share(self.known.id) {
            return Ok(false);
        }
        self.known.check(tx.id())?;
        tx.try_lock(key, mode)
    }

    /// The rest of it. Most never wait: their futures, which are moved about, have no room for it.
    #[cold]
    fn hold_and_lock<'a>(
        &'a self,
        tx: &'a mut Transaction,
        key: &'a Key,
        mode: LockMode,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            task::yield_for_budget().await;
            self.hold(tx, LockMode::Shared).await?;
            tx.lock(key, mode, || self.name_of(key)).await
        })
    }

    /// The other part: from now on the collection stays.
    pub(crate) async fn hold(&self, tx: &mut Transaction, mode: LockMode) -> Result<()> {
        tx.lock_collection(self.known.id, mode, || self.known.to_string()).await?;
        self.known.check(tx.id())
    }

    /// Says of which collection and key an error is.
    pub(crate) fn explain(&self, entry_key: &[u8], error: Error) -> Error {
        error.about(self.name_of(entry_key))
    }

    /// Names a key for people.
    pub(crate) fn name_of(&self, entry_key: &[u8]) -> String {
        let key = &entry_key[crate::layout::ENTRY_PREFIX_BYTES..];
        format!("{}, key {}", self.known, mainstay_core::key::display(key))
    }
}
