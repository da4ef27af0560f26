use std::ops::{Bound, ControlFlow, Deref, DerefMut};
use std::sync::Arc;

use super::run::Run;
use super::{Bounds, Content, Node, Split};
use crate::state::{Key, Order};

/// How many entries a leaf has at most: all that a change copies while a snapshot holds the leaf.
pub(super) const LEAF_ENTRIES_MAX: usize = 32;

/// With fewer entries a leaf is joined with a neighbour that has room.
const LEAF_ENTRIES_MIN: usize = LEAF_ENTRIES_MAX / 4;

/// A byte of the hash of each key of a leaf: what differs there is another key.
pub(super) type Tags = [u8; LEAF_ENTRIES_MAX];

/// Entries side by side, in the order of their keys.
///
/// What every search looks at comes first, beside what counts who has the leaf.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub(super) struct Leaf<V> {
    tags: Tags,
    /// How many of the places are used, from the first on.
    len: u8,
    run: Run,
    entries: Entries<V>,
}

/// From the start of a cache line on, so that an entry of 64 bytes is on one.
#[derive(Debug, Clone, Default)]
#[repr(align(64))]
struct Entries<V>([Entry<V>; LEAF_ENTRIES_MAX]);

impl<V> Deref for Entries<V> {
    type Target = [Entry<V>; LEAF_ENTRIES_MAX];

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<V> DerefMut for Entries<V> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

#[derive(Debug, Clone, Default)]
struct Entry<V> {
    key: Key,
    value: V,
}

impl<V: Content> Leaf<V> {
    #[inline]
    pub(super) fn value(&self, place: usize) -> &V {
        &self.entries[place].value
    }

    #[inline]
    pub(super) fn value_mut(&mut self, place: usize) -> Option<&mut V> {
        self.entries.get_mut(place).map(|entry| &mut entry.value)
    }

    /// Whether a key is at a place.
    #[inline]
    pub(super) fn has_at(&self, place: usize, key: &Key) -> bool {
        self.used().get(place).is_some_and(|entry| entry.key == *key)
    }

    #[inline]
    pub(super) fn replace(&mut self, place: usize, value: V) -> V {
        std::mem::replace(&mut self.entries[place].value, value)
    }

    fn is_full(&self) -> bool {
        self.len() == LEAF_ENTRIES_MAX
    }

    /// Sets a key that is not there.
    pub(super) fn insert_or_split(&mut self, key: Key, value: V) -> Option<Split<V>> {
        let place = self.place(&key);
        if !self.is_full() {
            self.insert_at(place, key, value);
            return None;
        }
        let half = LEAF_ENTRIES_MAX / 2;
        let cut = if self.run.goes_on(place, half) { place } else { half };
        let mut second = self.split_off(cut);
        if place < cut {
            self.insert_at(place, key, value);
        } else {
            second.insert_at(place - cut, key, value);
        }
        let start = second.entries[0].key.clone();
        Some((start, Node::Leaf(Arc::new(second))))
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let place = self.find(key)?;
        let len = self.len();
        let before = std::mem::take(&mut self.entries[place]);
        self.entries[place..len].rotate_left(1);
        self.tags.copy_within(place + 1..len, place);
        self.set_len(len - 1);
        Some(before.value)
    }

    pub(super) fn is_sparse(&self) -> bool {
        self.len() < LEAF_ENTRIES_MIN
    }

    pub(super) fn has_room_for(&self, next: &Self) -> bool {
        self.len() + next.len() <= LEAF_ENTRIES_MAX
    }

    /// Takes in all entries of the leaf that follows. There is room for them.
    pub(super) fn join(&mut self, next: &Self) {
        let (start, end) = (self.len(), self.len() + next.len());
        self.entries[start..end].clone_from_slice(next.used());
        self.tags[start..end].copy_from_slice(&next.tags[..next.len()]);
        self.set_len(end);
    }

    pub(super) fn visit<'a>(
        &'a self,
        bounds: Bounds<'_>,
        order: Order,
        visit: &mut impl FnMut(&'a Key, &'a V) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let used = self.used();
        let start = match bounds.0 {
            Bound::Included(start) => used.partition_point(|entry| *entry.key < *start),
            Bound::Excluded(start) => used.partition_point(|entry| *entry.key <= *start),
            Bound::Unbounded => 0,
        };
        let end = match bounds.1 {
            Bound::Included(end) => used.partition_point(|entry| *entry.key <= *end),
            Bound::Excluded(end) => used.partition_point(|entry| *entry.key < *end),
            Bound::Unbounded => used.len(),
        };
        let Some(within) = used.get(start..end) else { return ControlFlow::Continue(()) };
        match order {
            Order::Ascending => within.iter().try_for_each(|entry| visit(&entry.key, &entry.value)),
            Order::Descending => within.iter().rev().try_for_each(|entry| visit(&entry.key, &entry.value)),
        }
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    fn used(&self) -> &[Entry<V>] {
        &self.entries[..self.len()]
    }

    pub(super) fn tags(&self) -> Tags {
        self.tags
    }

    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        self.find_by(&self.tags, key)
    }

    /// Finds a key by the tags of this leaf, wherever they are at hand.
    #[inline]
    pub(super) fn find_by(&self, tags: &Tags, key: &[u8]) -> Option<usize> {
        const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
        const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
        let wanted = LOW * u64::from(tag(key));
        for (number, word) in tags.as_chunks::<8>().0.iter().enumerate() {
            // The highest bit of every byte that is the tag, and now and then of one that is not.
            let differences = u64::from_le_bytes(*word) ^ wanted;
            let mut places = differences.wrapping_sub(LOW) & !differences & HIGH;
            while places != 0 {
                let place = number * 8 + places.trailing_zeros() as usize / 8;
                // In this order nothing waits for the length, which may be farther away than the tags.
                if *self.entries[place].key == *key {
                    return (place < self.len()).then_some(place);
                }
                places &= places - 1;
            }
        }
        None
    }

    /// Where a key belongs that is not there.
    fn place(&self, key: &Key) -> usize {
        self.used().partition_point(|entry| entry.key < *key)
    }

    /// There is room.
    fn insert_at(&mut self, place: usize, key: Key, value: V) {
        let len = self.len();
        self.tags.copy_within(place..len, place + 1);
        self.tags[place] = tag(&key);
        self.entries[place..=len].rotate_right(1);
        self.entries[place] = Entry { key, value };
        self.run.note(place);
        self.set_len(len + 1);
    }

    fn split_off(&mut self, cut: usize) -> Self {
        let len = self.len();
        let mut second = Leaf::default();
        for (to, from) in second.entries.iter_mut().zip(&mut self.entries[cut..len]) {
            std::mem::swap(to, from);
        }
        second.tags[..len - cut].copy_from_slice(&self.tags[cut..len]);
        second.set_len(len - cut);
        self.set_len(cut);
        self.run = Run::default();
        second
    }

    fn set_len(&mut self, len: usize) {
        // At most LEAF_ENTRIES_MAX.
        self.len = len as u8;
    }
}

/// A byte that depends on all of a key.
#[inline]
fn tag(key: &[u8]) -> u8 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FACTOR).rotate_right(29);
    let (words, rest) = key.as_chunks::<8>();
    let hash = words.iter().fold(key.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let last = match key.last_chunk::<8>() {
        // Some of them once more: a word is read faster than what is left of one.
        Some(last) => u64::from_le_bytes(*last),
        None => rest.iter().fold(0, |last, byte| last << 8 | u64::from(*byte)),
    };
    (mix(hash, last) >> 24) as u8
}
