use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use mainstay_core::{Result, SequenceNumber};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Dictionary;
use super::range::decode_key;
use crate::collection::Handle;
use crate::entry::{Entry, Value};
use crate::watch::{CollectionChanges, RawChange};

/// What one commit changed in a dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed<K, V> {
    /// The commit's place in the order: what [`Transaction::commit`](crate::Transaction::commit) returned for it.
    pub sequence_number: SequenceNumber,
    /// What it changed: first a clear, if there was one, then entries in the order of their keys.
    pub changes: Vec<Change<K, V>>,
}

/// A change of a dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<K, V> {
    /// A key got a value.
    Set {
        /// The key.
        key: K,
        /// The value before; `None` if the key was not there.
        old: Option<Arc<V>>,
        /// The value since.
        new: Arc<V>,
    },
    /// A key was removed, by somebody or because its time had come.
    Removed {
        /// The key.
        key: K,
        /// The value that it had.
        old: Option<Arc<V>>,
    },
    /// All keys were removed.
    Cleared,
}

/// The commits that change a dictionary, in order, each exactly once.
///
/// It reads the partition's log: nothing is missed between two calls of [`next`](Watch::next), however long that takes,
/// and who was away goes on where it was with [`watch_after`](Dictionary::watch_after).
///
/// It is a [`Stream`] too, which ends after the first error. What follows can be had from there on with
/// [`next`](Watch::next), or by another watch after its [`position`](Watch::position).
///
/// ```
/// # use mainstay_state::{Change, Dictionary, StateManager};
/// # async fn run(state: StateManager) -> mainstay_core::Result<()> {
/// let ages: Dictionary<String, u32> = state.collection("ages").await?;
/// let mut watch = ages.watch().await?;
/// let mut tx = state.begin();
/// ages.set(&mut tx, "anna".into(), 41).await?;
/// let number = tx.commit().await?;
///
/// let changed = watch.next().await?;
/// assert_eq!(changed.sequence_number, number);
/// assert_eq!(changed.changes, [Change::Set { key: "anna".to_owned(), old: None, new: 41.into() }]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Watch<K, V> {
    changes: CollectionChanges,
    /// The stream has ended with an error.
    has_failed: bool,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Dictionary<K, V>
where
    K: Serialize + DeserializeOwned + Send + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Follows the changes that are committed from now on.
    ///
    /// # Errors
    /// `NotPrimary`; `NotFound` if the dictionary was dropped.
    pub async fn watch(&self) -> Result<Watch<K, V>> {
        Ok(Watch { changes: CollectionChanges::new(&self.handle, None).await?, has_failed: false, types: PhantomData })
    }

    /// Follows the changes that were committed after a place in the order: that of a commit, of a
    /// [snapshot](crate::Transaction::snapshot_number), or of another [`Watch`].
    ///
    /// # Errors
    /// `TooOld` if the log no longer has what follows: enumerate the dictionary, and watch from the number of that
    /// snapshot. Level none has no log, and remembers what is committed from the first watch of the partition on: before that
    /// only its last number can be given. `NotPrimary`; `NotFound` if the dictionary was dropped.
    pub async fn watch_after(&self, number: SequenceNumber) -> Result<Watch<K, V>> {
        Ok(Watch {
            changes: CollectionChanges::new(&self.handle, Some(number)).await?,
            has_failed: false,
            types: PhantomData,
        })
    }
}

impl<K, V> Watch<K, V>
where
    K: Serialize + DeserializeOwned,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Waits for the next commit that changes the dictionary. Dropping the future loses nothing.
    ///
    /// # Errors
    /// `TooOld` if this was too slow, and the log no longer has what follows; `NotFound` when the dictionary was dropped;
    /// `Fatal` when the replica has stopped. A key or value that cannot be read is named, and is not passed over: asking again
    /// gives the same answer. Watch with a type that can read it, or enumerate the dictionary and watch from the number of
    /// that [snapshot](crate::Transaction::snapshot_number).
    pub async fn next(&mut self) -> Result<Changed<K, V>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Where to go on after what was delivered: the number to give to [`watch_after`](Dictionary::watch_after) another time.
    pub fn position(&self) -> SequenceNumber {
        self.changes.position()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Changed<K, V>>> {
        self.changes.poll_next(cx, |handle, sequence_number, changes| {
            let changes = changes.iter().map(|change| read(handle, change)).collect::<Result<_>>()?;
            Ok(Changed { sequence_number, changes })
        })
    }
}

impl<K, V> Stream for Watch<K, V>
where
    K: Serialize + DeserializeOwned,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    type Item = Result<Changed<K, V>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let watch = self.get_mut();
        if watch.has_failed {
            return Poll::Ready(None);
        }
        let next = ready!(watch.poll(cx));
        watch.has_failed = next.is_err();
        Poll::Ready(Some(next))
    }
}

fn read<K: Serialize + DeserializeOwned, V: Value>(handle: &Handle, change: &RawChange) -> Result<Change<K, V>> {
    let RawChange::Entry { key: raw, old, new } = change else { return Ok(Change::Cleared) };
    let value = |stored: &Bytes| {
        let value = Entry::decode::<V>(stored.clone()).and_then(|entry| entry.value());
        value.map_err(|error| handle.explain(raw, error))
    };
    let key = decode_key(handle, raw)?;
    let old = old.as_ref().map(value).transpose()?;
    Ok(match new {
        Some(new) => Change::Set { key, old, new: value(new)? },
        None => Change::Removed { key, old },
    })
}
