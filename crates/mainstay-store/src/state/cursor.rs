//! Reading a layer in order, a bounded batch at a time, so that a scan owns what it reads from and holds little.

use std::collections::VecDeque;
use std::ops::Bound;

use bytes::Bytes;
use mainstay_core::Result;

use super::{KeyRange, Order};

/// How many entries the first batch of a scan has: many scans want only a few.
const BATCH_ENTRIES_FIRST: usize = 8;

/// How many entries a batch has at most.
const BATCH_ENTRIES_MAX: usize = 256;

/// How many bytes a batch has at most, unless a single entry is longer.
pub(crate) const BATCH_BYTES_MAX: usize = 256 << 10;

/// What a [`Cursor`] reads from.
pub(crate) trait Source {
    /// What stands beside a key.
    type Value;

    /// Appends up to `entries_max` entries from the front of a range that is not empty (from its back, if descending).
    fn fill(
        &self,
        range: &KeyRange,
        order: Order,
        entries_max: usize,
        batch: &mut VecDeque<(Bytes, Self::Value)>,
    ) -> Result<()>;
}

/// A position in a [`Source`] that moves in one direction.
#[derive(Debug)]
pub(crate) struct Cursor<S: Source> {
    source: S,
    /// What lies behind the batch.
    rest: KeyRange,
    order: Order,
    batch: VecDeque<(Bytes, S::Value)>,
    entries_next: usize,
    exhausted: bool,
}

impl<S: Source> Cursor<S> {
    pub(crate) fn new(source: S, range: KeyRange, order: Order) -> Self {
        let exhausted = range.is_empty();
        Self { source, rest: range, order, batch: VecDeque::new(), entries_next: BATCH_ENTRIES_FIRST, exhausted }
    }

    /// Reads on if it has to, so that [`front`](Cursor::front) knows what is next.
    pub(crate) fn advance(&mut self) -> Result<()> {
        if self.batch.is_empty() && !self.exhausted {
            self.refill()?;
        }
        Ok(())
    }

    /// The key in front, after [`advance`](Cursor::advance).
    pub(crate) fn front(&self) -> Option<&Bytes> {
        self.batch.front().map(|(key, _)| key)
    }

    /// Takes the entry in front.
    pub(crate) fn next(&mut self) -> Result<Option<(Bytes, S::Value)>> {
        self.advance()?;
        Ok(self.batch.pop_front())
    }

    /// Moves on to the first key in `rest`, which lies within what is left of the range.
    pub(crate) fn skip_to(&mut self, rest: KeyRange) {
        while self.batch.front().is_some_and(|(key, _)| !rest.contains(key)) {
            self.batch.pop_front();
        }
        if self.batch.is_empty() && !self.exhausted {
            self.exhausted = rest.is_empty();
            self.rest = rest;
        }
    }

    /// Where the range ends in the direction of the cursor.
    pub(crate) fn far_bound(&self) -> &Bound<Bytes> {
        match self.order {
            Order::Ascending => &self.rest.end,
            Order::Descending => &self.rest.start,
        }
    }

    fn refill(&mut self) -> Result<()> {
        if let Err(error) = self.source.fill(&self.rest, self.order, self.entries_next, &mut self.batch) {
            // A caller that goes on all the same would meet the same entries again.
            self.batch.clear();
            self.exhausted = true;
            return Err(error);
        }
        self.entries_next = (self.entries_next * 2).min(BATCH_ENTRIES_MAX);
        let Some((last, _)) = self.batch.back() else {
            self.exhausted = true;
            return Ok(());
        };
        match self.order {
            Order::Ascending => self.rest.start = Bound::Excluded(last.clone()),
            Order::Descending => self.rest.end = Bound::Excluded(last.clone()),
        }
        self.exhausted = self.rest.is_empty();
        Ok(())
    }
}
