use std::future::{Future as _, poll_fn};
use std::iter::Peekable;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::vec;

use bytes::Bytes;
use futures_util::Stream;
use mainstay_core::time::WallTime;
use mainstay_core::{Error, ErrorKind, Result, key};
use mainstay_replica::{Key, KeyRange, Order, Scan};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Dictionary;
use crate::collection::Handle;
use crate::entry::{self, Entry};
use crate::layout::{self, ENTRY_PREFIX_BYTES};
use crate::lock::LockMode;
use crate::transaction::Transaction;

/// Some of a dictionary's keys, in order. Nothing is read before [`entries`](Range::entries) or [`keys`](Range::keys).
///
/// ```
/// # use mainstay_state::{Dictionary, StateManager};
/// # async fn run(state: StateManager) -> mainstay_core::Result<()> {
/// let ages: Dictionary<String, u32> = state.collection("ages").await?;
/// let mut tx = state.begin();
/// for (name, age) in [("anna", 41), ("bert", 17), ("carl", 29)] {
///     ages.set(&mut tx, name.into(), age).await?;
/// }
/// let mut entries = ages.range("b"..).reversed().entries(&mut tx).await?;
/// assert_eq!(entries.next().await?, Some(("carl".to_owned(), 29.into())));
/// assert_eq!(entries.next().await?, Some(("bert".to_owned(), 17.into())));
/// assert_eq!(entries.next().await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is read before `entries` or `keys`"]
pub struct Range<K, V> {
    dictionary: Dictionary<K, V>,
    /// Of the keys as they are stored; an error waits for who reads.
    bounds: Result<KeyRange>,
    order: Order,
}

impl<K, V> Dictionary<K, V>
where
    K: Serialize + DeserializeOwned + Send + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// All keys.
    pub fn all(&self) -> Range<K, V> {
        let prefix = layout::entry_prefix(self.handle.known.id);
        Range { dictionary: self.clone(), bounds: Ok(KeyRange::prefix(&prefix)), order: Order::Ascending }
    }

    /// The keys between bounds, which are keys or borrowed forms of them: `ages.range("a".."b")`.
    pub fn range<Q: Serialize>(&self, bounds: impl RangeBounds<Q>) -> Range<K, V> {
        let all = KeyRange::prefix(&layout::entry_prefix(self.handle.known.id));
        let read = || {
            let bound = |bound: Bound<&Q>, unbounded| match bound {
                Bound::Included(key) => self.bound(key).map(Bound::Included),
                Bound::Excluded(key) => self.bound(key).map(Bound::Excluded),
                Bound::Unbounded => Ok(unbounded),
            };
            Ok(KeyRange { start: bound(bounds.start_bound(), all.start)?, end: bound(bounds.end_bound(), all.end)? })
        };
        Range { dictionary: self.clone(), bounds: read(), order: Order::Ascending }
    }

    /// The keys, which are tuples or structs, whose first elements are these: `orders.prefix(&("eu",))`.
    pub fn prefix<P: ?Sized + Serialize>(&self, elements: &P) -> Range<K, V> {
        self.within(key::prefix(elements))
    }

    /// The keys, which are text, that start with this.
    pub fn starting_with(&self, text: &str) -> Range<K, V> {
        self.within(key::text_prefix(&(), text))
    }

    fn within(&self, range: Result<key::KeyRange>) -> Range<K, V> {
        let prefix = layout::entry_prefix(self.handle.known.id);
        let bounds = range.map(|range| {
            let end = match range.end {
                Some(end) => Some([&prefix[..], &end].concat()),
                None => mainstay_replica::prefix_successor(&prefix),
            };
            KeyRange::half_open([&prefix[..], &range.start].concat(), end.map(Bytes::from))
        });
        Range { dictionary: self.clone(), bounds, order: Order::Ascending }
    }

    fn bound<Q: ?Sized + Serialize>(&self, bound: &Q) -> Result<Bytes> {
        let stored = self.key(bound)?;
        key::decode::<K>(&stored[ENTRY_PREFIX_BYTES..]).map_err(|error| {
            Error::invalid(format!("the bound of a range of {} is not one of its keys", self.handle.known))
                .with_source(error)
        })?;
        Ok(Bytes::copy_from_slice(&stored))
    }
}

