use std::fmt;

use mainstay_core::SequenceNumber;
use mainstay_replica::Key;

use crate::layout::{self, CollectionId, ENTRY_PREFIX_BYTES};

/// Where an item stands in its queue: by the commit that put it there, then by its number in that. No item ever comes
/// to stand before one that is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) commit: SequenceNumber,
    number: u32,
}

const STAMP_BYTES: usize = 8;
const NUMBER_BYTES: usize = 4;

impl Place {
    /// The key under which the item is stored.
    pub(crate) fn key(self, id: CollectionId) -> Key {
        Key::concat(&[&layout::entry_prefix(id), &self.commit.0.to_be_bytes(), &self.number.to_be_bytes()])
    }

    /// What a key says; `None` if it is not one of an item.
    pub(crate) fn parse(key: &[u8]) -> Option<Self> {
        let (stamp, number) = key.get(ENTRY_PREFIX_BYTES..)?.split_first_chunk::<STAMP_BYTES>()?;
        let number: [u8; NUMBER_BYTES] = number.try_into().ok()?;
        let commit = SequenceNumber(u64::from_be_bytes(*stamp));
        Some(Self { commit, number: u32::from_be_bytes(number) })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item {} of commit {}", self.number, self.commit.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_where_an_item_stands_and_sorts_like_it() {
        let place = |commit, number| Place { commit: SequenceNumber(commit), number };
        let places = [place(1, 0), place(1, 1), place(1, 256), place(2, 0), place(u64::MAX, u32::MAX)];
        let keys: Vec<Key> = places.iter().map(|place| place.key(CollectionId(7))).collect();
        assert!(keys.is_sorted());
        assert_eq!(keys.iter().map(|key| Place::parse(key)).collect::<Option<Vec<_>>>().as_deref(), Some(&places[..]));
        assert_eq!(Place::parse(&keys[0][..keys[0].len() - 1]), None);
        assert_eq!(Place::parse(&[&keys[0][..], &[0]].concat()), None);
        assert_eq!(Place::parse(&[]), None);
    }
}
