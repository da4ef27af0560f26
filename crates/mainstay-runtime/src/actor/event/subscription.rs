use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use mainstay_core::{ActorId, Error, ErrorKind, Result};

use crate::actor::event::inbox::{Inbox, Taken, Waiting};
use crate::slot::{PartitionObjects, Slot, SlotState};

/// A subscription to events of a type of an actor, until it is dropped.
pub(crate) struct Subscription {
    slot: Arc<Slot>,
    actor: ActorId,
    event: &'static str,
    inbox: Arc<Inbox>,
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
    pub(crate) fn open(slot: Arc<Slot>, actor: ActorId, event: &'static str) -> Result<Self> {
        let inbox = Arc::new(Inbox::default());
        if !slot.audience().add(&actor, event, inbox.clone())? {
            return Err(slot.stopped());
        }
        // Afterwards, so that nothing is missed in between.
        if let SlotState::Open(opened) = slot.state()
            && let PartitionObjects::Actors(actors) = &opened.objects
            && let Ok(published) = actors.published(&actor, event)
        {
            inbox.start(published);
        }
        Ok(Self { slot, actor, event, inbox })
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
