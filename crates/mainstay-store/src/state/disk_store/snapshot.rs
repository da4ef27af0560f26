use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mainstay_core::Result;

use super::super::cursor::Cursor;
use super::super::export::ChunkWriter;
use super::super::{Counts, Export, KeyRange, Mark, Order, Scan, StateSnapshot};
use super::base::Base;
use super::difference::Difference;
use super::merge::MergeScan;
use super::overlay::{Known, Overlay};

/// The three layers of a [`DiskStore`](super::DiskStore) at one moment.
#[derive(Debug, Clone)]
pub(super) struct Layers {
    /// What was applied since the last checkpoint began.
    pub(super) active: Overlay,
    /// What a checkpoint is writing, or has failed to write.
    pub(super) frozen: Option<Arc<Overlay>>,
    /// What is in the file.
    pub(super) base: Arc<Base>,
}

impl Layers {
    /// The overlays, from the top down.
    fn overlays(&self) -> impl Iterator<Item = &Overlay> {
        std::iter::once(&self.active).chain(self.frozen.as_deref())
    }

    /// What the overlays know of a key.
    pub(super) fn lookup(&self, key: &[u8]) -> Known<'_> {
        self.overlays()
            .map(|overlay| overlay.lookup(key))
            .find(|known| !matches!(known, Known::Unknown))
            .unwrap_or(Known::Unknown)
    }

    fn is_erased(&self, key: &[u8]) -> bool {
        self.overlays().any(|overlay| overlay.erased_around(key).is_some())
    }

    /// The counts of the base and the difference that the overlays make to them.
    ///
    /// Reads the base once for every key in the overlays and for every entry in an interval that they erased: the cost
    /// grows with the changes since the last checkpoint, so that applying them needs to read nothing.
    fn counts(&self) -> Result<Counts> {
        let mut difference = Difference::default();
        for interval in self.erased_intervals() {
            let mut entries = Cursor::new(self.base.clone(), interval, Order::Ascending);
            while let Some((key, value)) = entries.next()? {
                difference.remove(key.len(), value.len());
            }
        }
        for (layer, overlay) in self.overlays().enumerate() {
            overlay.entries.try_each(|key, _| {
                if self.overlays().take(layer).any(|above| above.entries.get(key).is_some()) {
                    return Ok(());
                }
                if !self.is_erased(key)
                    && let Some(value_len) = self.base.value_len(key)?
                {
                    difference.remove(key.len(), value_len);
                }
                if let Known::Value(value) = self.lookup(key) {
                    difference.add(key.len(), value.as_slice().len());
                }
                Ok::<_, mainstay_core::Error>(())
            })?;
        }
        self.base.counts_with(&difference)
    }

    /// The intervals of the base that any overlay erased, without overlap.
    fn erased_intervals(&self) -> Vec<KeyRange> {
        let mut all = self.active.clone();
        if let Some(frozen) = &self.frozen {
            frozen.each_erased(|start, end| all.remove_range(start, end));
        }
        let mut intervals = Vec::new();
        all.each_erased(|start, end| {
            intervals.push(KeyRange::half_open(Bytes::copy_from_slice(start), end.map(Bytes::copy_from_slice)));
        });
        intervals
    }
}

/// A snapshot of a [`DiskStore`](super::DiskStore).
#[derive(Debug)]
pub(super) struct DiskSnapshot {
    pub(super) layers: Layers,
    pub(super) counts: OnceLock<Counts>,
}

impl StateSnapshot for DiskSnapshot {
    fn mark(&self) -> Mark {
        self.layers.active.mark.clone()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        match self.layers.lookup(key) {
            Known::Value(value) => Ok(Some(value.to_bytes())),
            Known::Absent => Ok(None),
            Known::Unknown => self.layers.base.get(key),
        }
    }

    fn scan(&self, range: KeyRange, order: Order) -> Result<Scan> {
        Ok(Box::new(MergeScan::new(self.layers.overlays(), self.layers.base.clone(), &range, order)))
    }

    fn counts(&self) -> Result<Counts> {
        if let Some(counts) = self.counts.get() {
            return Ok(*counts);
        }
        let counts = self.layers.counts()?;
        Ok(*self.counts.get_or_init(|| counts))
    }

    fn export(&self) -> Result<Export> {
        Ok(Box::new(ChunkWriter::new(self.scan(KeyRange::all(), Order::Ascending)?, self.mark())))
    }
}