impl<K, V> Range<K, V>
where
    K: Serialize + DeserializeOwned + Send + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// The same keys from the last to the first.
    pub fn reversed(mut self) -> Self {
        self.order = match self.order {
            Order::Ascending => Order::Descending,
            Order::Descending => Order::Ascending,
        };
        self
    }

    /// Reads keys and values, from the snapshot that all enumerations and counts of this transaction see, with what the
    /// transaction has changed so far. Nobody waits for it, and it does not see what happens afterwards.
    ///
    /// # Errors
    /// `Invalid` for bounds that are not keys; as [`Dictionary::get`].
    pub async fn entries(self, tx: &mut Transaction) -> Result<Entries<K, V>> {
        let handle = self.dictionary.handle.clone();
        Ok(Entries { merged: self.merge(tx).await?, handle, pace: Pace::default(), types: PhantomData })
    }

    /// Reads keys only; as [`entries`](Range::entries), without decoding values.
    ///
    /// # Errors
    /// As [`entries`](Range::entries).
    pub async fn keys(self, tx: &mut Transaction) -> Result<Keys<K>> {
        let handle = self.dictionary.handle.clone();
        Ok(Keys { merged: self.merge(tx).await?, handle, pace: Pace::default(), types: PhantomData })
    }

    async fn merge(self, tx: &mut Transaction) -> Result<Merged> {
        let handle = &self.dictionary.handle;
        handle.enter(tx, LockMode::Shared).await?;
        let bounds = self.bounds?;
        Merged::new(handle, tx, bounds, self.order)
    }
}

/// What a snapshot holds, under what a transaction has made of it.
pub(crate) struct Merged {
    stored: Peekable<Scan>,
    own: Peekable<vec::IntoIter<(Key, Option<Entry>)>>,
    order: Order,
    now: WallTime,
}

/// Of an entry: its key and what is stored.
type Found = (Bytes, Bytes);

impl Merged {
    pub(crate) fn new(handle: &Handle, tx: &mut Transaction, bounds: KeyRange, order: Order) -> Result<Self> {
        let (snapshot, now) = tx.snapshot()?;
        let own = tx.writes.of(handle.known.id);
        let own = own.filter(|(key, _)| bounds.contains(key)).map(|(key, write)| (key.clone(), write.new.clone()));
        let mut own: Vec<_> = own.collect();
        if order == Order::Descending {
            own.reverse();
        }
        let stored: Scan = if tx.writes.is_cleared(handle.known.id) || bounds.is_empty() {
            Box::new(std::iter::empty())
        } else {
            snapshot.scan(bounds, order)?
        };
        Ok(Self { stored: stored.peekable(), own: own.into_iter().peekable(), order, now })
    }

    /// The next entry that has not expired.
    pub(crate) fn next(&mut self) -> Result<Option<Found>> {
        loop {
            let Some((key, raw)) = self.next_of_both()? else { return Ok(None) };
            if entry::expiry_of(&raw)?.is_none_or(|at| at > self.now) {
                return Ok(Some((key, raw)));
            }
        }
    }

    fn next_of_both(&mut self) -> Result<Option<Found>> {
        loop {
            let own_comes = match (self.stored.peek(), self.own.peek()) {
                (Some(Ok((stored, _))), Some((own, _))) => match self.order {
                    Order::Ascending => **own <= **stored,
                    Order::Descending => **own >= **stored,
                },
                (Some(_), _) => false,
                (None, _) => true,
            };
            if !own_comes {
                return self.stored.next().transpose();
            }
            let Some((key, new)) = self.own.next() else { return Ok(None) };
            // What it replaces is not seen.
            self.stored.next_if(|stored| stored.as_ref().is_ok_and(|(stored, _)| **stored == *key));
            if let Some(entry) = new {
                return Ok(Some((Bytes::copy_from_slice(&key), entry.raw()?.into_owned().into())));
            }
        }
    }
}

