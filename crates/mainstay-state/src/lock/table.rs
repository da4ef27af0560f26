use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::task::Waker;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table;
use mainstay_core::random;
use mainstay_core::task::Home;
use mainstay_replica::Key;
use parking_lot::{Mutex, MutexGuard};
use rand::Rng as _;

use super::entry::{Entry, Wakers};
use super::holders::Holder;
use super::request::Request;
use super::sharers::{Sharer, Sharers, StripeNumber};
use super::waits::Waits;
use super::{LockMode, TransactionId};
use crate::call_graph::CallGraph;
use crate::layout::{self, CollectionId};

/// In how many parts a table is cut, so that transactions of different keys do not meet. A power of two.
const SHARDS: usize = 64;

/// A shard that lost most of its entries keeps room for this many: so few that all shards stay in a cache.
const SHARD_ROOM_MIN: usize = 8;

/// All locks of one partition.
///
/// Only keys that are held have an entry, so that its memory is bounded by the locks that are held.
#[derive(Debug)]
pub(crate) struct LockTable {
    /// Seeded, so that nobody who chooses keys can choose them to meet in one bucket.
    hasher: FixedState,
    shards: [Shard; SHARDS],
    sharers: Sharers,
    /// Never locked while a shard is: first this, then the shard.
    waits: Mutex<Waits>,
    /// By whose clock is waited.
    home: Home,
    /// What else those who use transactions wait for.
    calls: Option<Arc<dyn CallGraph>>,
}

/// A part of the table, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    entries: Mutex<HashTable<Entry>>,
}

