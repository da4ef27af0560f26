use std::collections::{BTreeMap, BTreeSet};

use super::Canonical;
use super::canonical::{Entry, canonical};
use crate::contract::fault::Fault;

/// By what two variants of an enum are told apart from outside, where its tag is hidden in serde's buffer or it has none.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    /// The names that the type writes.
    names: BTreeSet<Canonical>,
    /// The values that may be tags, by their names: texts of which the type does not take any.
    tags: BTreeMap<Canonical, Canonical>,
}

impl Shape {
    /// The shape of a map with these entries, of which those with the names `tags` may be tags.
    pub(super) fn of<'n>(
        bytes: &[u8],
        entries: &[Entry],
        tags: impl Iterator<Item = &'n Canonical>,
    ) -> Result<Self, Fault> {
        let mut shape = Self { names: names(entries), tags: BTreeMap::new() };
        for tag in tags {
            if let Some(entry) = entries.iter().find(|entry| entry.name == *tag) {
                shape.tags.insert(tag.clone(), canonical(bytes, entry.value)?);
            }
        }
        Ok(shape)
    }

    /// The shape of a map with these entries, which is to be compared with this one.
    pub(super) fn now(&self, bytes: &[u8], entries: &[Entry]) -> Result<Self, Fault> {
        Self::of(bytes, entries, self.tags.keys())
    }

    /// True unless the two must be different variants. Fields may be left out when they are empty, so one may have
    /// fewer names than the other; but not together with another tag. Another tag alone may be any enum's field.
    pub(super) fn fits(&self, new: &Self) -> bool {
        self.names == new.names
            || self.tags == new.tags && (self.names.is_subset(&new.names) || new.names.is_subset(&self.names))
    }
}

pub(super) fn names(entries: &[Entry]) -> BTreeSet<Canonical> {
    entries.iter().map(|entry| entry.name.clone()).collect()
}
