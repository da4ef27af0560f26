use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use futures_util::future::BoxFuture;
use mainstay_core::task::poll_budget;
use mainstay_core::{ActorId, Result};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::actor::actor_table::AnyActorTable;
use crate::actor::enumeration::elsewhere::TravellingReminder;
use crate::actor::enumeration::{ActorInfo, ActorReminder, Actors, PAGE_DEFAULT, Page, PageToken};

/// What can be listed: [`ActorInfo`] and [`ActorReminder`].
pub trait Listed: Sealed + Clone + Send + Unpin + 'static {}

impl Listed for ActorInfo {}

impl Listed for ActorReminder {}

/// How something is listed.
#[allow(private_interfaces, reason = "nobody else can implement or call it")]
pub trait Sealed: Sized {
    /// What the listing is called in its continuations.
    #[doc(hidden)]
    const LISTING: u8;

    /// What tells where a page ends.
    #[doc(hidden)]
    type Mark: Serialize + DeserializeOwned + Send + 'static;

    #[doc(hidden)]
    fn mark(&self) -> Self::Mark;

    #[doc(hidden)]
    fn list(actors: &dyn AnyActorTable, after: Option<&Self::Mark>, limit: usize) -> Result<Vec<Self>>;

    /// How it travels from another node.
    #[doc(hidden)]
    type Travelling: Serialize + DeserializeOwned + Send + 'static;

    #[doc(hidden)]
    fn travel(self) -> Self::Travelling;

    #[doc(hidden)]
    fn arrive(travelling: Self::Travelling) -> Result<Self>;
}

#[allow(private_interfaces, reason = "nobody else can implement or call it")]
impl Sealed for ActorInfo {
    const LISTING: u8 = 1;
    type Mark = ActorId;

    fn mark(&self) -> ActorId {
        self.id.clone()
    }

    fn list(actors: &dyn AnyActorTable, after: Option<&ActorId>, limit: usize) -> Result<Vec<Self>> {
        actors.list(after, limit)
    }

    type Travelling = Self;

    fn travel(self) -> Self {
        self
    }

    fn arrive(travelling: Self) -> Result<Self> {
        Ok(travelling)
    }
}

#[allow(private_interfaces, reason = "nobody else can implement or call it")]
impl Sealed for ActorReminder {
    const LISTING: u8 = 2;
    type Mark = (ActorId, String);

    fn mark(&self) -> (ActorId, String) {
        (self.actor.clone(), self.reminder.name.to_string())
    }

    fn list(actors: &dyn AnyActorTable, after: Option<&(ActorId, String)>, limit: usize) -> Result<Vec<Self>> {
        actors.reminders(after.map(|(id, name)| (id, name.as_str())), limit)
    }

    type Travelling = TravellingReminder;

    fn travel(self) -> TravellingReminder {
        TravellingReminder::new(self)
    }

    fn arrive(travelling: TravellingReminder) -> Result<Self> {
        travelling.arrive()
    }
}

/// A listing, one after another. It reads a page at a time.
///
/// It is a [`Stream`] too, which ends after the first error, so that a loop over it ends. [`next`](Listing::next) goes on from there.
pub struct Listing<T> {
    actors: Actors,
    /// The one partition that it is of, if it is not of all.
    partition: Option<u32>,
    page: VecDeque<T>,
    continuation: Option<PageToken>,
    is_last: bool,
    /// The stream has ended with an error.
    has_failed: bool,
    /// The read of the next page. It is locked by nobody, and in a mutex so that a reference to the listing can be sent.
    reading: Mutex<Option<BoxFuture<'static, Result<Page<T>>>>>,
}

impl<T> fmt::Debug for Listing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listing({:?})", self.actors)
    }
}

impl<T: Listed> Listing<T> {
    pub(super) fn new(actors: Actors, partition: Option<u32>) -> Self {
        Self {
            actors,
            partition,
            page: VecDeque::new(),
            continuation: None,
            is_last: false,
            has_failed: false,
            reading: Mutex::new(None),
        }
    }

    /// The next one; `None` after the last. Dropping the future loses nothing.
    ///
    /// # Errors
    /// Those of a partition that cannot be read. The listing can be continued by asking again.
    pub async fn next(&mut self) -> Result<Option<T>> {
        poll_fn(|cx| self.poll(cx)).await.transpose()
    }

    /// All that are left.
    ///
    /// # Errors
    /// As [`next`](Listing::next).
    pub async fn collect(mut self) -> Result<Vec<T>> {
        let mut all = Vec::new();
        while let Some(next) = self.next().await? {
            all.push(next);
        }
        Ok(all)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        // A page is at hand without waiting, and others of the runtime must have a chance all the same.
        ready!(poll_budget(cx));
        while self.page.is_empty() && !self.is_last {
            if let Err(error) = ready!(self.poll_page(cx)) {
                return Poll::Ready(Some(Err(error)));
            }
        }
        Poll::Ready(self.page.pop_front().map(Ok))
    }

    /// Reads the next page.
    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let (actors, partition, continuation) = (&self.actors, self.partition, &self.continuation);
        let reading = self.reading.get_mut().get_or_insert_with(|| {
            let (actors, continuation) = (actors.clone(), continuation.clone());
            Box::pin(async move {
                match partition {
                    None => actors.page(continuation.as_ref(), PAGE_DEFAULT).await,
                    Some(partition) => actors.partition_page(partition, continuation.as_ref(), PAGE_DEFAULT).await,
                }
            })
        });
        let page = ready!(reading.as_mut().poll(cx));
        *self.reading.get_mut() = None;
        let page = page?;
        self.page = page.items.into();
        self.is_last = page.continuation.is_none();
        self.continuation = page.continuation;
        Poll::Ready(Ok(()))
    }
}

impl<T: Listed> Stream for Listing<T> {
    type Item = Result<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let listing = self.get_mut();
        if listing.has_failed {
            return Poll::Ready(None);
        }
        let next = ready!(listing.poll(cx));
        listing.has_failed = matches!(next, Some(Err(_)));
        Poll::Ready(next)
    }
}
