use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mainstay_core::{Error, ErrorKind, Result};
use redb::WriteTransaction;

use super::super::export::{ChunkReader, Entries};
use super::super::{Import, Mark};
use super::base::Base;
use super::failure::{io_failure, redb_failure, shielded};
use super::instance::{Checkpoint, Instance, STATE, next_generation};
use super::overlay::Overlay;
use super::{DiskStoreCore, beside};

/// How much goes into one transaction: redb remembers a little for every page of an open one.
const TRANSACTION_BYTES: usize = 32 << 20;

/// Tells the files of imports apart that run at the same time.
static IMPORTS: AtomicU64 = AtomicU64::new(0);

/// An import into a new file beside the store's, which replaces it at the end.
///
/// Its transactions need no mark and no order among themselves: until the file has the store's name nothing reads it.
pub(super) struct DiskImport {
    shared: Arc<DiskStoreCore>,
    reader: ChunkReader,
    path: PathBuf,
    /// What is being written; gone after a failure, which the file does not survive.
    writing: Option<Writing>,
    is_in_place: bool,
}

struct Writing {
    /// Before the instance, because it writes through it.
    transaction: Option<WriteTransaction>,
    transaction_bytes: usize,
    instance: Arc<Instance>,
}

impl DiskImport {
    pub(super) fn new(shared: Arc<DiskStoreCore>) -> Result<Self> {
        let number = IMPORTS.fetch_add(1, Ordering::Relaxed);
        let path = beside(&shared.place.path, &format!("import-{number}"));
        // Made first, so that a failure to create the file removes what there is of it.
        let mut import = Self { shared, reader: ChunkReader::default(), path, writing: None, is_in_place: false };
        let instance = Instance::create(&import.shared.place, &import.path, &Checkpoint::default())?;
        import.writing = Some(Writing { transaction: None, transaction_bytes: 0, instance });
        Ok(import)
    }

    /// Runs a step of the writing, after whose failure there is nothing left to go on with.
    fn write<T>(&mut self, step: impl FnOnce(&mut Writing) -> Result<T, redb::Error>) -> Result<T> {
        let Some(mut writing) = self.writing.take() else {
            return Err(has_failed());
        };
        let (result, writing) = shielded(move || step(&mut writing).map(|result| (result, writing)))
            .map_err(|error| redb_failure(&self.shared.place.path, "import into", error))?;
        self.writing = Some(writing);
        Ok(result)
    }
}

fn has_failed() -> Error {
    Error::invalid("this import has failed already: start it anew")
}

impl Writing {
    fn insert(&mut self, entries: Entries<'_>) -> Result<(), redb::Error> {
        let transaction = match self.transaction.take() {
            Some(transaction) => transaction,
            None => self.instance.begin()?,
        };
        let mut table = transaction.open_table(STATE)?;
        // The reader has seen to it that keys grow, so that each entry belongs behind the last: nothing is looked for.
        let mut end = table.upper_bound_mut(Bound::<&[u8]>::Unbounded)?;
        for (key, value) in entries {
            end.insert_before(key, value)?;
            self.transaction_bytes += key.len() + value.len();
        }
        end.close()?;
        drop(table);
        self.transaction = Some(transaction);
        if self.transaction_bytes >= TRANSACTION_BYTES { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<(), redb::Error> {
        self.transaction_bytes = 0;
        match self.transaction.take() {
            Some(transaction) => Ok(transaction.commit()?),
            None => Ok(()),
        }
    }
}

impl Import for DiskImport {
    fn push(&mut self, chunk: &[u8]) -> Result<()> {
        let entries = self.reader.accept(chunk)?;
        self.write(|writing| writing.insert(entries))
    }

    fn complete(&self) -> Result<Mark> {
        if self.writing.is_none() {
            return Err(has_failed());
        }
        Ok(self.reader.complete()?.0)
    }

    fn finish(mut self: Box<Self>) -> Result<Mark> {
        let (mark, counts) = self.reader.complete()?;
        let shared = self.shared.clone();
        let place = &shared.place;
        // Most of what is left to write is written before anybody has to wait.
        self.write(Writing::commit)?;
        // In this order, because an apply that reads may wait for a writer.
        let applying = shared.applying.lock();
        let _writer = place.writer.lock();
        mark.check_not_before(&shared.layers.read().active.mark)?;
        let generation = next_generation(place.generation.load(Ordering::Acquire));
        let checkpoint = Checkpoint { generation, mark: mark.clone(), counts };
        let base = self.write(|writing| {
            writing.instance.try_write(|transaction| checkpoint.store(transaction))?;
            Base::of(place, writing.instance.clone())
        })?;
        place.disk.rename(&self.path, &place.path).map_err(|error| io_failure(&place.path, "import into", error))?;

        // From here on the store's name stands for the new file, so the new state it is, whatever else fails.
        self.is_in_place = true;
        *shared.unsynced_name.lock() = true;
        place.generation.store(generation, Ordering::Release);
        let mut layers = shared.layers.write();
        let replaced = std::mem::replace(&mut layers.active, Overlay::at(mark.clone()));
        let replaced = (replaced, layers.frozen.take(), std::mem::replace(&mut layers.base, Arc::new(base)));
        drop(layers);
        drop(applying);
        // Freeing a large overlay takes a while; nobody waits for it here.
        drop(replaced);
        shared.sync_name().map_err(|error| {
            Error::new(
                ErrorKind::OutcomeUnknown,
                format!(
                    "state store {} has the imported state, but a crash may bring the old one back until a checkpoint \
                     succeeds",
                    place.path.display()
                ),
            )
            .with_source(error)
        })?;
        Ok(mark)
    }
}

impl Drop for DiskImport {
    fn drop(&mut self) {
        self.writing = None;
        if !self.is_in_place {
            // Should it stay, opening the store removes it.
            drop(self.shared.place.disk.remove(&self.path));
        }
    }
}
