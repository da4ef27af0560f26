use std::collections::BTreeMap;
use std::ops::Bound;

use mainstay_replica::Key;
use smallvec::SmallVec;

use crate::writes::Write;

/// How many entries are looked through one by one, before a map is made for them.
const FEW_MAX: usize = 8;

/// How many entries there are without an allocation: more would make every transaction larger, and it is moved about.
const IN_PLACE: usize = 1;

/// The entries that a transaction has changed, in the order of their keys.
#[derive(Default)]
pub(crate) struct Written {
    /// In order; empty once there are more than `FEW_MAX`.
    few: SmallVec<[(Key, Write); IN_PLACE]>,
    /// All of them, once there are more.
    #[allow(clippy::box_collection, reason = "most transactions never have them, and are moved about")]
    many: Option<Box<BTreeMap<Key, Write>>>,
}

impl Written {
    pub(crate) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.as_ref().is_none_or(|many| many.is_empty())
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Write> {
        match self.few.iter().find(|(other, _)| other == key) {
            Some((_, write)) => Some(write),
            None => self.many.as_ref()?.get(key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut Write> {
        match self.few.iter_mut().find(|(other, _)| other == key) {
            Some((_, write)) => Some(write),
            None => self.many.as_mut()?.get_mut(key),
        }
    }

    /// Adds a key that is not there.
    pub(crate) fn insert(&mut self, key: Key, write: Write) {
        if self.many.is_none() && self.few.len() < FEW_MAX {
            let place = self.few.partition_point(|(other, _)| *other < key);
            self.few.insert(place, (key, write));
            return;
        }
        let many = self.many.get_or_insert_default();
        many.extend(self.few.drain(..));
        many.insert(key, write);
    }

    /// The entry, if there is just one.
    pub(crate) fn only(&self) -> Option<(&Key, &Write)> {
        match &self.few[..] {
            [(key, write)] => Some((key, write)),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        self.few.retain(|(other, _)| other != key);
        if let Some(many) = &mut self.many {
            many.remove(key);
        }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Key, &Write)> {
        self.few.iter().map(|(key, write)| (key, write)).chain(self.many.iter().flat_map(|many| many.iter()))
    }

    /// Those whose keys lie from `start` on and before `end`.
    pub(crate) fn range(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&Key, &Write)> + use<'_> {
        let first = self.few.partition_point(|(key, _)| **key < *start);
        let last = end.map_or(self.few.len(), |end| self.few.partition_point(|(key, _)| **key < *end));
        let few = self.few[first..last.max(first)].iter().map(|(key, write)| (key, write));
        let many = self
            .many
            .as_ref()
            .map(|many| many.range::<[u8], _>((Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded))));
        few.chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn short(key: u8) -> Key {
        Key::from(&[key][..])
    }

    proptest! {
        #[test]
        fn it_is_an_ordered_map(keys in proptest::collection::vec(0..40_u8, 0..30), gone in 0..40_u8, a in 0..40_u8, b in 0..40_u8) {
            let (mut written, mut model) = (Written::default(), std::collections::BTreeSet::new());
            for key in keys {
                prop_assert_eq!(written.get(&short(key)).is_some(), !model.insert(key));
                if written.get_mut(&short(key)).is_none() {
                    written.insert(short(key), Write { old: None, new: None });
                }
            }
            written.remove(&short(gone));
            model.remove(&gone);
            prop_assert_eq!(written.is_empty(), model.is_empty());
            let all: Vec<u8> = written.iter().map(|(key, _)| key[0]).collect();
            prop_assert_eq!(&all, &model.iter().copied().collect::<Vec<_>>());
            let (start, end) = (a.min(b), a.max(b));
            let some: Vec<u8> = written.range(&[start], Some(&[end])).rev().map(|(key, _)| key[0]).collect();
            prop_assert_eq!(some, model.range(start..end).rev().copied().collect::<Vec<_>>());
            let rest: Vec<u8> = written.range(&[start], None).map(|(key, _)| key[0]).collect();
            prop_assert_eq!(rest, model.range(start..).copied().collect::<Vec<_>>());
        }
    }
}
