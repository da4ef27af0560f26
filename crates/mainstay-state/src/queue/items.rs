use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::vec;

use mainstay_core::Result;
use mainstay_replica::{KeyRange, Order};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::place::Place;
use crate::collection::Handle;
use crate::dictionary::Merged;
use crate::entry::Entry;
use crate::layout;
use crate::transaction::Transaction;

/// The items of a [`Queue`](crate::Queue), as a transaction sees them.
pub struct Items<T> {
    stored: Merged,
    /// What the transaction has enqueued, which comes after all that is stored.
    own: vec::IntoIter<Entry>,
    order: Order,
    queue: Handle,
    types: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Items<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Items of {:?}", self.queue)
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Items<T> {
    pub(super) fn new(queue: &Handle, tx: &mut Transaction, order: Order) -> Result<Self> {
        let id = queue.known.id;
        let own = tx.writes.items(id).cloned();
        let own: Vec<Entry> = match order {
            Order::Ascending => own.collect(),
            Order::Descending => own.rev().collect(),
        };
        let stored = Merged::new(queue, tx, KeyRange::prefix(&layout::entry_prefix(id)), order)?;
        Ok(Self { stored, own: own.into_iter(), order, queue: queue.clone(), types: PhantomData })
    }

    /// The next item; `None` when there is no more.
    ///
    /// # Errors
    /// An item that cannot be read is named; `Corrupt` if the stored bytes are damaged.
    pub async fn next(&mut self) -> Result<Option<Arc<T>>> {
        // A long enumeration lets others run.
        tokio::task::coop::consume_budget().await;
        match self.order {
            Order::Ascending => match self.next_stored()? {
                Some(item) => Ok(Some(item)),
                None => self.next_own(),
            },
            Order::Descending => match self.next_own()? {
                Some(item) => Ok(Some(item)),
                None => self.next_stored(),
            },
        }
    }

    /// All that is left.
    ///
    /// # Errors
    /// As [`next`](Items::next).
    pub async fn collect<C: Default + Extend<Arc<T>>>(mut self) -> Result<C> {
        let mut all = C::default();
        while let Some(item) = self.next().await? {
            all.extend([item]);
        }
        Ok(all)
    }

    fn next_own(&mut self) -> Result<Option<Arc<T>>> {
        self.own.next().map(|item| item.value()).transpose()
    }

    fn next_stored(&mut self) -> Result<Option<Arc<T>>> {
        let Some((key, raw)) = self.stored.next()? else { return Ok(None) };
        let value = Entry::decode::<T>(raw).and_then(|entry| entry.value());
        value.map(Some).map_err(|error| {
            let place = Place::parse(&key).map_or_else(|| "an item".to_owned(), |place| place.to_string());
            error.about(format_args!("{}, {place}", self.queue.known))
        })
    }
}
