use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::task::Waker;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table;
use mainstay_core::random;
use parking_lot::{Mutex, MutexGuard};
use rand::Rng as _;

use super::TransactionId;
use super::entry::{Entry, Wakers};
use super::holders::Holder;
use super::key::LockKey;
use super::owner::LockOwner;
use super::request::Request;
use super::waits::Waits;

/// In how many parts a table is cut, so that transactions of different keys do not meet. A power of two.
const SHARDS: usize = 64;

/// A shard that lost most of its entries keeps room for this many.
const SHARD_ROOM_MIN: usize = 64;

/// All locks of one partition.
///
/// Only keys that are held have an entry, so that its memory is bounded by the locks that are held.
#[derive(Debug, Clone)]
pub(crate) struct LockTable {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Seeded, so that nobody who chooses keys can choose them to meet in one bucket.
    hasher: FixedState,
    shards: [Shard; SHARDS],
    /// Never locked while a shard is: first this, then the shard.
    waits: Mutex<Waits>,
}

/// A part of the table, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    entries: Mutex<HashTable<Entry>>,
}

impl LockTable {
    pub(crate) fn new() -> Self {
        let hasher = FixedState::with_seed(random::rng().next_u64());
        let shards = std::array::from_fn(|_| Shard::default());
        Self { inner: Arc::new(Inner { hasher, shards, waits: Mutex::default() }) }
    }

    /// The one through which a transaction takes its locks. No two that live at the same time may have the same id.
    pub(crate) fn owner(&self, id: TransactionId) -> LockOwner {
        LockOwner::new(self.clone(), id)
    }

    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.inner.hasher.build_hasher();
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

    #[inline]
    pub(super) fn release(&self, hash: u64, key: &LockKey, id: TransactionId) {
        wake(self.change(hash, key, |entry| entry.release(id)));
    }

    /// Does what may free the key, and forgets the key if it did. To be woken are those who got it.
    #[inline]
    pub(super) fn change(&self, hash: u64, key: &LockKey, change: impl FnOnce(&mut Entry) -> Wakers) -> Wakers {
        let mut entries = self.shard(hash);
        let Ok(mut found) = entries.find_entry(hash, |entry| entry.is_for(hash, key)) else { return Wakers::new() };
        let wakers = change(found.get_mut());
        if found.get().is_unused() {
            found.remove();
            // Each time costs what it frees, and at least as many were removed since the last time.
            if entries.capacity() > SHARD_ROOM_MIN && entries.len() * 8 < entries.capacity() {
                let room = (entries.len() * 2).max(SHARD_ROOM_MIN / 2);
                entries.shrink_to(room, |entry| entry.hash);
            }
        }
        wakers
    }

    /// Looks at a key, if anyone holds it.
    pub(super) fn with_entry<T>(&self, hash: u64, key: &LockKey, look: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.shard(hash).find_mut(hash, |entry| entry.is_for(hash, key)).map(look)
    }

    pub(super) fn waits(&self) -> MutexGuard<'_, Waits> {
        self.inner.waits.lock()
    }

    #[inline]
    fn shard(&self, hash: u64) -> MutexGuard<'_, HashTable<Entry>> {
        // Bits that the hash table of the shard uses for neither the bucket nor the tag.
        self.inner.shards[(hash >> 40) as usize % SHARDS].entries.lock()
    }
}

/// Wakes those who were granted something. No lock may be held: what a waker does is not known here.
#[inline]
pub(super) fn wake(wakers: Wakers) {
    wakers.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
use bytes::Bytes;

#[cfg(test)]
impl LockTable {
    /// How many keys have an entry.
    pub(super) fn len(&self) -> usize {
        self.inner.shards.iter().map(|shard| shard.entries.lock().len()).sum()
    }

    /// For how many keys there is room without growing.
    pub(super) fn room(&self) -> usize {
        self.inner.shards.iter().map(|shard| shard.entries.lock().capacity()).sum()
    }

    /// How many holders of a key are looked through one by one, and for how many others there is room.
    pub(super) fn holders_room(&self, key: &Bytes) -> (usize, usize) {
        self.with_entry(self.hash(key), &LockKey::new(key), |entry| entry.holders.room()).unwrap_or_default()
    }
}
