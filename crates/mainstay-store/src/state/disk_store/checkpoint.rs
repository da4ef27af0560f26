use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstay_core::{Error, Result};
use redb::{Table, WriteTransaction};

use super::super::Mark;
use super::base::Base;
use super::difference::Difference;
use super::failure::{io_failure, is_latched, is_stale, redb_failure, wrong_counts};
use super::instance::{Checkpoint, STATE, WRITER_WAIT_MAX, next_generation};
use super::overlay::Overlay;
use super::{DiskStoreCore, folder_of};

/// How often a checkpoint is tried that fails by no fault of its own. Two do where readers' failures are kept from redb;
/// where panics abort, each read of a damaged block costs one.
const ATTEMPTS_MAX: usize = 8;

impl DiskStoreCore {
    /// Writes what was applied so far to the file.
    pub(super) fn checkpoint(&self) -> Result<Mark> {
        let _writer = self.place.writer.lock();
        self.sync_name()?;
        // An overlay that an earlier checkpoint could not write goes first; then what came in since.
        if self.layers.read().frozen.is_some() {
            self.write_frozen()?;
        }
        if self.freeze() {
            self.write_frozen()?;
        }
        Ok(self.checkpointed.read().clone())
    }

    /// Puts a new overlay on top; false if there is nothing to write.
    fn freeze(&self) -> bool {
        let mut layers = self.layers.write();
        let mark = layers.active.mark.clone();
        if layers.active.is_untouched() && mark == *self.checkpointed.read() {
            layers.active.cost_bytes = 0;
            return false;
        }
        let frozen = std::mem::replace(&mut layers.active, Overlay::at(mark));
        layers.frozen = Some(Arc::new(frozen));
        true
    }

    /// Writes the frozen overlay in one transaction and makes the file's new state the base.
    fn write_frozen(&self) -> Result<()> {
        let mut written = self.try_write_frozen();
        for _ in 1..ATTEMPTS_MAX {
            if !written.as_ref().is_err_and(is_stale) {
                break;
            }
            // redb gave up on the file at some other read or write: this itself has not failed.
            self.revive()?;
            written = self.try_write_frozen();
        }
        written.map_err(|error| {
            let is_reopened = is_latched(&error).then(|| self.revive());
            let failure = redb_failure(&self.place.path, "checkpoint", error);
            if let Some(Err(error)) = is_reopened {
                self.warn_of_failed_revival(&error);
            }
            failure
        })
    }

    fn try_write_frozen(&self) -> Result<(), redb::Error> {
        let (base, frozen) = {
            let layers = self.layers.read();
            let Some(frozen) = layers.frozen.clone() else { return Ok(()) };
            (layers.base.clone(), frozen)
        };
        let instance = base.instance();
        instance.try_write(|transaction| write_overlay(transaction, &frozen))?;
        self.adopt(Base::of(&self.place, instance)?, &frozen);
        Ok(())
    }

    fn adopt(&self, base: Base, written: &Arc<Overlay>) {
        self.place.generation.store(base.checkpoint().generation, Ordering::Release);
        *self.checkpointed.write() = written.mark.clone();
        let mut layers = self.layers.write();
        let replaced = (std::mem::replace(&mut layers.base, Arc::new(base)), layers.frozen.take());
        drop(layers);
        // Freeing a large overlay takes a while; nobody waits for it here.
        drop(replaced);
    }

    /// Opens the file anew if a checkpoint failed and could not do so itself.
    pub(super) fn mend(&self) {
        let is_given_up = || self.layers.read().base.instance().is_retired();
        // Looked at twice, so that nobody waits for a checkpoint that goes well.
        if is_given_up()
            && let Some(_writer) = self.place.writer.try_lock_for(WRITER_WAIT_MAX)
            && is_given_up()
            && let Err(error) = self.revive()
        {
            self.warn_of_failed_revival(&error);
        }
    }

    /// Opens the file anew after a failed write. If the failed commit is in it nevertheless, the frozen overlay stays on
    /// top of it all the same: writing it twice changes nothing.
    fn revive(&self) -> Result<()> {
        let base = self.layers.read().base.clone();
        if let Some(found) = base.revive()? {
            self.place.generation.store(found.checkpoint().generation, Ordering::Release);
            self.layers.write().base = Arc::new(found);
        }
        Ok(())
    }

    /// The next read or checkpoint tries again.
    fn warn_of_failed_revival(&self, error: &Error) {
        tracing::warn!(path = %self.place.path.display(), ?error, "cannot reopen a state store after a failure");
    }

    /// Makes the name durable that an import gave its file.
    pub(super) fn sync_name(&self) -> Result<()> {
        let mut unsynced = self.unsynced_name.lock();
        if *unsynced {
            let path = &self.place.path;
            self.place.disk.sync_dir(folder_of(path)).map_err(|error| io_failure(path, "checkpoint", error))?;
            *unsynced = false;
            *self.checkpointed.write() = self.layers.read().base.checkpoint().mark.clone();
        }
        Ok(())
    }
}

fn write_overlay(transaction: &WriteTransaction, overlay: &Overlay) -> Result<(), redb::Error> {
    let before = Checkpoint::load(transaction)?;
    let mut difference = Difference::default();
    let mut table = transaction.open_table(STATE)?;
    overlay.erased.try_each(|start, end| erase(&mut table, start, end.as_deref(), &mut difference))?;
    overlay.entries.try_each(|key, value| {
        let replaced = match value {
            Some(value) => table.insert(&**key, value.as_slice())?.map(|replaced| replaced.value().len()),
            None => table.remove(&**key)?.map(|replaced| replaced.value().len()),
        };
        if let Some(replaced) = replaced {
            difference.remove(key.len(), replaced);
        }
        if let Some(value) = value {
            difference.add(key.len(), value.as_slice().len());
        }
        Ok::<_, redb::Error>(())
    })?;
    drop(table);
    let counts = difference.apply_to(before.counts).ok_or_else(wrong_counts)?;
    Checkpoint { generation: next_generation(before.generation), mark: overlay.mark.clone(), counts }.store(transaction)
}

fn erase(
    table: &mut Table<'_, &'static [u8], &'static [u8]>,
    start: &[u8],
    end: Option<&[u8]>,
    difference: &mut Difference,
) -> Result<(), redb::Error> {
    let end = end.map_or(Bound::Unbounded, Bound::Excluded);
    table.retain_in::<&[u8], _>((Bound::Included(start), end), |key, value| {
        difference.remove(key.len(), value.len());
        false
    })?;
    Ok(())
}
