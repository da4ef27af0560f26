use std::collections::VecDeque;
use std::fmt;

use mainstay_core::{ActorId, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::actor::enumeration::{ActorInfo, ActorReminder, Actors, Continuation, PAGE_DEFAULT};
use crate::actor::hall::Seats;

/// What can be listed: [`ActorInfo`] and [`ActorReminder`].
pub trait Listed: Sealed + Clone + Send + 'static {}

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
    fn list(actors: &dyn Seats, after: Option<&Self::Mark>, limit: usize) -> Result<Vec<Self>>;
}

#[allow(private_interfaces, reason = "nobody else can implement or call it")]
impl Sealed for ActorInfo {
    const LISTING: u8 = 1;
    type Mark = ActorId;

    fn mark(&self) -> ActorId {
        self.id.clone()
    }

    fn list(actors: &dyn Seats, after: Option<&ActorId>, limit: usize) -> Result<Vec<Self>> {
        actors.list(after, limit)
    }
}

#[allow(private_interfaces, reason = "nobody else can implement or call it")]
impl Sealed for ActorReminder {
    const LISTING: u8 = 2;
    type Mark = (ActorId, String);

    fn mark(&self) -> (ActorId, String) {
        (self.actor.clone(), self.reminder.name.to_string())
    }

    fn list(actors: &dyn Seats, after: Option<&(ActorId, String)>, limit: usize) -> Result<Vec<Self>> {
        actors.reminders(after.map(|(id, name)| (id, name.as_str())), limit)
    }
}

/// A listing, one after another. It reads a page at a time.
pub struct Listing<T> {
    actors: Actors,
    /// The one partition that it is of, if it is not of all.
    partition: Option<u32>,
    page: VecDeque<T>,
    continuation: Option<Continuation>,
    is_last: bool,
}

impl<T> fmt::Debug for Listing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listing({:?})", self.actors)
    }
}

impl<T: Listed> Listing<T> {
    pub(super) fn new(actors: Actors, partition: Option<u32>) -> Self {
        Self { actors, partition, page: VecDeque::new(), continuation: None, is_last: false }
    }

    /// The next one; `None` after the last.
    ///
    /// # Errors
    /// Those of a partition that cannot be read. The listing can be continued by asking again.
    pub async fn next(&mut self) -> Result<Option<T>> {
        while self.page.is_empty() && !self.is_last {
            let continuation = self.continuation.as_ref();
            let page = match self.partition {
                None => self.actors.page(continuation, PAGE_DEFAULT).await?,
                Some(partition) => self.actors.partition_page(partition, continuation, PAGE_DEFAULT).await?,
            };
            self.page = page.items.into();
            self.is_last = page.continuation.is_none();
            self.continuation = page.continuation;
        }
        Ok(self.page.pop_front())
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
}
