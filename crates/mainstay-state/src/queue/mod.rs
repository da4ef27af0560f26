use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use mainstay_core::{Error, Result, contract};
use mainstay_replica::Order;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::collection::{Collection, Handle};
use crate::entry::{Entry, Value};
use crate::layout::{self, QueueEnd};
use crate::lock::LockMode;
use crate::manager::StateManager;
use crate::registry::{self, CollectionKind};
use crate::transaction::Transaction;

mod items;
mod length;
mod line;
mod place;
mod supply;
mod visit;
mod wait_list;
mod watch;

pub use items::Items;
pub use watch::{QueueChange, QueueChanged, QueueWatch};

pub(crate) use length::len;
pub(crate) use line::{Ask, Line};
pub(crate) use supply::Item;
pub(crate) use visit::{Granted, Turn, Wait, clear};

/// A queue in strict order: first in, first out. Cheap to clone.
///
/// The order is that of commits, and within one transaction that of its calls. Producers never wait for each other, nor
/// for a consumer, unless a consumer has seen the queue empty: then they wait until its transaction has ended, so that
/// what it has seen stays true. Consumers wait for each other: whoever dequeues has the head of the queue until its
/// transaction has ended. Where order matters less than many consumers at once, use a
/// [`ConcurrentQueue`](crate::ConcurrentQueue).
///
/// A transaction dequeues what it has enqueued itself after everything that is committed.
///
/// ```
/// # use mainstay_state::{Queue, StateManager};
/// # async fn run(state: StateManager) -> mainstay_core::Result<()> {
/// let orders: Queue<String> = state.collection("orders").await?;
/// let mut tx = state.begin();
/// orders.enqueue(&mut tx, "apples".into()).await?;
/// orders.enqueue(&mut tx, "pears".into()).await?;
/// tx.commit().await?;
///
/// let mut tx = state.begin();
/// assert_eq!(orders.try_dequeue(&mut tx).await?.as_deref(), Some(&"apples".to_owned()));
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
pub struct Queue<T> {
    handle: Handle,
    types: PhantomData<fn(T) -> T>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), types: PhantomData }
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Collection for Queue<T> {
    async fn open(state: &StateManager, tx: &mut Transaction, name: &str) -> Result<Self> {
        let handle = open::<T>(state, tx, name, CollectionKind::Queue).await?;
        Ok(Self { handle, types: PhantomData })
    }
}

