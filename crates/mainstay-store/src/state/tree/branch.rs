use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::leaf::Tags;
use super::run::Run;
use super::{Bounds, Content, Node, Split};
use crate::state::{Key, Order};

/// How many children a branch has at most: all that a change copies of it while a snapshot holds it.
pub(super) const CHILDREN_MAX: usize = 64;

/// With fewer children a branch is joined with a neighbour that has room.
const CHILDREN_MIN: usize = CHILDREN_MAX / 4;

/// Nodes side by side, and what lies between them.
///
/// On a cache line of its own, so that those who read it do not wait for those who count who has it.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Branch<V> {
    /// One fewer than there are children: no key in the child with the next number lies before it, and all in those up to
    /// its number do.
    starts: Vec<Key>,
    children: Vec<Node<V>>,
    /// How many bytes all starts have in common at their beginning.
    common: usize,
    /// The bytes of each start behind those, as a number: most searches look no further.
    heads: Vec<u64>,
    /// The tags of each child that is a leaf: of all that a search looks at, this stays in a cache.
    tags: Vec<Tags>,
    run: Run,
}

impl<V: Content> Branch<V> {
    pub(super) fn of_two(first: Node<V>, start: Key, second: Node<V>) -> Self {
        let tags = vec![first.tags(), second.tags()];
        Self::new(vec![start], vec![first, second], tags)
    }

    fn new(starts: Vec<Key>, children: Vec<Node<V>>, tags: Vec<Tags>) -> Self {
        let mut branch = Self { starts, children, common: 0, heads: Vec::new(), tags, run: Run::default() };
        branch.index();
        branch
    }

    /// The tags of a child, if it is a leaf.
    #[inline]
    pub(super) fn tags(&self, place: usize) -> &Tags {
        &self.tags[place]
    }

    #[inline]
    pub(super) fn children(&self) -> &[Node<V>] {
        &self.children
    }

    #[inline]
    pub(super) fn children_mut(&mut self) -> &mut [Node<V>] {
        &mut self.children
    }

