use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstay_core::Result;
use parking_lot::RwLock;

use super::super::cursor::{BATCH_BYTES_MAX, Source};
use super::super::{Counts, KeyRange, Order};
use super::difference::Difference;
use super::failure::{is_broken, is_stale, redb_failure, wrong_counts};
use super::instance::{Checkpoint, Instance, StateTable, StoreFile, WRITER_WAIT_MAX};
use super::reading::reading;

/// How often something is read that redb gave up on for another reason.
const ATTEMPTS_MAX: usize = 4;

/// The state as a checkpoint left it in the file. It does not change, and stays readable while later checkpoints are
/// written.
///
/// redb refuses everything after one failed write until the file is opened anew. A base that is still what the file
/// holds survives that: it moves to the new instance, and so do all snapshots and scans that share it.
#[derive(Debug)]
pub(super) struct Base {
    place: Arc<StoreFile>,
    checkpoint: Checkpoint,
    reader: RwLock<Arc<Reader>>,
}

struct Reader {
    // Before the instance, because it reads through it.
    table: StateTable,
    instance: Arc<Instance>,
}

impl Base {
    /// The state that an instance holds now.
    pub(super) fn of(place: &Arc<StoreFile>, instance: Arc<Instance>) -> Result<Self, redb::Error> {
        let (table, checkpoint) = instance.read()?;
        Ok(Self { place: place.clone(), checkpoint, reader: RwLock::new(Arc::new(Reader { table, instance })) })
    }

    pub(super) fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    pub(super) fn counts(&self) -> Counts {
        self.checkpoint.counts
    }

    /// The counts after changes on top of this.
    pub(super) fn counts_with(&self, difference: &Difference) -> Result<Counts> {
        difference
            .apply_to(self.checkpoint.counts)
            .ok_or_else(|| redb_failure(&self.place.path, "count the entries of", wrong_counts()))
    }

    pub(super) fn instance(&self) -> Arc<Instance> {
        self.reader.read().instance.clone()
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.read(|table| Ok(table.get(key)?.map(|value| Bytes::copy_from_slice(value.value()))))
    }

    /// The length of a key's value.
    pub(super) fn value_len(&self, key: &[u8]) -> Result<Option<usize>> {
        self.read(|table| Ok(table.get(key)?.map(|value| value.value().len())))
    }

    /// Opens the file anew after redb gave up on it. The caller holds the writer's lock.
    ///
    /// Returns what the file holds if it is not this base: the commit that failed had already happened.
    pub(super) fn revive(&self) -> Result<Option<Base>> {
        // The new instance does not know what the old one's readers still need, and uses their pages again.
        self.instance().retire();
        let instance = Instance::open(&self.place)?;
        let failed = |error| redb_failure(&self.place.path, "reopen", error);
        let (table, checkpoint) = instance.read().map_err(failed)?;
        if checkpoint.generation != self.checkpoint.generation {
            return Base::of(&self.place, instance).map(Some).map_err(failed);
        }
        *self.reader.write() = Arc::new(Reader { table, instance });
        Ok(None)
    }

    fn read<T>(&self, read: impl Fn(&StateTable) -> Result<T, redb::Error>) -> Result<T> {
        let mut attempts_left = ATTEMPTS_MAX;
        loop {
            attempts_left -= 1;
            let reader = self.reader.read().clone();
            let error = match reading(|| read(&reader.table)) {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            // A read that failed itself has its answer. If redb has heard of it, others find out and open the file anew.
            let is_mended = is_broken(&error) && self.mend(&reader, &error);
            if !is_mended || !is_stale(&error) || attempts_left == 0 {
                return Err(redb_failure(&self.place.path, "read", error));
            }
        }
    }

    /// True if the base now reads through another instance than that which failed.
    fn mend(&self, failed: &Arc<Reader>, error: &redb::Error) -> bool {
        // A writer that made redb give up is about to open the file anew.
        let patience = if is_stale(error) { WRITER_WAIT_MAX } else { Duration::ZERO };
        let Some(_writer) = self.place.writer.try_lock_for(patience) else { return false };
        if !Arc::ptr_eq(&self.reader.read(), failed) {
            return true;
        }
        // An older base cannot come back: its pages may have been used again.
        self.place.is_at(self.checkpoint.generation) && matches!(self.revive(), Ok(None))
    }
}

impl Source for Arc<Base> {
    type Value = Bytes;

    fn fill(
        &self,
        range: &KeyRange,
        order: Order,
        entries_max: usize,
        batch: &mut VecDeque<(Bytes, Bytes)>,
    ) -> Result<()> {
        let entries = self.read(|table| {
            let mut entries = Vec::new();
            let mut bytes = 0;
            let mut found = table.range::<&[u8]>(range.as_bounds())?;
            while entries.len() < entries_max && bytes < BATCH_BYTES_MAX {
                let entry = match order {
                    Order::Ascending => found.next(),
                    Order::Descending => found.next_back(),
                };
                let Some((key, value)) = entry.transpose()? else { break };
                bytes += key.value().len() + value.value().len();
                entries.push((Bytes::copy_from_slice(key.value()), Bytes::copy_from_slice(value.value())));
            }
            Ok(entries)
        })?;
        batch.extend(entries);
        Ok(())
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("instance", &self.instance).finish_non_exhaustive()
    }
}
