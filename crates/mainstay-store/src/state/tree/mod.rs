//! An ordered map in memory whose clones cost one reference: the state of the store in memory, and what a store on disk has not
//! written to its file yet.
//!
//! A tree of nodes that are shared between clones and changed in place where they are not shared. Most of the time of a
//! lookup in a large map is memory that is not in a cache, so little of it is touched: a byte of each key's hash, which stands
//! in the node above as well, says where in a leaf to look, and a key and its value are side by side. The upper nodes are
//! few and stay in a cache.

mod branch;
mod leaf;
mod run;
mod way;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::Result;

use super::cursor::{BATCH_BYTES_MAX, Source};
use super::value::Value;
use super::{Key, KeyRange, Order, RANGE_KEYS_AT_ONCE};
use branch::Branch;
use leaf::{Leaf, Tags};
use way::{LAST_WAY, Way};

/// The map. A clone never changes with the original.
#[derive(Debug, Clone)]
pub(crate) struct Tree<V> {
    root: Node<V>,
}

/// What can stand beside a key. The default fills the places of a leaf that are not used.
pub(crate) trait Content: Clone + Default {}

impl<V: Clone + Default> Content for V {}

#[derive(Debug, Clone)]
enum Node<V> {
    Leaf(Arc<Leaf<V>>),
    Branch(Arc<Branch<V>>),
}

/// A node that became too large, cut in two: this is the second half, and what no key in it lies before.
type Split<V> = (Key, Node<V>);

type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

impl<V: Content> Default for Tree<V> {
    fn default() -> Self {
        Self { root: Node::Leaf(Arc::default()) }
    }
}

impl<V: Content> Tree<V> {
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&V> {
        let mut way = Way::default();
        let mut node = &self.root;
        let mut tags = None;
        loop {
            match node {
                Node::Branch(branch) => {
                    let place = branch.place(key);
                    way.push(place);
                    node = &branch.children()[place];
                    tags = Some(branch.tags(place));
                }
                Node::Leaf(leaf) => {
                    // Whoever is going to change the entry asks for this next: fetched with the rest, it is not waited for
                    // later, when others are kept from the tree.
                    std::hint::black_box(Arc::strong_count(leaf));
                    let place = match tags {
                        Some(tags) => leaf.find_by(tags, key)?,
                        None => leaf.find(key)?,
                    };
                    way.push(place);
                    LAST_WAY.set(way);
                    return Some(leaf.value(place));
                }
            }
        }
    }

    /// Sets a key, and returns what it had.
    #[inline]
    pub(crate) fn insert(&mut self, key: Key, value: V) -> Option<V> {
        let way = LAST_WAY.take();
        if self.leads_to(way, &key)
            && let Some(at) = self.value_at(way)
        {
            return Some(std::mem::replace(at, value));
        }
        let mut node = &mut self.root;
        loop {
            match node {
                Node::Branch(branch) => node = Arc::make_mut(branch).child_mut(&key),
                Node::Leaf(leaf) => {
                    let leaf = Arc::make_mut(leaf);
                    match leaf.find(&key) {
                        Some(place) => return Some(leaf.replace(place, value)),
                        None => return self.insert_new(key, value),
                    }
                }
            }
        }
    }

    /// Whether a way leads to the entry of a key.
    #[inline]
    fn leads_to(&self, way: Way, key: &Key) -> bool {
        let Some((last, steps)) = way.steps() else { return false };
        let mut node = &self.root;
        for step in steps {
            let Node::Branch(branch) = node else { return false };
            let Some(child) = branch.children().get(usize::from(*step)) else { return false };
            node = child;
        }
        matches!(node, Node::Leaf(leaf) if leaf.has_at(usize::from(*last), key))
    }

    /// The value at the end of a way that [leads](Tree::leads_to) to one.
    #[inline]
    fn value_at(&mut self, way: Way) -> Option<&mut V> {
        let (last, steps) = way.steps()?;
        let mut node = &mut self.root;
        for step in steps {
            let Node::Branch(branch) = node else { return None };
            node = Arc::make_mut(branch).children_mut().get_mut(usize::from(*step))?;
        }
        let Node::Leaf(leaf) = node else { return None };
        Arc::make_mut(leaf).value_mut(usize::from(*last))
    }

    /// Sets a key that is not there.
    fn insert_new(&mut self, key: Key, value: V) -> Option<V> {
        if let Some((start, second)) = self.root.insert_new(key, value) {
            let first = std::mem::replace(&mut self.root, Node::Leaf(Arc::default()));
            self.root = Node::Branch(Arc::new(Branch::of_two(first, start, second)));
        }
        None
    }

