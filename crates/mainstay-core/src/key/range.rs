use std::ops::{Bound, RangeBounds};

/// The keys from a first one on, up to but without a last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key that belongs to the range.
    pub start: Vec<u8>,
    /// The first key behind the range; `None` if it goes on to the end.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// All keys that start with these bytes.
    pub fn starting_with(prefix: Vec<u8>) -> Self {
        // The next bytes in order that do not start with the prefix: its last byte that can grow, grown.
        let end = prefix.iter().rposition(|byte| *byte < u8::MAX).map(|last| {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        });
        Self { start: prefix, end }
    }

    /// True if the key belongs to the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }
}

impl RangeBounds<[u8]> for KeyRange {
    fn start_bound(&self) -> Bound<&[u8]> {
        Bound::Included(&self.start)
    }

    fn end_bound(&self) -> Bound<&[u8]> {
        self.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded)
    }
}
