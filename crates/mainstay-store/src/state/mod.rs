//! State stores: ordered maps of bytes that hold what a replica's log has been applied to.
//!
//! Applying touches memory only, but for a counter that is on disk alone. [`StateStore::checkpoint`] makes what was applied so far durable; after a crash a
//! store is at or after its last checkpoint, and the log brings it up to date from its [`Mark`] on.
//!
//! [`MemoryStore`] keeps everything in memory, [`DiskStore`] in a file under an overlay of what was applied since its
//! last checkpoint, and [`FaultyStore`] fails on request whatever another store would have done. All pass one
//! [conformance] suite. [`WriteBatch`] is the form in which writes travel: encoded once, it is both the record in the
//! log and the source of [`StateStore::apply`].

mod key;
mod key_range;
mod object;
mod value;

mod batch;
mod prepared;

mod cursor;
mod export;
mod tree;

mod disk_store;
mod faulty;
mod memory;

pub mod conformance;

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::Result;

pub use batch::{WriteBatch, WriteBatchRef, Writes};
pub use disk_store::{DiskStore, DiskStoreOptions};
pub use faulty::{FaultyStore, StoreCall};
pub use key::Key;
pub use key_range::{KeyRange, prefix_successor};
pub use memory::MemoryStore;
pub use object::{Held, Object};
pub use prepared::refused;

/// An ordered map of bytes at a position of a log.
///
/// To be correct:
/// - [`apply`](StateStore::apply) is atomic: a reader, a snapshot and a crash see all of its writes and the mark, or none.
/// - `apply` neither syncs nor waits for a checkpoint, a snapshot or a reader.
/// - A snapshot is taken in constant time, never changes, and stays readable for as long as it is held.
/// - What [`checkpoint`](StateStore::checkpoint) returned survives a crash, as a whole or replaced by something later.
pub trait StateStore: Debug + Send + Sync + 'static {
    /// Applies writes in order and moves the mark.
    ///
    /// # Errors
    /// `Invalid` if the mark's index is not above the last or an [add](Write::Add) finds a value that is no counter (see [`refused`]),
    /// `TooLarge` for an entry that the store could not keep, and what reading a counter can fail with. Nothing is changed
    /// then.
    fn apply(&self, mark: Mark, writes: &mut dyn Iterator<Item = Write<'_>>) -> Result<()>;

    /// The mark of the last apply.
    fn mark(&self) -> Mark;

    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;

    /// The values of several keys, read at one moment.
    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>>;

    /// The state as it is now, for reading while it changes.
    fn snapshot(&self) -> Result<Arc<dyn StateSnapshot>>;

    /// Makes what was applied so far durable and returns its mark. Blocks; one at a time.
    fn checkpoint(&self) -> Result<Mark>;

    /// The mark of the last checkpoint: where the log must still start after a crash.
    fn checkpointed(&self) -> Mark;

    /// How much it held at its last checkpoint. One in memory keeps count at any time. Costs nothing worth mentioning.
    fn checkpointed_counts(&self) -> Counts;

    /// What was applied since the last checkpoint, in bytes of memory that it may hold: keys, values and a fixed amount
    /// per write. Who feeds the store checkpoints it by this figure, and takes in no more above a limit of its own,
    /// because applying what is committed can neither fail nor wait.
    fn unsaved_bytes(&self) -> u64;

    /// Starts to replace the whole state by one that was [exported](StateSnapshot::export). Nothing changes until
    /// [`Import::finish`]; dropping the import leaves nothing behind.
    fn import(&self) -> Result<Box<dyn Import>>;
}

/// A state that does not change any more.
pub trait StateSnapshot: Debug + Send + Sync + 'static {
    /// The mark that the state is at.
    fn mark(&self) -> Mark;

    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;

    /// The values of several keys.
    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// The entries of a range, in the order of their bytes or against it.
    fn scan(&self, range: KeyRange, order: Order) -> Result<Scan>;

    /// How many entries there are and how many bytes their keys and values have. Exact.
    fn counts(&self) -> Result<Counts>;

    /// The whole state as a stream of chunks, each at most [`EXPORT_CHUNK_BYTES_MAX`] unless a single entry is longer.
    fn export(&self) -> Result<Export>;
}

