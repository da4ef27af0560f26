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

use super::Queue;
use crate::collection::Handle;
use crate::concurrent_queue::ConcurrentQueue;
use crate::entry::{Entry, Value};
use crate::watch::{CollectionChanges, RawChange};

/// What one commit changed in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueChanged<T> {
    /// The commit's place in the order: what [`Transaction::commit`](crate::Transaction::commit) returned for it.
    pub sequence_number: SequenceNumber,
    /// What it changed: first a clear, if there was one, then what left the queue, then what came in, each in order.
    pub changes: Vec<QueueChange<T>>,
}

/// A change of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueChange<T> {
    /// An item came in.
    Enqueued(Arc<T>),
    /// An item left; `None` if what it was is not known any more.
    Dequeued(Option<Arc<T>>),
    /// All items were removed.
    Cleared,
}

/// The commits that change a queue, in order, each exactly once: as [`Watch`](crate::Watch) for a dictionary.
#[derive(Debug)]
pub struct QueueWatch<T> {
    changes: CollectionChanges,
    /// The stream has ended with an error.
    has_failed: bool,
    types: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Queue<T> {
    /// Follows the changes that are committed from now on.
    ///
    /// # Errors
    /// As [`Dictionary::watch`](crate::Dictionary::watch).
    pub async fn watch(&self) -> Result<QueueWatch<T>> {
        QueueWatch::new(&self.handle, None).await
    }

    /// Follows the changes that were committed after a place in the order.
    ///
    /// # Errors
    /// As [`Dictionary::watch_after`](crate::Dictionary::watch_after).
    pub async fn watch_after(&self, number: SequenceNumber) -> Result<QueueWatch<T>> {
        QueueWatch::new(&self.handle, Some(number)).await
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> ConcurrentQueue<T> {
    /// Follows the changes that are committed from now on.
    ///
    /// # Errors
    /// As [`Dictionary::watch`](crate::Dictionary::watch).
    pub async fn watch(&self) -> Result<QueueWatch<T>> {
        QueueWatch::new(self.handle(), None).await
    }

    /// Follows the changes that were committed after a place in the order.
    ///
    /// # Errors
    /// As [`Dictionary::watch_after`](crate::Dictionary::watch_after).
    pub async fn watch_after(&self, number: SequenceNumber) -> Result<QueueWatch<T>> {
        QueueWatch::new(self.handle(), Some(number)).await
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> QueueWatch<T> {
    async fn new(handle: &Handle, after: Option<SequenceNumber>) -> Result<Self> {
        Ok(Self { changes: CollectionChanges::new(handle, after).await?, has_failed: false, types: PhantomData })
    }

    /// Waits for the next commit that changes the queue. Dropping the future loses nothing.
    ///
    /// # Errors
    /// As [`Watch::next`](crate::Watch::next).
    pub async fn next(&mut self) -> Result<QueueChanged<T>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Where to go on after what was delivered: the number to watch from another time.
    pub fn position(&self) -> SequenceNumber {
        self.changes.position()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<QueueChanged<T>>> {
        self.changes.poll_next(cx, |handle, sequence_number, changes| {
            let changes = changes.iter().map(|change| read(handle, change)).collect::<Result<_>>()?;
            Ok(QueueChanged { sequence_number, changes })
        })
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Stream for QueueWatch<T> {
    type Item = Result<QueueChanged<T>>;

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

fn read<T: Value>(handle: &Handle, change: &RawChange) -> Result<QueueChange<T>> {
    let item = |stored: &Bytes| {
        let item = Entry::decode::<T>(stored.clone()).and_then(|entry| entry.value());
        item.map_err(|error| error.about(format_args!("an item of {}", handle.known)))
    };
    Ok(match change {
        RawChange::Entry { new: Some(new), .. } => QueueChange::Enqueued(item(new)?),
        RawChange::Entry { old, .. } => QueueChange::Dequeued(old.as_ref().map(item).transpose()?),
        RawChange::Cleared => QueueChange::Cleared,
    })
}
