use std::task::{Context, Poll, Waker};

use mainstay_core::time;
use mainstay_replica::Key;
use smallvec::SmallVec;

use super::holders::{Holder, Holders};
use super::queue::{Class, Place, Queue, Waiter};
use super::{LockMode, TransactionId};

/// Whom to wake, after the lock of the shard is released.
pub(super) type Wakers = SmallVec<[Waker; 2]>;

/// One key that is held: by whom, and who waits for it.
///
/// Between two calls no request waits that could be granted: whatever takes something away calls `settle`.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) hash: u64,
    pub(super) key: Key,
    pub(super) holders: Holders,
    /// Made when somebody waits for the first time.
    pub(super) queue: Option<Box<Queue>>,
}

impl Entry {
    #[inline]
    pub(super) fn new(hash: u64, key: Key, holder: Holder, mode: LockMode) -> Self {
        let mut holders = Holders::default();
        holders.add(holder, mode);
        Self { hash, key, holders, queue: None }
    }

    #[inline]
    pub(super) fn is_for(&self, hash: u64, key: &Key) -> bool {
        self.hash == hash && self.key == *key
    }

    /// Grants what can be granted without overtaking anyone.
    ///
    /// `former` is the mode in which the transaction holds the key already.
    #[inline]
    pub(super) fn try_grant(&mut self, holder: Holder, mode: LockMode, former: Option<LockMode>) -> bool {
        if let Some(queue) = &self.queue {
            let overtakes = match former {
                // A sole holder overtakes nobody here: who waits for a conversion is a holder.
                Some(_) => queue.has_conversion(),
                None => !queue.is_empty(),
            };
            if overtakes {
                return false;
            }
        }
        if !self.holders.admit(holder.id, mode) {
            return false;
        }
        match former {
            Some(_) => self.convert(holder.id, mode),
            None => self.holders.add(holder, mode),
        }
        true
    }

    /// Puts a request into the queue.
    pub(super) fn enqueue(&mut self, place: Place, id: TransactionId, mode: LockMode) {
        self.queue.get_or_insert_default().push(place, Waiter { id, mode, waker: None });
    }

    /// Whether the request at `place` was granted; if not, `context` is woken when it is.
    ///
    /// Gives back the waker that was there before, to be dropped outside of the lock.
    pub(super) fn poll(&mut self, place: Place, context: &Context<'_>) -> (Poll<()>, Option<Waker>) {
        let Some(waiter) = self.queue.as_mut().and_then(|queue| queue.get_mut(place)) else {
            return (Poll::Ready(()), None);
        };
        match &waiter.waker {
            Some(waker) if waker.will_wake(context.waker()) => (Poll::Pending, None),
            _ => (Poll::Pending, waiter.waker.replace(context.waker().clone())),
        }
    }

    pub(super) fn is_waiting(&self, place: Place) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.contains(place))
    }

    /// Who is before a request that waits.
    pub(super) fn blockers(&self, place: Place, id: TransactionId, mode: LockMode) -> Vec<TransactionId> {
        let holders = self.holders.in_the_way_of(id, mode).map(|(holder, _)| holder.id);
        let ahead = self.queue.iter().flat_map(|queue| queue.ahead_of(place)).map(|waiter| waiter.id);
        holders.chain(ahead).collect()
    }

    pub(super) fn is_waited_for_by_another(&self, id: TransactionId) -> bool {
        let Some(queue) = &self.queue else { return false };
        // A transaction waits for one thing at a time: of two at least one is another.
        queue.len() > 1 || queue.first().is_some_and(|(_, waiter)| waiter.id != id)
    }

    /// Takes back the request at `place`, whether it still waits or was granted and nobody has heard of it.
    pub(super) fn withdraw(&mut self, place: Place, id: TransactionId, former: Option<LockMode>) -> Wakers {
        let waited = self.queue.as_mut().and_then(|queue| queue.remove(place)).is_some();
        if !waited {
            match former {
                Some(former) => self.convert(id, former),
                None => drop(self.holders.remove(id)),
            }
        }
        self.settle()
    }

    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        // With no holder `settle` has emptied the queue too: whoever is first in it is compatible with nobody.
        self.holders.is_empty()
    }

    #[inline]
    pub(super) fn is_waited_for(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| !queue.is_empty())
    }

    /// Grants from the front of the queue whatever can be granted now.
    pub(super) fn settle(&mut self) -> Wakers {
        let mut wakers = Wakers::new();
        let mut now = None;
        while let Some(queue) = &mut self.queue
            && let Some((place, first)) = queue.first()
            && self.holders.admit(first.id, first.mode)
            && let Some(waiter) = queue.remove(place)
        {
            match place.class {
                Class::Conversion => self.convert(waiter.id, waiter.mode),
                Class::Plain => {
                    let since = *now.get_or_insert_with(time::now);
                    self.holders.add(Holder { id: waiter.id, since }, waiter.mode);
                }
            }
            wakers.extend(waiter.waker);
        }
        wakers
    }

    /// Changes the mode and keeps the time since when the transaction holds the key.
    fn convert(&mut self, id: TransactionId, mode: LockMode) {
        if let Some(holder) = self.holders.remove(id) {
            self.holders.add(holder, mode);
        }
    }
}
