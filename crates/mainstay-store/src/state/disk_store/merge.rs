use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::Result;

use super::super::cursor::{Cursor, Source};
use super::super::tree::Tree;
use super::super::{KeyRange, Order};
use super::base::Base;
use super::overlay::Overlay;
use super::pool::Pooled;

/// The entries of several layers in order, each layer hiding those below it. It holds one small batch per layer.
#[derive(Debug)]
pub(super) struct MergeScan {
    /// From the top down.
    overlays: Vec<OverlayCursor>,
    base: Cursor<Arc<Base>>,
    order: Order,
    failed: bool,
}

#[derive(Debug)]
struct OverlayCursor {
    entries: Cursor<Tree<Option<Pooled>>>,
    overlay: Overlay,
}

impl MergeScan {
    /// A scan over overlays, from the top down, and the base below them.
    pub(super) fn new<'a>(
        overlays: impl Iterator<Item = &'a Overlay>,
        base: Arc<Base>,
        range: &KeyRange,
        order: Order,
    ) -> Self {
        let overlays = overlays
            .map(|overlay| OverlayCursor {
                entries: Cursor::new(overlay.entries.clone(), range.clone(), order),
                overlay: overlay.clone(),
            })
            .collect();
        Self { overlays, base: Cursor::new(base, range.clone(), order), order, failed: false }
    }

    fn step(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        loop {
            for overlay in &mut self.overlays {
                overlay.entries.advance()?;
            }
            self.base.advance()?;
            let Some((layer, key)) = self.nearest() else { return Ok(None) };
            // The layers above have no entry for the key; an interval that one of them erased hides it all the same.
            if let Some(interval) = self.erased_above(layer, key) {
                match self.overlays.get_mut(layer) {
                    Some(overlay) => skip(&mut overlay.entries, self.order, interval),
                    None => skip(&mut self.base, self.order, interval),
                }
                continue;
            }
            let (key, value) = match self.overlays.get_mut(layer) {
                Some(overlay) => match overlay.entries.next()? {
                    Some(entry) => entry,
                    None => continue,
                },
                None => return self.base.next(),
            };
            for below in layer + 1..=self.overlays.len() {
                self.drop_equal(below, &key)?;
            }
            if let Some(value) = value {
                return Ok(Some((key, value.to_bytes())));
            }
        }
    }

    /// The next key of all layers and the topmost layer that has it; the base is the last layer.
    fn nearest(&self) -> Option<(usize, &Bytes)> {
        let mut nearest: Option<(usize, &Bytes)> = None;
        for layer in 0..=self.overlays.len() {
            let Some(key) = self.front(layer) else { continue };
            let is_nearer = nearest.is_none_or(|(_, other)| match self.order {
                Order::Ascending => key < other,
                Order::Descending => key > other,
            });
            if is_nearer {
                nearest = Some((layer, key));
            }
        }
        nearest
    }

    fn front(&self, layer: usize) -> Option<&Bytes> {
        match self.overlays.get(layer) {
            Some(overlay) => overlay.entries.front(),
            None => self.base.front(),
        }
    }

    fn drop_equal(&mut self, layer: usize, key: &Bytes) -> Result<()> {
        if self.front(layer) == Some(key) {
            match self.overlays.get_mut(layer) {
                Some(overlay) => drop(overlay.entries.next()?),
                None => drop(self.base.next()?),
            }
        }
        Ok(())
    }

    fn erased_above(&self, layer: usize, key: &[u8]) -> Option<(Bytes, Option<Bytes>)> {
        self.overlays[..layer].iter().find_map(|above| {
            let (start, end) = above.overlay.erased_around(key)?;
            Some((Bytes::copy_from_slice(start), end.map(|end| Bytes::copy_from_slice(end))))
        })
    }
}

/// Moves a cursor out of an erased interval by seeking, not by reading what is in it.
fn skip<S: Source>(cursor: &mut Cursor<S>, order: Order, (start, end): (Bytes, Option<Bytes>)) {
    let far = cursor.far_bound().clone();
    let rest = match order {
        Order::Ascending => match end {
            Some(end) => KeyRange { start: Bound::Included(end), end: far },
            None => nothing(),
        },
        Order::Descending => KeyRange { start: far, end: Bound::Excluded(start) },
    };
    cursor.skip_to(rest);
}

/// A range without keys.
fn nothing() -> KeyRange {
    KeyRange { start: Bound::Unbounded, end: Bound::Excluded(Bytes::new()) }
}

impl Iterator for MergeScan {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step().transpose();
        // What follows a failed read is not known to follow; the scan ends.
        self.failed = matches!(step, Some(Err(_)));
        step
    }
}