/// A state on its way in.
pub trait Import: Send {
    /// Takes the next chunk.
    ///
    /// # Errors
    /// `Corrupt` for a chunk that is damaged or out of order, `UnknownVersion` for one of another format.
    fn push(&mut self, chunk: &[u8]) -> Result<()>;

    /// The mark of a stream that has come in completely, before anything is changed by it.
    ///
    /// # Errors
    /// `Corrupt` if chunks are missing.
    fn complete(&self) -> Result<Mark>;

    /// Replaces the store's state, durably where the store is durable, and returns its mark.
    ///
    /// # Errors
    /// `Corrupt` if the stream is not complete, `Invalid` if its mark lies before that of the store; the store is unchanged then.
    fn finish(self: Box<Self>) -> Result<Mark>;
}

/// The entries of a scan.
pub type Scan = Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + Send>;

/// The chunks of an export.
pub type Export = Box<dyn Iterator<Item = Result<Bytes>> + Send>;

/// The size that an exported chunk stays below.
pub const EXPORT_CHUNK_BYTES_MAX: usize = 1 << 20;

/// A position of the log that a state is at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    /// The index of the last entry applied; 0 before the first.
    pub index: u64,
    /// What the log's owner wants to find again beside the state.
    pub note: Bytes,
}

/// One change of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write<'a> {
    /// Sets a key.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
    },
    /// Removes a key; one that is not there is fine.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Removes all keys from `start` and before `end`, in time that does not depend on how many there are on disk.
    DeleteRange {
        /// The first key removed.
        start: &'a [u8],
        /// The first key kept; `None` for no end.
        end: Option<&'a [u8]>,
    },
    /// Adds to a counter, a value of 8 bytes (`i64`, little-endian): one that is not there is 0, one that becomes 0 is
    /// removed, and a sum stops at the ends of `i64`.
    Add {
        /// The counter's key.
        key: &'a [u8],
        /// What is added.
        delta: i64,
    },
    /// Sets the key that is `start`, the stamp as 8 bytes big-endian, and `end`.
    PutStamped {
        /// The key before the stamp.
        start: &'a [u8],
        /// The place of the batch in the order of all; see [`Writes`].
        stamp: u64,
        /// The key after the stamp.
        end: &'a [u8],
        /// The new value.
        value: &'a [u8],
    },
    /// Changes nothing: for those who follow the log.
    Note {
        /// The message.
        note: &'a [u8],
    },
}

impl Write<'_> {
    /// What a write counts for in [`StateStore::unsaved_bytes`].
    pub(crate) fn cost_bytes(&self) -> u64 {
        let bytes = match self {
            Write::Put { key, value } => key.len() + value.len(),
            Write::Delete { key } => key.len(),
            Write::DeleteRange { start, end } => start.len() + end.map_or(0, <[u8]>::len),
            Write::Add { key, .. } => key.len() + COUNTER_BYTES,
            Write::PutStamped { start, end, value, .. } => start.len() + STAMP_BYTES + end.len() + value.len(),
            Write::Note { .. } => return 0,
        };
        bytes as u64 + WRITE_OVERHEAD_BYTES
    }
}

/// The length of a counter.
const COUNTER_BYTES: usize = 8;

/// The length of a stamp in a key.
const STAMP_BYTES: usize = 8;

/// What a write costs in memory beside its bytes: its place in a map and two allocations.
const WRITE_OVERHEAD_BYTES: u64 = 128;

/// How many keys of a range are removed from a map at once, so that dropping a large range needs little memory.
const RANGE_KEYS_AT_ONCE: usize = 1024;

/// The direction of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// From the smallest key on.
    Ascending,
    /// From the largest key on.
    Descending,
}

/// How much a state holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of entries.
    pub entries: u64,
    /// The bytes of all keys and values.
    pub bytes: u64,
}
