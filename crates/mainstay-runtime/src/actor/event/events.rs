use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use mainstay_core::{Error, ErrorKind, Result};
use tokio::task::coop;

use crate::actor::event::definition::{Event, read};
use crate::actor::event::inbox::Waiting;
use crate::actor::event::received::Received;
use crate::actor::event::subscription::Subscription;

/// A subscription to events of an actor: see [`Proxy::events`](crate::Proxy::events). It ends when it is dropped.
///
/// It stays what it is while the actor is deactivated and activated again, and while its partition is closed, opened or
/// elsewhere: then nothing comes, and what was missed is counted when something comes again. A subscriber that is slow does
/// not hold anybody up: of more events than the setting `events_buffer` of the actor it loses the oldest, and is told how
/// many.
///
/// It is a [`Stream`] too, which ends after the error that the node has stopped.
pub struct Events<E> {
    subscription: Subscription,
    /// What could not be read since the last event, and what was missed before it.
    unread: u64,
    is_ended: bool,
    event: PhantomData<fn() -> E>,
}

impl<E> fmt::Debug for Events<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events({})", self.subscription)
    }
}

impl<E: Event> Events<E> {
    pub(crate) fn new(subscription: Subscription) -> Self {
        Self { subscription, unread: 0, is_ended: false, event: PhantomData }
    }

    /// The next event, in the order of the actor's turns. Giving up waiting loses nothing.
    ///
    /// # Errors
    /// `NotFound` once after the actor was deleted: the next one of its id is heard if this is called again. `Fatal` when the
    /// node has stopped, from then on. Other errors are of an event that cannot be read as this type: it counts as
    /// missed.
    pub async fn next(&mut self) -> Result<Received<E>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// The next event, if it is there already. Every event of a turn is, when the caller of the turn has its answer.
    ///
    /// # Errors
    /// As [`next`](Events::next).
    pub fn try_next(&mut self) -> Option<Result<Received<E>>> {
        let waiting = self.subscription.take()?;
        Some(self.receive(waiting))
    }

    /// True once nothing will come any more.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Received<E>>> {
        // A subscriber that finds one after another never waits, and others of the runtime must have a chance all the same.
        let budget = ready!(coop::poll_proceed(cx));
        let waiting = ready!(self.subscription.poll(cx));
        budget.made_progress();
        Poll::Ready(self.receive(waiting))
    }

    fn receive(&mut self, waiting: Result<Waiting>) -> Result<Received<E>> {
        let Waiting { event, sequence, missed, .. } = waiting.inspect_err(|error| {
            self.is_ended = error.kind() == ErrorKind::Fatal;
        })?;
        let missed = missed.saturating_add(std::mem::take(&mut self.unread));
        match read(&*event) {
            Ok(event) => Ok(Received { event, missed, sequence }),
            Err(error) => {
                self.unread = missed.saturating_add(1);
                let text =
                    format!("{} number {sequence} cannot be read as {}", self.subscription, std::any::type_name::<E>());
                Err(Error::new(error.kind(), text).with_source(error))
            }
        }
    }
}

impl<E: Event> Stream for Events<E> {
    type Item = Result<Received<E>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let events = self.get_mut();
        if events.is_ended {
            return Poll::Ready(None);
        }
        events.poll(cx).map(Some)
    }
}