    /// Removes a key, and returns what it had.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<V> {
        // Looking first leaves the nodes shared if there is nothing to remove.
        self.get(key)?;
        let before = self.root.remove(key);
        while let Node::Branch(branch) = &self.root
            && let Some(only) = branch.only_child()
        {
            self.root = only.clone();
        }
        before
    }

    /// Shows the entries of a range in order, or against it, until `visit` has seen enough.
    pub(crate) fn visit<'a>(
        &'a self,
        bounds: Bounds<'_>,
        order: Order,
        mut visit: impl FnMut(&'a Key, &'a V) -> ControlFlow<()>,
    ) {
        let _ = self.root.visit(bounds, order, &mut visit);
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.root, Node::Leaf(leaf) if leaf.len() == 0)
    }

    /// Shows all entries in order, until one of them meets an error.
    pub(crate) fn try_each<E>(&self, mut each: impl FnMut(&Key, &V) -> Result<(), E>) -> Result<(), E> {
        let mut outcome = Ok(());
        self.visit((Bound::Unbounded, Bound::Unbounded), Order::Ascending, |key, value| {
            outcome = each(key, value);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        outcome
    }

    /// The first entry of a range, or the last if against the order.
    pub(crate) fn nearest(&self, bounds: Bounds<'_>, order: Order) -> Option<(&Key, &V)> {
        let mut nearest = None;
        self.visit(bounds, order, |key, value| {
            nearest = Some((key, value));
            ControlFlow::Break(())
        });
        nearest
    }

    /// Removes the entries of a range, and shows each.
    pub(crate) fn remove_range(&mut self, bounds: Bounds<'_>, mut removed: impl FnMut(&Key, V)) {
        loop {
            let mut keys: Vec<Key> = Vec::new();
            self.visit(bounds, Order::Ascending, |key, _| {
                keys.push(key.clone());
                if keys.len() < RANGE_KEYS_AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            if keys.is_empty() {
                return;
            }
            for key in keys {
                if let Some(value) = self.remove(&key) {
                    removed(&key, value);
                }
            }
        }
    }
}

impl Source for Tree<Value> {
    type Value = Bytes;

    fn fill(
        &self,
        range: &KeyRange,
        order: Order,
        entries_max: usize,
        batch: &mut VecDeque<(Bytes, Bytes)>,
    ) -> Result<()> {
        let (mut left, mut bytes, mut outcome) = (entries_max, 0, Ok(()));
        self.visit(range.as_bounds(), order, |key, value| {
            match value.to_bytes() {
                Ok(value) => {
                    bytes += key.len() + value.len();
                    batch.push_back((Bytes::copy_from_slice(key), value));
                }
                Err(error) => outcome = Err(error),
            }
            left = left.saturating_sub(1);
            let is_full = left == 0 || bytes >= BATCH_BYTES_MAX;
            if is_full || outcome.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        outcome
    }
}

impl<V: Clone> Source for Tree<Option<V>> {
    type Value = Option<V>;

    fn fill(
        &self,
        range: &KeyRange,
        order: Order,
        entries_max: usize,
        batch: &mut VecDeque<(Bytes, Option<V>)>,
    ) -> Result<()> {
        let mut left = entries_max;
        self.visit(range.as_bounds(), order, |key, value| {
            batch.push_back((Bytes::copy_from_slice(key), value.clone()));
            left = left.saturating_sub(1);
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        Ok(())
    }
}

impl<V: Content> Node<V> {
    fn insert_new(&mut self, key: Key, value: V) -> Option<Split<V>> {
        match self {
            Node::Leaf(leaf) => Arc::make_mut(leaf).insert_or_split(key, value),
            Node::Branch(branch) => Arc::make_mut(branch).insert_new(key, value),
        }
    }

    /// The tags of a leaf; nothing of a branch.
    fn tags(&self) -> Tags {
        match self {
            Node::Leaf(leaf) => leaf.tags(),
            Node::Branch(_) => Tags::default(),
        }
    }

    fn remove(&mut self, key: &[u8]) -> Option<V> {
        match self {
            Node::Leaf(leaf) => Arc::make_mut(leaf).remove(key),
            Node::Branch(branch) => Arc::make_mut(branch).remove(key),
        }
    }

    /// True if so little is left that it should be joined with a neighbour.
    fn is_sparse(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.is_sparse(),
            Node::Branch(branch) => branch.is_sparse(),
        }
    }

    /// Takes in the node that follows, if both have room in one. `start` is what no key in that lies before.
    fn join(&mut self, start: &Key, next: &Self) -> bool {
        match (self, next) {
            (Node::Leaf(leaf), Node::Leaf(next)) if leaf.has_room_for(next) => {
                Arc::make_mut(leaf).join(next);
                true
            }
            (Node::Branch(branch), Node::Branch(next)) if branch.has_room_for(next) => {
                Arc::make_mut(branch).join(start.clone(), next);
                true
            }
            // All children of a branch are as high as each other.
            _ => false,
        }
    }

    fn visit<'a>(
        &'a self,
        bounds: Bounds<'_>,
        order: Order,
        visit: &mut impl FnMut(&'a Key, &'a V) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Node::Leaf(leaf) => leaf.visit(bounds, order, visit),
            Node::Branch(branch) => branch.visit(bounds, order, visit),
        }
    }
}
