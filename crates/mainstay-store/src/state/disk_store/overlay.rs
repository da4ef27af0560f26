use std::convert::Infallible;
use std::ops::Bound;

use bytes::Bytes;

use super::super::prepared::Layer;
use super::super::tree::Tree;
use super::super::{Key, KeyRange, Mark, Order};
use super::pool::{Pool, Pooled};

/// What was applied on top of a lower layer: entries, and intervals of keys that the layer below has no say in.
///
/// A clone shares everything and takes constant time. The order of precedence is entry, erased interval, lower layer;
/// a range is dropped by removing the overlay's own entries in it and noting the interval, however many entries the
/// lower layer has there.
#[derive(Debug, Clone, Default)]
pub(super) struct Overlay {
    /// Values, and `None` for keys that were removed.
    pub(super) entries: Tree<Option<Pooled>>,
    /// Start and end (`None`: no end) of the intervals, which neither overlap nor touch.
    pub(super) erased: Tree<Option<Key>>,
    /// The mark of the last apply.
    pub(super) mark: Mark,
    /// What the writes counted for in memory.
    pub(super) cost_bytes: u64,
}

/// What a layer knows of a key.
pub(super) enum Known<'a> {
    Value(&'a Pooled),
    Absent,
    /// The layer below must be asked.
    Unknown,
}

impl Overlay {
    /// An overlay in which nothing has happened since a mark.
    pub(super) fn at(mark: Mark) -> Self {
        Self { mark, ..Self::default() }
    }

    pub(super) fn is_untouched(&self) -> bool {
        self.entries.is_empty() && self.erased.is_empty()
    }

    pub(super) fn lookup(&self, key: &[u8]) -> Known<'_> {
        match self.entries.get(key) {
            Some(Some(value)) => Known::Value(value),
            Some(None) => Known::Absent,
            None if self.erased_around(key).is_some() => Known::Absent,
            None => Known::Unknown,
        }
    }

    /// The erased interval that a key lies in.
    pub(super) fn erased_around(&self, key: &[u8]) -> Option<(&Key, Option<&Key>)> {
        if self.erased.is_empty() {
            return None;
        }
        let (start, end) = self.erased_before(key)?;
        let end = end.as_ref();
        end.is_none_or(|end| key < &**end).then_some((start, end))
    }

    /// Shows the erased intervals in order.
    pub(super) fn each_erased(&self, mut each: impl FnMut(&[u8], Option<&[u8]>)) {
        let Ok(()) = self.erased.try_each(|start, end| {
            each(start, end.as_deref());
            Ok::<_, Infallible>(())
        });
    }

    /// The last erased interval that does not start behind a key.
    fn erased_before(&self, key: &[u8]) -> Option<(&Key, &Option<Key>)> {
        self.erased.nearest((Bound::Unbounded, Bound::Included(key)), Order::Descending)
    }

    fn put(&mut self, key: Key, value: Pooled) {
        self.entries.insert(key, Some(value));
    }

    fn remove(&mut self, key: &[u8]) {
        if self.erased_around(key).is_some() {
            self.entries.remove(key);
        } else {
            self.entries.insert(Key::from(key), None);
        }
    }

    pub(super) fn remove_range(&mut self, start: &[u8], end: Option<&[u8]>) {
        if end.is_some_and(|end| end <= start) {
            return;
        }
        let range = KeyRange::half_open(Bytes::copy_from_slice(start), end.map(Bytes::copy_from_slice));
        self.entries.remove_range(range.as_bounds(), |_, _| ());

        let mut start = Key::from(start);
        let mut end = end.map(Key::from);
        if let Some((before, before_end)) = self.erased_before(&start)
            && before_end.as_ref().is_none_or(|before_end| *before_end >= start)
        {
            start = before.clone();
        }
        // Each turn absorbs one interval that starts inside the growing one or touches it.
        while let Some((other, other_end)) =
            self.erased.nearest((Bound::Included(&start), Bound::Unbounded), Order::Ascending)
            && end.as_ref().is_none_or(|end| other <= end)
        {
            let (other, other_end) = (other.clone(), other_end.clone());
            end = match (end, other_end) {
                (Some(end), Some(other_end)) => Some(end.max(other_end)),
                _ => None,
            };
            self.erased.remove(&other);
        }
        self.erased.insert(start, end);
    }
}

/// An overlay that writes are applied to, and where their values are kept.
pub(super) struct Intake<'a> {
    pub(super) overlay: &'a mut Overlay,
    pub(super) pool: &'a mut Pool,
}

impl Layer for Intake<'_> {
    fn put(&mut self, key: Key, value: &[u8]) {
        self.overlay.put(key, self.pool.keep(value));
    }

    fn remove(&mut self, key: &[u8]) {
        self.overlay.remove(key);
    }

    fn remove_range(&mut self, start: &[u8], end: Option<&[u8]>) {
        self.overlay.remove_range(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay(ranges: &[(&str, Option<&str>)]) -> Vec<(String, Option<String>)> {
        let mut overlay = Overlay::default();
        for (start, end) in ranges {
            overlay.remove_range(start.as_bytes(), end.map(str::as_bytes));
        }
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        let mut intervals = Vec::new();
        overlay.each_erased(|start, end| intervals.push((text(start), end.map(text))));
        intervals
    }

    fn interval(start: &str, end: Option<&str>) -> (String, Option<String>) {
        (start.to_owned(), end.map(str::to_owned))
    }

    #[test]
    fn intervals_that_meet_become_one() {
        assert_eq!(
            overlay(&[("b", Some("d")), ("f", Some("h"))]),
            [interval("b", Some("d")), interval("f", Some("h"))]
        );
        assert_eq!(overlay(&[("b", Some("d")), ("d", Some("f"))]), [interval("b", Some("f"))]);
        assert_eq!(overlay(&[("d", Some("f")), ("b", Some("d"))]), [interval("b", Some("f"))]);
        assert_eq!(overlay(&[("b", Some("c")), ("d", Some("e")), ("a", Some("z"))]), [interval("a", Some("z"))]);
        assert_eq!(overlay(&[("b", None), ("c", Some("d"))]), [interval("b", None)]);
        assert_eq!(overlay(&[("b", Some("c")), ("e", Some("f")), ("c", None)]), [interval("b", None)]);
        assert_eq!(overlay(&[("b", Some("f")), ("c", Some("d"))]), [interval("b", Some("f"))]);
    }

    #[test]
    fn an_inverted_range_erases_nothing() {
        assert_eq!(overlay(&[("d", Some("b")), ("c", Some("c"))]), []);
    }

    #[test]
    fn a_put_into_an_erased_interval_shows_and_goes() {
        let mut overlay = Overlay::default();
        overlay.remove_range(b"a", Some(b"c"));
        overlay.put(Key::from(&b"b"[..]), Pool::default().keep(b"1"));
        assert!(matches!(overlay.lookup(b"b"), Known::Value(_)));
        assert!(matches!(overlay.lookup(b"a"), Known::Absent));
        assert!(matches!(overlay.lookup(b"c"), Known::Unknown));
        overlay.remove(b"b");
        assert!(overlay.entries.is_empty(), "a removal that the interval implies needs no entry");
        assert!(matches!(overlay.lookup(b"b"), Known::Absent));
    }
}