/// How many entries an enumeration reads before others run: for some ten microseconds, which is about what a commit takes
/// of a worker between two waits. Whoever waits for a worker is slowed down by no more than that.
const ENTRIES_AT_ONCE: u32 = 16;

/// Lets others run during a long enumeration. Their work comes first: commits have somebody waiting for them.
#[derive(Debug, Default)]
struct Pace {
    entries: u32,
}

impl Pace {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.entries == ENTRIES_AT_ONCE {
            self.entries = 0;
            // Its first poll sees to it that the task is woken when others have run; there is no second.
            return pin!(tokio::task::yield_now()).poll(cx);
        }
        self.entries += 1;
        Poll::Ready(())
    }
}

/// The keys and values of a [`Range`]. It is a [`Stream`] too, which goes on after an entry that cannot be read.
pub struct Entries<K, V> {
    merged: Merged,
    handle: Handle,
    pace: Pace,
    types: PhantomData<fn() -> (K, V)>,
}

/// What a stream of [`Entries`] gives.
type Item<K, V> = Result<(K, Arc<V>)>;

/// The keys of a [`Range`]. It is a [`Stream`] too, which goes on after a key that cannot be read.
pub struct Keys<K> {
    merged: Merged,
    handle: Handle,
    pace: Pace,
    types: PhantomData<fn() -> K>,
}

impl<K, V> Entries<K, V>
where
    K: Serialize + DeserializeOwned,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// The next key with its value; `None` when there is no more.
    ///
    /// # Errors
    /// A key or value that cannot be read is named; `Corrupt` if the stored bytes are damaged.
    pub async fn next(&mut self) -> Result<Option<(K, Arc<V>)>> {
        poll_fn(|cx| self.poll(cx)).await.transpose()
    }

    /// All that is left.
    ///
    /// # Errors
    /// As [`next`](Entries::next).
    pub async fn collect<C: Default + Extend<(K, Arc<V>)>>(mut self) -> Result<C> {
        let mut all = C::default();
        while let Some(entry) = self.next().await? {
            all.extend([entry]);
        }
        Ok(all)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Item<K, V>>> {
        ready!(self.pace.poll_step(cx));
        Poll::Ready(self.merged.next().transpose().map(|found| self.decode(&found?)))
    }

    fn decode(&self, (key, raw): &Found) -> Item<K, V> {
        let value = Entry::decode_value::<V>(raw).map(Arc::new);
        let value = value.map_err(|error| self.handle.explain(key, error))?;
        Ok((decode_key(&self.handle, key)?, value))
    }
}

impl<K: Serialize + DeserializeOwned> Keys<K> {
    /// The next key; `None` when there is no more.
    ///
    /// # Errors
    /// As [`Entries::next`].
    pub async fn next(&mut self) -> Result<Option<K>> {
        poll_fn(|cx| self.poll(cx)).await.transpose()
    }

    /// All that is left.
    ///
    /// # Errors
    /// As [`Entries::next`].
    pub async fn collect<C: Default + Extend<K>>(mut self) -> Result<C> {
        let mut all = C::default();
        while let Some(key) = self.next().await? {
            all.extend([key]);
        }
        Ok(all)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<K>>> {
        ready!(self.pace.poll_step(cx));
        Poll::Ready(self.merged.next().transpose().map(|found| decode_key(&self.handle, &found?.0)))
    }
}

impl<K, V> Stream for Entries<K, V>
where
    K: Serialize + DeserializeOwned,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    type Item = Result<(K, Arc<V>)>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(cx)
    }
}

impl<K: Serialize + DeserializeOwned> Stream for Keys<K> {
    type Item = Result<K>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(cx)
    }
}

pub(super) fn decode_key<K: Serialize + DeserializeOwned>(handle: &Handle, key: &[u8]) -> Result<K> {
    key::decode(&key[ENTRY_PREFIX_BYTES..]).map_err(|error| match error.kind() {
        ErrorKind::Invalid => handle.explain(key, error),
        _ => Error::corrupt(format!("a key of {} is damaged", handle.known)).with_source(error),
    })
}