impl LockTable {
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self::within(None)
    }

    /// The locks of a partition whose transactions are used in calls.
    pub(crate) fn within(calls: Option<Arc<dyn CallGraph>>) -> Self {
        let hasher = FixedState::with_seed(random::rng().next_u64());
        let shards = std::array::from_fn(|_| Shard::default());
        Self { hasher, shards, sharers: Sharers::new(), waits: Mutex::default(), home: Home::current(), calls }
    }

    /// What else those who use transactions wait for.
    #[inline]
    pub(crate) fn calls(&self) -> Option<&Arc<dyn CallGraph>> {
        self.calls.as_ref()
    }

    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish()
    }

    /// Grants a request if it can be done at once, and otherwise does what is to be done then.
    #[inline]
    pub(super) fn grant_or(&self, request: &Request, otherwise: impl FnOnce(&mut Entry)) -> bool {
        let Request { hash, ref key, id, mode, made, former } = *request;
        let holder = Holder { id, since: made };
        let mut entries = self.shard(hash);
        match entries.entry(hash, |entry| entry.is_for(hash, key), |entry| entry.hash) {
            hash_table::Entry::Occupied(mut found) => {
                let granted = found.get_mut().try_grant(holder, mode, former);
                if !granted {
                    otherwise(found.get_mut());
                }
                granted
            }
            hash_table::Entry::Vacant(vacant) => {
                vacant.insert(Entry::new(hash, key.clone(), holder, mode));
                true
            }
        }
    }

    /// Lists one who shares a collection; `None` if it must take a lock of the table.
    #[inline]
    pub(super) fn share(&self, collection: CollectionId, holder: Holder) -> Option<StripeNumber> {
        self.sharers.add(Sharer { collection, holder })
    }

    /// Takes one who shares a collection off the list, or out of the table if it was put there.
    #[inline]
    pub(super) fn unshare(&self, stripe: StripeNumber, collection: CollectionId, id: TransactionId) {
        if !self.sharers.remove(stripe, collection, id, drop) {
            let key = layout::length(collection);
            self.release(self.hash(&key), &key, id);
        }
    }

    /// Puts one who shares a collection into the table, if it is not there.
    pub(super) fn enter(&self, stripe: StripeNumber, collection: CollectionId, id: TransactionId) {
        self.sharers.remove(stripe, collection, id, |sharer| self.admit(sharer));
    }

    /// Puts all who share a collection into the table, and whoever comes, until [`unbar`](LockTable::unbar).
    pub(super) fn bar(&self) {
        self.sharers.bar(|sharer| self.admit(sharer));
    }

    /// Ends what [`bar`](LockTable::bar) began.
    pub(super) fn unbar(&self) {
        self.sharers.unbar();
    }

    /// Makes one who shares a collection one of the holders of its key. Nobody holds that in another mode, because who wants
    /// to bars first.
    fn admit(&self, Sharer { collection, holder }: Sharer) {
        let key = layout::length(collection);
        let hash = self.hash(&key);
        let mut entries = self.shard(hash);
        match entries.entry(hash, |entry| entry.is_for(hash, &key), |entry| entry.hash) {
            hash_table::Entry::Occupied(mut found) => found.get_mut().holders.add(holder, LockMode::Shared),
            hash_table::Entry::Vacant(vacant) => {
                vacant.insert(Entry::new(hash, key, holder, LockMode::Shared));
            }
        }
    }

    #[inline]
    pub(super) fn release(&self, hash: u64, key: &Key, id: TransactionId) {
        let mut entries = self.shard(hash);
        let Ok(mut found) = entries.find_entry(hash, |entry| entry.is_for(hash, key)) else { return };
        let entry = found.get_mut();
        entry.holders.remove(id);
        if entry.is_waited_for() {
            // Somebody has it now, so the entry stays.
            let wakers = entry.settle();
            drop(entries);
            return wake(wakers);
        }
        if entry.is_unused() {
            found.remove();
            shrink(&mut entries);
        }
    }

    /// Does what may free the key, and forgets the key if it did. To be woken are those who got it.
    pub(super) fn change(&self, hash: u64, key: &Key, change: impl FnOnce(&mut Entry) -> Wakers) -> Wakers {
        let mut entries = self.shard(hash);
        let Ok(mut found) = entries.find_entry(hash, |entry| entry.is_for(hash, key)) else { return Wakers::new() };
        let wakers = change(found.get_mut());
        if found.get().is_unused() {
            found.remove();
            shrink(&mut entries);
        }
        wakers
    }

    /// Looks at a key, if anyone holds it.
    pub(super) fn with_entry<T>(&self, hash: u64, key: &Key, look: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.shard(hash).find_mut(hash, |entry| entry.is_for(hash, key)).map(look)
    }

    pub(super) fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock()
    }

    #[inline]
    fn shard(&self, hash: u64) -> MutexGuard<'_, HashTable<Entry>> {
        // Bits that the hash table of the shard uses for neither the bucket nor the tag.
        self.shards[(hash >> 40) as usize % SHARDS].entries.lock()
    }
}

/// Gives room back. Each time costs what it frees, and at least as many were removed since the last time.
#[inline]
fn shrink(entries: &mut HashTable<Entry>) {
    if entries.capacity() > SHARD_ROOM_MIN && entries.len() * 8 < entries.capacity() {
        let room = (entries.len() * 2).max(SHARD_ROOM_MIN / 2);
        entries.shrink_to(room, |entry| entry.hash);
    }
}

/// Wakes those who were granted something. No lock may be held: what a waker does is not known here.
#[inline]
pub(super) fn wake(wakers: Wakers) {
    wakers.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
impl AsRef<LockTable> for LockTable {
    fn as_ref(&self) -> &LockTable {
        self
    }
}

#[cfg(test)]
impl LockTable {
    /// How many share a collection and are not in the table.
    pub(super) fn listed(&self) -> usize {
        self.sharers.len()
    }

    /// How many keys have an entry.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.entries.lock().len()).sum()
    }

    /// For how many keys there is room without growing.
    pub(super) fn room(&self) -> usize {
        self.shards.iter().map(|shard| shard.entries.lock().capacity()).sum()
    }

    /// How many holders of a key are looked through one by one, and for how many others there is room.
    pub(super) fn holders_room(&self, key: &Key) -> (usize, usize) {
        self.with_entry(self.hash(key), key, |entry| entry.holders.room()).unwrap_or_default()
    }
}
