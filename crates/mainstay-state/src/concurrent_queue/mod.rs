use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::coop::consume_budget;

use crate::collection::{Collection, Handle};
use crate::lock::LockMode;
use crate::manager::StateManager;
use crate::queue::{self, Ask, Granted, Turn, Wait};
use crate::registry::CollectionKind;
use crate::transaction::Transaction;

mod no_item;

pub use no_item::NoItem;

/// How many items a [`ConcurrentQueue`] holds at most unless told otherwise. Nobody works on a million things at once:
/// where so many wait, consumers have fallen behind, and producers should hear of it.
pub const CAPACITY_DEFAULT: u64 = 1_000_000;

/// A queue for any number of producers and consumers at once. Cheap to clone.
///
/// Nobody waits for the transaction of another: a consumer takes the first item that no other one has taken. The order is
/// therefore that of commits as a rule, but not a promise: an item whose consumer undoes its transaction goes back to
/// where it was, and comes after those that were taken in between. Where order must be strict, use a
/// [`Queue`](crate::Queue).
///
/// - An item can be dequeued when the transaction that has enqueued it is committed. The transaction itself dequeues its
///   own items after those that are committed.
/// - [`dequeue`](ConcurrentQueue::dequeue) waits for an item, first come, first served.
/// - The queue holds a [bounded](ConcurrentQueue::with_capacity) number of items; a producer waits for room.
///
/// Who waits holds no lock of this queue that it did not hold before. Whatever else its transaction holds it keeps, so
/// wait first and lock afterwards.
///
/// ```
/// # use mainstay_core::time::Duration;
/// # use mainstay_state::{ConcurrentQueue, StateManager};
/// # async fn run(state: StateManager) -> mainstay_core::Result<()> {
/// let jobs: ConcurrentQueue<String> = state.collection("jobs").await?;
/// let mut tx = state.begin();
/// jobs.enqueue(&mut tx, "sweep".into()).await?;
/// tx.commit().await?;
///
/// let mut tx = state.begin();
/// let job = jobs.dequeue(tx.within(Duration::from_secs(30))).await?;
/// assert_eq!(*job, "sweep");
/// tx.commit().await?; // Dropped instead, the job would be there for the next one.
/// # Ok(())
/// # }
/// ```
pub struct ConcurrentQueue<T> {
    handle: Handle,
    capacity: u64,
    types: PhantomData<fn(T) -> T>,
}

impl<T> Clone for ConcurrentQueue<T> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), capacity: self.capacity, types: PhantomData }
    }
}

