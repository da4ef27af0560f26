use std::collections::HashMap;

use foldhash::fast::FixedState;
use mainstay_core::time::Instant;

use super::{LockMode, TransactionId};

/// How many sharers of a key are kept in place, before a map is made for them.
const SHARERS_IN_PLACE: usize = 2;

/// A map that lost most of its entries keeps room for this many.
const SHARERS_ROOM_MIN: usize = 64;

/// A transaction that holds a lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holder {
    pub(super) id: TransactionId,
    /// When it got the lock, in this mode or a weaker one.
    pub(super) since: Instant,
}

/// Those who hold one key: by the table of modes any number of sharers, and beside them at most one with a stronger
/// mode.
///
/// To add, remove and ask is O(1) with any number of sharers.
#[derive(Debug, Default)]
pub(super) struct Holders {
    strong: Option<(Holder, LockMode)>,
    few: [Option<Holder>; SHARERS_IN_PLACE],
    /// Once made, it stays as long as the key is in use, because a key that is shared by many soon is again.
    more: Option<Box<Crowd>>,
}

/// The sharers for whom there is no room in place. Behind a pointer, because most keys never have them.
#[derive(Debug, Default)]
struct Crowd {
    sharers: HashMap<TransactionId, Holder, FixedState>,
}

impl Holders {
    #[inline]
    pub(super) fn add(&mut self, holder: Holder, mode: LockMode) {
        if mode != LockMode::Shared {
            debug_assert!(self.strong.is_none(), "two holders of modes that exclude each other");
            self.strong = Some((holder, mode));
            return;
        }
        for place in &mut self.few {
            if place.is_none() {
                *place = Some(holder);
                return;
            }
        }
        self.more.get_or_insert_default().sharers.insert(holder.id, holder);
    }

    #[inline]
    pub(super) fn remove(&mut self, id: TransactionId) -> Option<Holder> {
        if let Some((holder, _)) = self.strong
            && holder.id == id
        {
            self.strong = None;
            return Some(holder);
        }
        for place in &mut self.few {
            if let Some(holder) = *place
                && holder.id == id
            {
                *place = None;
                return Some(holder);
            }
        }
        let more = &mut self.more.as_mut()?.sharers;
        let holder = more.remove(&id);
        // Each time costs what it frees, and at least as many were removed since the last time.
        if more.capacity() > SHARERS_ROOM_MIN && more.len() * 8 < more.capacity() {
            more.shrink_to((more.len() * 2).max(SHARERS_ROOM_MIN / 2));
        }
        holder
    }

    /// Whether `id` may hold `mode` beside everyone else who holds the key.
    #[inline]
    pub(super) fn admit(&self, id: TransactionId, mode: LockMode) -> bool {
        if let Some((holder, granted)) = self.strong
            && holder.id != id
            && !mode.is_compatible_with(granted)
        {
            return false;
        }
        mode.is_compatible_with(LockMode::Shared) || !self.is_shared_by_another(id)
    }

    /// Those whose mode excludes that `id` gets `mode`, the strong one first.
    pub(super) fn in_the_way_of(&self, id: TransactionId, mode: LockMode) -> impl Iterator<Item = (Holder, LockMode)> {
        self.iter().filter(move |(holder, granted)| holder.id != id && !mode.is_compatible_with(*granted))
    }

    /// All holders, the strong one first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Holder, LockMode)> {
        let sharers = self.few.iter().flatten().chain(self.more.iter().flat_map(|more| more.sharers.values()));
        self.strong.into_iter().chain(sharers.map(|holder| (*holder, LockMode::Shared)))
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.strong.is_none() && self.sharers() == 0
    }

    #[inline]
    fn sharers(&self) -> usize {
        self.few.iter().flatten().count() + self.more.as_ref().map_or(0, |more| more.sharers.len())
    }

    fn is_shared_by_another(&self, id: TransactionId) -> bool {
        self.few.iter().flatten().any(|holder| holder.id != id)
            || self.more.as_ref().is_some_and(|more| more.sharers.len() > usize::from(more.sharers.contains_key(&id)))
    }
}

#[cfg(test)]
impl Holders {
    /// How many are looked through one by one, and for how many others there is room.
    pub(super) fn room(&self) -> (usize, usize) {
        (1 + SHARERS_IN_PLACE, self.more.as_ref().map_or(0, |more| more.sharers.capacity()))
    }
}
