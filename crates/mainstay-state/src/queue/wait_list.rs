use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

/// Those who wait for the same thing, in the order in which they came.
///
/// Wakers are handed out to be woken or dropped where no lock is held: that may run anything.
#[derive(Debug)]
pub(super) struct WaitList<Ask, Grant> {
    waiting: BTreeMap<Ticket, Waiter<Ask>>,
    /// What was granted and not yet fetched.
    granted: BTreeMap<Ticket, Grant>,
    next: u64,
}

/// A place in a [`WaitList`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

#[derive(Debug)]
struct Waiter<Ask> {
    ask: Ask,
    waker: Option<Waker>,
    called: bool,
}

/// Why somebody who waits goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// What it waits for is there.
    Granted,
    /// Something has happened that it must look at by itself.
    Called,
}

impl<Ask, Grant> Default for WaitList<Ask, Grant> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), granted: BTreeMap::new(), next: 0 }
    }
}

impl<Ask, Grant> WaitList<Ask, Grant> {
    /// Whether nobody waits who was not granted anything.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn join(&mut self, ask: Ask) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.waiting.insert(ticket, Waiter { ask, waker: None, called: false });
        ticket
    }

    /// What the first one waits for.
    pub(super) fn front(&self) -> Option<&Ask> {
        self.waiting.first_key_value().map(|(_, waiter)| &waiter.ask)
    }

    /// Gives the first one what it waits for.
    pub(super) fn grant(&mut self, grant: Grant) -> Option<Waker> {
        let (ticket, waiter) = self.waiting.pop_first()?;
        self.granted.insert(ticket, grant);
        waiter.waker
    }

    /// Lets everybody look for themselves.
    pub(super) fn call_all(&mut self) -> impl Iterator<Item = Waker> {
        self.waiting.values_mut().filter_map(|waiter| {
            waiter.called = true;
            waiter.waker.take()
        })
    }

    /// Whether somebody goes on; and a waker that is no longer needed.
    pub(super) fn poll(&mut self, ticket: Ticket, context: &Context<'_>) -> (Poll<Signal>, Option<Waker>) {
        let Some(waiter) = self.waiting.get_mut(&ticket) else { return (Poll::Ready(Signal::Granted), None) };
        if std::mem::take(&mut waiter.called) {
            return (Poll::Ready(Signal::Called), None);
        }
        (Poll::Pending, waiter.waker.replace(context.waker().clone()))
    }

    /// Ends a wait: what was granted, and a waker that is no longer needed.
    pub(super) fn leave(&mut self, ticket: Ticket) -> (Option<Grant>, Option<Waker>) {
        let waiter = self.waiting.remove(&ticket);
        (self.granted.remove(&ticket), waiter.and_then(|waiter| waiter.waker))
    }
}