/// Opens a queue of either kind.
pub(crate) async fn open<T: Value>(
    state: &StateManager,
    tx: &mut Transaction,
    name: &str,
    kind: CollectionKind,
) -> Result<Handle> {
    tx.belongs_to(&state.shared)?;
    let value = contract::describe::<T>()?.to_string();
    let known = registry::open(tx, name, kind, None, value).await?;
    Ok(Handle { shared: state.shared.clone(), known })
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Queue<T> {
    /// Puts an item at the end.
    ///
    /// # Errors
    /// `TooLarge` for an item above [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX); `Timeout` and `Retry` for its locks,
    /// `NotPrimary`.
    pub async fn enqueue(&self, tx: &mut Transaction, item: T) -> Result<()> {
        self.handle.enter(tx, LockMode::Shared).await?;
        self.lock(tx, QueueEnd::Tail, LockMode::Shared).await?;
        tx.writes.push(self.handle.known.id, encode(&self.handle, item)?)
    }

    /// Takes the first item, or `None` if the queue is empty. Nobody else dequeues until this transaction has ended; if
    /// it is undone, the item is the first again.
    ///
    /// # Errors
    /// `Timeout` and `Retry` for its locks, `NotPrimary`; an item that cannot be read as `T` is named, and stays where
    /// it is: [`discard`](Queue::discard) it, or open the queue with a type that can read it.
    pub async fn try_dequeue(&self, tx: &mut Transaction) -> Result<Option<Arc<T>>> {
        self.reach(tx, LockMode::Exclusive).await?;
        match self.take(tx)? {
            Some(granted) => keep(&self.handle, tx, granted).map(Some),
            None => self.pop(tx),
        }
    }

    /// Removes the first item without reading it, and says whether there was one.
    ///
    /// # Errors
    /// `Timeout` and `Retry` for its locks, `NotPrimary`.
    pub async fn discard(&self, tx: &mut Transaction) -> Result<bool> {
        self.reach(tx, LockMode::Exclusive).await?;
        match self.take(tx)? {
            Some(granted) => granted.keep(tx).map(|()| true),
            None => Ok(tx.writes.pop(self.handle.known.id).is_some()),
        }
    }

    /// The first item, which stays where it is, or `None` if the queue is empty. Nobody dequeues it until this
    /// transaction has ended.
    ///
    /// If this transaction may dequeue it, use [`peek_for_update`](Queue::peek_for_update).
    ///
    /// # Errors
    /// As [`try_dequeue`](Queue::try_dequeue).
    pub async fn peek(&self, tx: &mut Transaction) -> Result<Option<Arc<T>>> {
        self.look(tx, LockMode::Shared).await
    }

    /// The first item, which this transaction may dequeue: two who both peek and then dequeue wait for each other
    /// instead of running into a deadlock.
    ///
    /// # Errors
    /// As [`try_dequeue`](Queue::try_dequeue).
    pub async fn peek_for_update(&self, tx: &mut Transaction) -> Result<Option<Arc<T>>> {
        self.look(tx, LockMode::Update).await
    }

    /// How many items there are, in the snapshot that enumerations of this transaction see and with its own changes.
    /// Takes the same short time however many there are, and waits for nobody.
    ///
    /// # Errors
    /// `Timeout` while the queue is cleared or dropped by another transaction; `NotPrimary`.
    pub async fn len(&self, tx: &mut Transaction) -> Result<u64> {
        self.handle.enter(tx, LockMode::Shared).await?;
        len(&self.handle, tx)
    }

    /// Whether there are no items; as [`len`](Queue::len). Others may enqueue meanwhile: only a
    /// [`peek`](Queue::peek) keeps them from it.
    ///
    /// # Errors
    /// As [`len`](Queue::len).
    pub async fn is_empty(&self, tx: &mut Transaction) -> Result<bool> {
        Ok(self.len(tx).await? == 0)
    }

    /// Removes all items, as part of the transaction. Waits until nobody else uses the queue.
    ///
    /// # Errors
    /// `Timeout` and `Retry` for its lock, `NotPrimary`.
    pub async fn clear(&self, tx: &mut Transaction) -> Result<()> {
        self.handle.enter(tx, LockMode::Exclusive).await?;
        clear(&self.handle, tx)
    }

    /// Reads the items from the first to the last, from the snapshot that all enumerations and counts of this
    /// transaction see, with what the transaction has changed so far. Nobody waits for it.
    ///
    /// # Errors
    /// As [`len`](Queue::len).
    pub async fn entries(&self, tx: &mut Transaction) -> Result<Items<T>> {
        self.handle.enter(tx, LockMode::Shared).await?;
        Items::new(&self.handle, tx, Order::Ascending)
    }

    /// Reads the items from the last to the first; otherwise as [`entries`](Queue::entries).
    ///
    /// # Errors
    /// As [`len`](Queue::len).
    pub async fn entries_reversed(&self, tx: &mut Transaction) -> Result<Items<T>> {
        self.handle.enter(tx, LockMode::Shared).await?;
        Items::new(&self.handle, tx, Order::Descending)
    }

    /// Locks what must be locked before the first item is known, or that there is none.
    async fn reach(&self, tx: &mut Transaction, mode: LockMode) -> Result<()> {
        self.handle.enter(tx, LockMode::Shared).await?;
        self.lock(tx, QueueEnd::Head, mode).await?;
        if self.first(tx)?.is_none() {
            // Waits for those who are enqueuing, and keeps all others from it: so empty stays empty.
            self.lock(tx, QueueEnd::Tail, LockMode::Exclusive).await?;
        }
        Ok(())
    }

    async fn look(&self, tx: &mut Transaction, mode: LockMode) -> Result<Option<Arc<T>>> {
        self.reach(tx, mode).await?;
        match self.first(tx)? {
            Some(item) => read(&self.handle, &item).map(Some),
            None => tx.writes.items(self.handle.known.id).next().map(Entry::value).transpose(),
        }
    }

    /// The first committed item. The head is locked.
    fn first(&self, tx: &Transaction) -> Result<Option<Item>> {
        if tx.writes.is_cleared(self.handle.known.id) {
            return Ok(None);
        }
        self.handle.known.line.first(&self.handle)
    }

    /// Takes the first committed item. The head is locked.
    fn take(&self, tx: &Transaction) -> Result<Option<Granted>> {
        if tx.writes.is_cleared(self.handle.known.id) {
            return Ok(None);
        }
        Granted::try_new(&self.handle, Ask::Item)
    }

    /// Takes the first item of the transaction's own.
    fn pop(&self, tx: &mut Transaction) -> Result<Option<Arc<T>>> {
        tx.writes.pop(self.handle.known.id).map(|item| item.value()).transpose()
    }

    async fn lock(&self, tx: &mut Transaction, end: QueueEnd, mode: LockMode) -> Result<()> {
        let known = &self.handle.known;
        let name = match end {
            QueueEnd::Head => "head",
            QueueEnd::Tail => "tail",
        };
        tx.lock(&layout::queue_end(known.id, end), mode, || format!("the {name} of {known}")).await
    }
}

/// An item as it is stored.
pub(crate) fn encode<T: Value>(queue: &Handle, item: T) -> Result<Entry> {
    Entry::encode(Arc::new(item), None, None, |_| false).map_err(|error| error.about(&queue.known))
}

/// Makes an item that was granted part of a transaction, and reads it.
pub(crate) fn keep<T: Value>(queue: &Handle, tx: &mut Transaction, granted: Granted) -> Result<Arc<T>> {
    let Some(item) = granted.item() else {
        return Err(Error::fatal(format!("{} has granted something else than an item", queue.known)));
    };
    let value = read(queue, item)?;
    granted.keep(tx)?;
    Ok(value)
}

fn read<T: Value>(queue: &Handle, item: &Item) -> Result<Arc<T>> {
    Entry::decode::<T>(item.raw().clone())
        .and_then(|entry| entry.value())
        .map_err(|error| error.about(format_args!("{}, {}", queue.known, item.place)))
}
