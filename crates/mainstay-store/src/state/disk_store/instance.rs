use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mainstay_core::Result;
use parking_lot::Mutex;
use redb::{
    Builder, Database, ReadOnlyTable, ReadableDatabase as _, ReadableTable, ReadableTableMetadata as _,
    TableDefinition, WriteTransaction,
};

use super::super::{Counts, Mark};
use super::block_file::{Backend, BlockFile};
use super::failure::{redb_failure, shielded, wrong_counts};
use super::options::DiskStoreOptions;
use crate::disk::{Disk, DiskLock};

/// The state: keys and values as they are.
pub(super) const STATE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("state");

/// The record of the last checkpoint.
const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
const CHECKPOINT: &str = "checkpoint";

/// How long a reader waits for a writer that opens the file anew. That takes a few reads and at most two syncs; who has
/// waited in vain fails with `Retry`.
pub(super) const WRITER_WAIT_MAX: Duration = Duration::from_secs(10);

pub(super) type StateTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// Where a store lives, and who may write there: shared by everything that reads or writes its file.
#[derive(Debug)]
pub(super) struct StoreFile {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) path: PathBuf,
    pub(super) options: DiskStoreOptions,
    /// Held by whoever changes or reopens the file.
    pub(super) writer: Mutex<()>,
    /// The generation that the file is at; changes under `writer`.
    pub(super) generation: AtomicU64,
    /// Keeps other processes out for as long as anything of this store is alive.
    pub(super) _lock: Box<dyn DiskLock>,
}

/// redb on an open file. It never writes unless told to: when it is dropped, the file stays as the last commit left it.
pub(super) struct Instance {
    /// Gone only while the instance is dropped.
    db: Option<Database>,
    blocks: Arc<BlockFile>,
    place: Arc<StoreFile>,
}

/// What a checkpoint records beside the state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// Counts the transactions that changed the state: tells whether a commit that failed took place.
    pub(super) generation: u64,
    pub(super) mark: Mark,
    pub(super) counts: Counts,
}

impl Instance {
    /// Opens the store's file.
    pub(super) fn open(place: &Arc<StoreFile>) -> Result<Arc<Self>> {
        let blocks = BlockFile::open(&*place.disk, &place.path, &place.options.owner)?;
        Self::start(place, &place.path, blocks)
    }

    /// Creates a file with an empty state, durably in content but not in name.
    pub(super) fn create(place: &Arc<StoreFile>, path: &Path, checkpoint: &Checkpoint) -> Result<Arc<Self>> {
        let blocks = BlockFile::create(&*place.disk, path, &place.options.owner)?;
        let instance = Self::start(place, path, blocks)?;
        let created = instance.try_write(|transaction| {
            transaction.open_table(STATE)?;
            checkpoint.store(transaction)
        });
        created.map_err(|error| redb_failure(path, "create", error))?;
        Ok(instance)
    }

    fn start(place: &Arc<StoreFile>, path: &Path, blocks: BlockFile) -> Result<Arc<Self>> {
        let blocks = Arc::new(blocks);
        let backend = Backend(blocks.clone());
        let cache_bytes_max = place.options.cache_bytes_max;
        let db = shielded(move || Ok(Builder::new().set_cache_size(cache_bytes_max).create_with_backend(backend)?))
            .map_err(|error| redb_failure(path, "open", error))?;
        Ok(Arc::new(Self { db: Some(db), blocks, place: place.clone() }))
    }

    /// Runs one synced transaction. After a failure, nothing or all of it has happened.
    pub(super) fn try_write<T>(
        &self,
        change: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        shielded(|| {
            let transaction = self.begin()?;
            let result = change(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    /// Starts a synced transaction.
    pub(super) fn begin(&self) -> Result<WriteTransaction, redb::Error> {
        let mut transaction = self.db()?.begin_write()?;
        // Two phases, and the allocator's state stored with each commit: opening after a crash neither walks the tree
        // nor meets a page that was not synced.
        transaction.set_quick_repair(true);
        Ok(transaction)
    }

    /// The last committed state.
    pub(super) fn read(&self) -> Result<(StateTable, Checkpoint), redb::Error> {
        shielded(|| {
            let transaction = self.db()?.begin_read()?;
            let checkpoint = Checkpoint::find(&transaction.open_table(META)?)?;
            let state = transaction.open_table(STATE)?;
            if state.len()? != checkpoint.counts.entries {
                return Err(wrong_counts());
            }
            Ok((state, checkpoint))
        })
    }

    fn db(&self) -> Result<&Database, redb::Error> {
        self.db.as_ref().ok_or(redb::Error::DatabaseClosed)
    }

    /// Ends all reading and writing through this instance, because another takes over the file.
    pub(super) fn retire(&self) {
        self.blocks.retire();
    }

    pub(super) fn is_retired(&self) -> bool {
        self.blocks.is_retired()
    }
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance").field("path", &self.place.path).finish_non_exhaustive()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // redb would write on closing. The file is whole as it is, and may not be ours any more.
        self.blocks.seal();
        let db = self.db.take();
        // What redb makes of that is of no interest, even a panic.
        drop(shielded(|| {
            drop(db);
            Ok(())
        }));
    }
}

impl Checkpoint {
    /// Writes the record within a transaction.
    pub(super) fn store(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        let mut record = Vec::with_capacity(32 + self.mark.note.len());
        for number in [self.generation, self.mark.index, self.counts.entries, self.counts.bytes] {
            record.extend_from_slice(&number.to_le_bytes());
        }
        record.extend_from_slice(&self.mark.note);
        transaction.open_table(META)?.insert(CHECKPOINT, record.as_slice())?;
        Ok(())
    }

    /// Reads the record within a transaction that will change it.
    pub(super) fn load(transaction: &WriteTransaction) -> Result<Self, redb::Error> {
        Self::find(&transaction.open_table(META)?)
    }

    fn find(table: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<Self, redb::Error> {
        let record = table.get(CHECKPOINT)?;
        record
            .and_then(|record| Self::parse(record.value()))
            .ok_or_else(|| redb::Error::Corrupted("there is no record of the last checkpoint".to_owned()))
    }

    fn parse(record: &[u8]) -> Option<Self> {
        let (numbers, note) = record.split_at_checked(32)?;
        let mut at = numbers.chunks_exact(8).map(|bytes| {
            let mut number = [0; 8];
            number.copy_from_slice(bytes);
            u64::from_le_bytes(number)
        });
        Some(Self {
            generation: at.next()?,
            mark: Mark { index: at.next()?, note: Bytes::copy_from_slice(note) },
            counts: Counts { entries: at.next()?, bytes: at.next()? },
        })
    }
}

/// The generation that follows. Generations are compared and not ordered, so that one may come after the last.
pub(super) fn next_generation(generation: u64) -> u64 {
    generation.wrapping_add(1)
}

impl StoreFile {
    /// True if a base of this generation is what the file holds.
    pub(super) fn is_at(&self, generation: u64) -> bool {
        self.generation.load(Ordering::Acquire) == generation
    }
}
