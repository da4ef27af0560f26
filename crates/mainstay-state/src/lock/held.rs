use hashbrown::HashTable;
use mainstay_replica::Key;
use smallvec::SmallVec;

use super::LockMode;

/// How many locks an owner has without an allocation: those of a transaction that touches a key.
const HELD_IN_PLACE: usize = 1;

/// How many locks are looked through one by one, before an index is made for them.
const SCANNED_MAX: usize = 16;

/// A lock that an owner holds.
#[derive(Debug)]
pub(super) struct HeldLock {
    pub(super) hash: u64,
    pub(super) key: Key,
    pub(super) mode: LockMode,
}

/// All locks of one owner, in the order in which it got them. To look one up is O(1) with any number of them.
#[derive(Debug, Default)]
pub(super) struct Held {
    locks: SmallVec<[HeldLock; HELD_IN_PLACE]>,
    /// Where each lock is in the list, once there are more than `SCANNED_MAX`.
    index: Option<Box<HashTable<usize>>>,
}

impl Held {
    #[inline]
    pub(super) fn get(&self, hash: u64, key: &Key) -> Option<&HeldLock> {
        self.position(hash, key).map(|position| &self.locks[position])
    }

    #[inline]
    pub(super) fn get_mut(&mut self, hash: u64, key: &Key) -> Option<&mut HeldLock> {
        self.position(hash, key).map(|position| &mut self.locks[position])
    }

    /// Adds a lock that is not among them.
    #[inline]
    pub(super) fn push(&mut self, lock: HeldLock) {
        self.locks.push(lock);
        if self.locks.len() > SCANNED_MAX {
            self.extend_index();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.locks.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HeldLock> {
        self.locks.iter()
    }

    /// Forgets all of them.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.locks.clear();
        if self.index.is_some() {
            // What was large once does not stay so.
            *self = Self::default();
        }
    }

    #[inline]
    fn position(&self, hash: u64, key: &Key) -> Option<usize> {
        let is_it = |lock: &HeldLock| lock.hash == hash && lock.key == *key;
        if self.locks.len() <= SCANNED_MAX {
            return self.locks.iter().position(is_it);
        }
        self.index.as_ref()?.find(hash, |position| is_it(&self.locks[*position])).copied()
    }

    #[cold]
    fn extend_index(&mut self) {
        let index = self.index.get_or_insert_default();
        for position in index.len()..self.locks.len() {
            index.insert_unique(self.locks[position].hash, position, |position| self.locks[*position].hash);
        }
    }
}