impl<T> fmt::Debug for ConcurrentQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Collection for ConcurrentQueue<T> {
    async fn open(state: &StateManager, tx: &mut Transaction, name: &str) -> Result<Self> {
        let handle = queue::open::<T>(state, tx, name, CollectionKind::ConcurrentQueue).await?;
        Ok(Self { handle, capacity: CAPACITY_DEFAULT, types: PhantomData })
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> ConcurrentQueue<T> {
    /// The same queue for producers who let it hold no more than this many items; [`CAPACITY_DEFAULT`] unless told
    /// otherwise. It is a matter of this handle and its clones, and not stored.
    #[must_use = "the handle that it is called on keeps its capacity"]
    pub fn with_capacity(mut self, capacity: u64) -> Self {
        self.capacity = capacity;
        self
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// How many items producers with this handle let the queue hold.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Puts an item at the end, where others see it when the transaction is committed.
    ///
    /// Waits for room while as many items as the queue holds at most are committed or being enqueued. Room comes free
    /// when a dequeue is committed, and when a transaction that has enqueued is undone. A transaction that has dequeued
    /// an item has room for another one.
    ///
    /// # Errors
    /// `Overloaded` if there was no room within the time limit; `TooLarge` if this transaction alone would fill the queue, and
    /// for an item above [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX); `Timeout` while the queue is cleared or dropped by
    /// another transaction; `NotPrimary`.
    pub async fn enqueue(&self, tx: &mut Transaction, item: T) -> Result<()> {
        consume_budget().await;
        self.begin(tx)?;
        let item = queue::encode(&self.handle, item)?;
        let Handle { known, .. } = &self.handle;
        let (id, transaction) = (known.id, tx.id());
        if known.line.growth_by(transaction) >= self.capacity {
            return Err(self.full_of_one());
        }
        if tx.writes.is_cleared(id) {
            tx.writes.push(id, item)?;
            known.line.reserve(transaction);
            return Granted::reserved(&self.handle, transaction).keep(tx);
        }
        let ask = Ask::Room { transaction, capacity: self.capacity };
        let room = match Wait::begin(&self.handle, tx, ask)? {
            Turn::Granted(room) => room,
            Turn::Waiting(wait) => wait.granted(tx.time_left()).await?.ok_or_else(|| self.full(tx))?,
        };
        self.handle.hold(tx, LockMode::Shared).await?;
        tx.writes.push(id, item)?;
        room.keep(tx)
    }

    /// Takes an item, or `None` if there is none that others have not taken, or if others wait for one. If the
    /// transaction is undone, the item goes back to where it was.
    ///
    /// # Errors
    /// `Timeout` while the queue is cleared or dropped by another transaction; `NotPrimary`; an item that cannot be read
    /// as `T` is named, and stays where it is: [`discard`](ConcurrentQueue::discard) it, or open the queue with a type
    /// that can read it.
    pub async fn try_dequeue(&self, tx: &mut Transaction) -> Result<Option<Arc<T>>> {
        self.handle.enter(tx, LockMode::Shared).await?;
        match self.take(tx)? {
            Some(granted) => queue::keep(&self.handle, tx, granted).map(Some),
            None => self.pop(tx),
        }
    }

    /// Takes an item, and waits for one if there is none, behind those who wait already. How long is set as for a lock:
    /// `jobs.dequeue(tx.within(limit))`.
    ///
    /// Dropping the future leaves the queue as it was.
    ///
    /// # Errors
    /// `Timeout` with [`NoItem`] as its source if no item came within the time limit, after which
    /// [`transact`](StateManager::transact) does not try again; otherwise as
    /// [`try_dequeue`](ConcurrentQueue::try_dequeue).
    pub async fn dequeue(&self, tx: &mut Transaction) -> Result<Arc<T>> {
        consume_budget().await;
        self.begin(tx)?;
        if tx.writes.is_cleared(self.handle.known.id) {
            return self.dequeue_own(tx).await;
        }
        loop {
            let mut granted = match Wait::begin(&self.handle, tx, Ask::Item)? {
                Turn::Granted(granted) => granted,
                Turn::Waiting(wait) => {
                    if let Some(item) = self.pop(tx)? {
                        return Ok(item);
                    }
                    wait.granted(tx.time_left()).await?.ok_or_else(|| self.no_item(tx))?
                }
            };
            self.handle.hold(tx, LockMode::Shared).await?;
            // Until that was locked, somebody may have cleared the queue.
            if granted.confirm()? {
                return queue::keep(&self.handle, tx, granted);
            }
        }
    }

    /// Removes an item without reading it, and says whether there was one; otherwise as
    /// [`try_dequeue`](ConcurrentQueue::try_dequeue).
    ///
    /// # Errors
    /// `Timeout` while the queue is cleared or dropped by another transaction; `NotPrimary`.
    pub async fn discard(&self, tx: &mut Transaction) -> Result<bool> {
        self.handle.enter(tx, LockMode::Shared).await?;
        match self.take(tx)? {
            Some(granted) => granted.keep(tx).map(|()| true),
            None => Ok(self.pop_entry(tx).is_some()),
        }
    }

    /// How many items there are, in the snapshot that enumerations of this transaction see and with its own changes:
    /// those that others have taken count until that is committed. Takes the same short time however many there are.
    ///
    /// # Errors
    /// `Timeout` while the queue is cleared or dropped by another transaction; `NotPrimary`.
    pub async fn len(&self, tx: &mut Transaction) -> Result<u64> {
        self.handle.enter(tx, LockMode::Shared).await?;
        queue::len(&self.handle, tx)
    }

    /// Whether there are no items; as [`len`](ConcurrentQueue::len).
    ///
    /// # Errors
    /// As [`len`](ConcurrentQueue::len).
    pub async fn is_empty(&self, tx: &mut Transaction) -> Result<bool> {
        Ok(self.len(tx).await? == 0)
    }

    /// Removes all items, as part of the transaction. Waits until nobody else uses the queue.
    ///
    /// # Errors
    /// `Timeout` and `Retry` for its lock, `NotPrimary`.
    pub async fn clear(&self, tx: &mut Transaction) -> Result<()> {
        self.handle.enter(tx, LockMode::Exclusive).await?;
        queue::clear(&self.handle, tx)
    }

    /// What an operation begins with that waits before it locks anything.
    fn begin(&self, tx: &mut Transaction) -> Result<()> {
        self.handle.begin(tx)?;
        self.handle.known.check(tx.id())
    }

    fn take(&self, tx: &Transaction) -> Result<Option<Granted>> {
        if tx.writes.is_cleared(self.handle.known.id) {
            return Ok(None);
        }
        Granted::try_new(&self.handle, Ask::Item)
    }

    /// Takes the first item of the transaction's own.
    fn pop(&self, tx: &mut Transaction) -> Result<Option<Arc<T>>> {
        self.pop_entry(tx).map(|item| item.value()).transpose()
    }

    fn pop_entry(&self, tx: &mut Transaction) -> Option<crate::entry::Entry> {
        let item = tx.writes.pop(self.handle.known.id)?;
        self.handle.known.line.give_room(&self.handle, tx.id());
        Some(item)
    }

    /// Nobody else can enqueue before a transaction has ended that has cleared the queue.
    async fn dequeue_own(&self, tx: &mut Transaction) -> Result<Arc<T>> {
        if let Some(item) = self.pop(tx)? {
            return Ok(item);
        }
        self.handle.shared.home.sleep(tx.time_left()).await;
        Err(self.no_item(tx))
    }

    fn no_item(&self, tx: &Transaction) -> Error {
        Error::new(
            ErrorKind::Timeout,
            format!(
                "no item came for {} in {} within {:?}: try again, or set a longer time limit",
                tx.id(),
                self.handle.known,
                tx.time_limit()
            ),
        )
        .with_source(NoItem { limit: tx.time_limit() })
    }

    fn full(&self, tx: &Transaction) -> Error {
        Error::new(
            ErrorKind::Overloaded,
            format!(
                "{} is full: its capacity is {}, and no room came free for {} within {:?}; let consumers catch up, \
                 slow down and retry, or open it with a larger capacity",
                self.handle.known,
                self.capacity,
                tx.id(),
                tx.time_limit()
            ),
        )
    }

    fn full_of_one(&self) -> Error {
        Error::new(
            ErrorKind::TooLarge,
            format!(
                "one transaction would fill {}, whose capacity is {}: commit in smaller steps, or open it with a \
                 larger capacity",
                self.handle.known, self.capacity
            ),
        )
    }
}