    pub(super) fn only_child(&self) -> Option<&Node<V>> {
        match &self.children[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The child in which a key is, if it is there.
    #[inline]
    pub(super) fn child_mut(&mut self, key: &[u8]) -> &mut Node<V> {
        let place = self.place(key);
        &mut self.children[place]
    }

    /// Sets a key that is not there.
    pub(super) fn insert_new(&mut self, key: Key, value: V) -> Option<Split<V>> {
        let place = self.place(&key);
        let split = self.children[place].insert_new(key, value);
        self.tags[place] = self.children[place].tags();
        let (start, second) = split?;
        self.starts.insert(place, start);
        let place = place + 1;
        self.tags.insert(place, second.tags());
        self.children.insert(place, second);
        if self.children.len() <= CHILDREN_MAX {
            self.run.note(place);
            self.index();
            return None;
        }
        let half = CHILDREN_MAX / 2;
        let cut = if self.run.goes_on(place, half) { place } else { half };
        self.run = Run::default();
        let second = Self::new(self.starts.split_off(cut), self.children.split_off(cut), self.tags.split_off(cut));
        let start = self.starts.pop()?;
        self.index();
        Some((start, Node::Branch(Arc::new(second))))
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let place = self.place(key);
        let before = self.children[place].remove(key);
        self.tags[place] = self.children[place].tags();
        if self.children[place].is_sparse() {
            // With the one before it, or else with the one behind it.
            let _ = place.checked_sub(1).is_some_and(|place| self.join_next(place)) || self.join_next(place);
        }
        before
    }

    pub(super) fn is_sparse(&self) -> bool {
        self.children.len() < CHILDREN_MIN
    }

    pub(super) fn has_room_for(&self, next: &Self) -> bool {
        self.children.len() + next.children.len() <= CHILDREN_MAX
    }

    /// Takes in all children of the branch that follows. There is room for them.
    pub(super) fn join(&mut self, start: Key, next: &Self) {
        self.starts.push(start);
        self.starts.extend_from_slice(&next.starts);
        self.children.extend_from_slice(&next.children);
        self.tags.extend_from_slice(&next.tags);
        self.index();
    }

    pub(super) fn visit<'a>(
        &'a self,
        bounds: Bounds<'_>,
        order: Order,
        visit: &mut impl FnMut(&'a Key, &'a V) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let first = match bounds.0 {
            Bound::Included(start) | Bound::Excluded(start) => self.place(start),
            Bound::Unbounded => 0,
        };
        let last = match bounds.1 {
            Bound::Included(end) | Bound::Excluded(end) => self.place(end),
            Bound::Unbounded => self.starts.len(),
        };
        let Some(within) = self.children.get(first..=last) else { return ControlFlow::Continue(()) };
        match order {
            Order::Ascending => within.iter().try_for_each(|child| child.visit(bounds, order, visit)),
            Order::Descending => within.iter().rev().try_for_each(|child| child.visit(bounds, order, visit)),
        }
    }

    /// The number of the child in which a key is, if it is there: that of the starts that do not lie behind it.
    #[inline]
    pub(super) fn place(&self, key: &[u8]) -> usize {
        let Some(first) = self.starts.first() else { return 0 };
        let Some((own, rest)) = key.split_at_checked(self.common) else {
            return self.starts.partition_point(|start| **start <= *key);
        };
        match own.cmp(&first[..self.common]) {
            Ordering::Less => 0,
            Ordering::Greater => self.starts.len(),
            Ordering::Equal => {
                let head = head(key, rest.len());
                let mut place = self.heads.partition_point(|other| *other < head);
                while self.heads.get(place) == Some(&head) && *self.starts[place] <= *key {
                    place += 1;
                }
                place
            }
        }
    }

    /// To be called whenever the starts have changed.
    fn index(&mut self) {
        self.common = match &self.starts[..] {
            // In order, so that what the first and the last have in common all have.
            [first, .., last] => first.iter().zip(&**last).take_while(|(a, b)| a == b).count(),
            _ => 0,
        };
        self.heads.clear();
        self.heads.extend(self.starts.iter().map(|start| head(start, start.len() - self.common)));
    }

    /// Joins a child with the one behind it, if there is one and both have room in one.
    fn join_next(&mut self, place: usize) -> bool {
        let Some(start) = self.starts.get(place) else { return false };
        let (before, after) = self.children.split_at_mut(place + 1);
        let (Some(child), Some(next)) = (before.last_mut(), after.first()) else { return false };
        let joined = child.join(start, next);
        if joined {
            self.tags[place] = child.tags();
            self.starts.remove(place);
            self.children.remove(place + 1);
            self.tags.remove(place + 1);
            self.index();
        }
        joined
    }
}

/// The first eight of the last bytes of a key as a number that is ordered as they are; what is shorter is filled up with
/// zeroes.
#[inline]
fn head(key: &[u8], last: usize) -> u64 {
    let rest = &key[key.len() - last..];
    if let Some(first) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    match key.last_chunk::<8>() {
        // Those before them are moved out: copying so few is a call.
        Some(end) => u64::from_be_bytes(*end).checked_shl(64 - 8 * last as u32).unwrap_or(0),
        None => (0..8).fold(0, |head, place| head << 8 | u64::from(rest.get(place).copied().unwrap_or(0))),
    }
}

#[cfg(test)]
impl<V: Content> Branch<V> {
    /// What the nodes below look like, checked as it goes: how high they are, and how many leaves they have.
    pub(super) fn check(&self) -> (usize, usize) {
        assert_eq!(self.starts.len() + 1, self.children.len());
        assert!((1..=CHILDREN_MAX).contains(&self.children.len()));
        assert!(self.starts.is_sorted_by(|a, b| a < b));
        for start in &self.starts {
            let around = [&start[..start.len().saturating_sub(1)], start, &[&start[..], &[0]].concat()];
            for key in around {
                assert_eq!(self.place(key), self.starts.partition_point(|start| **start <= *key));
            }
        }
        assert_eq!(self.tags, self.children.iter().map(Node::tags).collect::<Vec<_>>());
        let below: Vec<(usize, usize)> = self.children.iter().map(Node::check).collect();
        assert!(below.iter().all(|(height, _)| *height == below[0].0), "all leaves are equally deep");
        (below[0].0 + 1, below.iter().map(|(_, leaves)| leaves).sum())
    }
}
