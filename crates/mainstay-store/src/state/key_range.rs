use std::ops::Bound;

use bytes::Bytes;

/// The keys of a scan.
///
/// ```
/// use mainstay_store::state::KeyRange;
///
/// let users = KeyRange::prefix(b"user/");
/// assert!(users.contains(b"user/7"));
/// assert!(!users.contains(b"user0"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it starts.
    pub start: Bound<Bytes>,
    /// Where it ends.
    pub end: Bound<Bytes>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        Self { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// The keys from `start` and before `end`, or without end.
    pub fn half_open(start: impl Into<Bytes>, end: Option<Bytes>) -> Self {
        Self { start: Bound::Included(start.into()), end: end.map_or(Bound::Unbounded, Bound::Excluded) }
    }

    /// The keys that start with these bytes.
    pub fn prefix(prefix: &[u8]) -> Self {
        Self::half_open(Bytes::copy_from_slice(prefix), prefix_successor(prefix).map(Bytes::from))
    }

    /// True if the key lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        let after_start = match &self.start {
            Bound::Included(start) => key >= start.as_ref(),
            Bound::Excluded(start) => key > start.as_ref(),
            Bound::Unbounded => true,
        };
        let before_end = match &self.end {
            Bound::Included(end) => key <= end.as_ref(),
            Bound::Excluded(end) => key < end.as_ref(),
            Bound::Unbounded => true,
        };
        after_start && before_end
    }

    /// True if the bounds leave no room for any key, also when they are the wrong way round.
    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end)) => start >= end,
            (Bound::Excluded(start), Bound::Included(end)) => start >= end,
            // Nothing sorts before the empty key.
            (Bound::Unbounded, Bound::Excluded(end)) => end.is_empty(),
            (_, Bound::Unbounded) | (Bound::Unbounded, Bound::Included(_)) => false,
        }
    }

    /// The bounds in the form that maps take.
    pub(crate) fn as_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (as_bound(&self.start), as_bound(&self.end))
    }
}

fn as_bound(bound: &Bound<Bytes>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key.as_ref()),
        Bound::Excluded(key) => Bound::Excluded(key.as_ref()),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// The first key after all that start with `prefix`; `None` if there is no such key.
///
/// ```
/// use mainstay_store::state::prefix_successor;
///
/// assert_eq!(prefix_successor(b"ab"), Some(b"ac".to_vec()));
/// assert_eq!(prefix_successor(b"a\xff"), Some(b"b".to_vec()));
/// assert_eq!(prefix_successor(b"\xff"), None);
/// ```
pub fn prefix_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut next = prefix.to_vec();
    while let Some(last) = next.pop() {
        if let Some(larger) = last.checked_add(1) {
            next.push(larger);
            return Some(next);
        }
    }
    None
}
