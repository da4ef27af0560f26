use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use mainstay_core::{ActorId, Error, ErrorKind, Result};
use mainstay_state::actor::Published;
use tokio::sync::oneshot;

use crate::actor::event::feed::EventFeed;
use crate::actor::event::inbox::{Inbox, Taken, Waiting};
use crate::router::Router;
use crate::slot::{PartitionObjects, Slot, SlotState};

/// A subscription to events of a type of an actor, until it is dropped.
pub(crate) struct Subscription {
    slot: Arc<Slot>,
    actor: ActorId,
    event: Arc<str>,
    inbox: Arc<Inbox>,
    /// Ends what brings events from other nodes when it is dropped.
    _feed: Option<oneshot::Sender<()>>,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}({})", self.event, self.slot.address().service, self.actor)
    }
}

impl Subscription {
    /// Subscribes. The actor does not notice.
    ///
    /// # Errors
    /// `Fatal` once the node has stopped, `Overloaded` if there are too many subscriptions.
    pub(crate) fn open(slot: Arc<Slot>, actor: ActorId, event: Arc<str>) -> Result<Self> {
        let inbox = Arc::new(Inbox::default());
        if !slot.audience().add(&actor, event.clone(), inbox.clone())? {
            return Err(slot.stopped());
        }
        // Afterwards, so that nothing is missed in between.
        if let SlotState::Open(opened) = slot.state()
            && let PartitionObjects::Actors(actors) = &opened.objects
            && let Ok(published) = actors.published(&actor, &event)
        {
            inbox.start(published);
        }
        Ok(Self { slot, actor, event, inbox, _feed: None })
    }

    /// Subscribes to an actor that may be on another node, now or later.
    ///
    /// # Errors
    /// As [`open`](Subscription::open).
    pub(crate) fn anywhere(router: &Arc<dyn Router>, slot: Arc<Slot>, actor: ActorId, event: Arc<str>) -> Result<Self> {
        let address = slot.address().clone();
        let mut subscription = Self::open(slot, actor.clone(), event.clone())?;
        if router.remote().is_some() {
            let inbox = Arc::downgrade(&subscription.inbox);
            subscription._feed = Some(EventFeed { router: router.clone(), address, actor, event, inbox }.start());
        }
        Ok(subscription)
    }

    /// True if it is at the slot that a partition has now.
    pub(super) fn is_at(&self, slot: &Arc<Slot>) -> bool {
        Arc::ptr_eq(self.slot.audience(), slot.audience())
    }

    /// How many events there were when it began, where that is known.
    pub(super) fn start(&self) -> Option<Published> {
        self.inbox.last_number()
    }

    /// What comes next, as it is.
    pub(super) fn poll_taken(&self, cx: &mut Context<'_>) -> Poll<Taken> {
        self.inbox.poll(cx)
    }

    /// What has come already.
    pub(crate) fn take(&self) -> Option<Result<Waiting>> {
        self.inbox.take().map(|taken| self.told(taken))
    }

    /// What comes next.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Waiting>> {
        self.inbox.poll(cx).map(|taken| self.told(taken))
    }

    fn told(&self, taken: Taken) -> Result<Waiting> {
        match taken {
            Taken::Event(waiting) => Ok(waiting),
            Taken::Deleted => Err(Error::new(
                ErrorKind::NotFound,
                format!("{self}: the actor was deleted; go on to hear of the next one with its id, counted from one"),
            )),
            Taken::Stopped => Err(self.slot.stopped()),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.slot.audience().remove(&self.actor, &self.inbox);
    }
}
