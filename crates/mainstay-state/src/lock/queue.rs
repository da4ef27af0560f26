use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use super::{LockMode, TransactionId};

/// Where a request stands in the queue of its key: conversions first, then by arrival.
///
/// No two requests of a table ever have the same place, so that a place that is no longer in the queue says that its
/// request was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) class: Class,
    pub(super) ticket: u64,
}

impl Place {
    /// `former` is the mode in which the transaction holds the key already.
    pub(super) fn new(ticket: u64, former: Option<LockMode>) -> Self {
        let class = if former.is_some() { Class::Conversion } else { Class::Plain };
        Self { class, ticket }
    }
}

/// Whether a request wants more of what its transaction holds already, or something new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Class {
    Conversion,
    Plain,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) id: TransactionId,
    pub(super) mode: LockMode,
    pub(super) waker: Option<Waker>,
}

/// The requests that wait for one key, in the order in which they will be granted.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiters: BTreeMap<Place, Waiter>,
    /// The places of those who want the key for themselves: what a search for deadlocks asks for.
    exclusive: BTreeSet<Place>,
}

impl Queue {
    pub(super) fn push(&mut self, place: Place, waiter: Waiter) {
        if waiter.mode == LockMode::Exclusive {
            self.exclusive.insert(place);
        }
        self.waiters.insert(place, waiter);
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<Waiter> {
        self.exclusive.remove(&place);
        self.waiters.remove(&place)
    }

    pub(super) fn first(&self) -> Option<(Place, &Waiter)> {
        self.waiters.first_key_value().map(|(place, waiter)| (*place, waiter))
    }

    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Waiter> {
        self.waiters.get_mut(&place)
    }

    pub(super) fn contains(&self, place: Place) -> bool {
        self.waiters.contains_key(&place)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether a conversion waits, which only another conversion may not overtake.
    pub(super) fn has_conversion(&self) -> bool {
        self.first().is_some_and(|(place, _)| place.class == Class::Conversion)
    }

    /// Those who are served before `place`, the next one first.
    pub(super) fn ahead_of(&self, place: Place) -> impl Iterator<Item = &Waiter> {
        self.waiters.range(..place).map(|(_, waiter)| waiter)
    }

    /// The first one ahead of `place` that wants the key for itself.
    pub(super) fn first_exclusive_ahead_of(&self, place: Place) -> Option<&Waiter> {
        let first = self.exclusive.first().filter(|first| **first < place)?;
        self.waiters.get(first)
    }
}
