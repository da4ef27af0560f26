//! The node log: one write-ahead log for all replication groups of a node.
//!
//! A group is a sequence of entries (opaque bytes, numbered without gaps), a hard state (opaque bytes, replaced as
//! a whole) and a compaction mark (what was known of the last entry dropped from the front). A [`LogBatch`] changes
//! several groups atomically: after a crash all of it is there or none.
//!
//! [`SegmentLog`] keeps it in segment files on a [`Disk`](crate::disk::Disk), [`MemoryLog`] in memory for groups that
//! live in memory anyway, and [`FaultyLog`] fails where a test asks for it; [`conformance`] is what all pass.

mod batch;
mod callback;
pub mod conformance;
mod faulty;
mod group;
mod memory;
mod refused;
mod segment;

use std::fmt::Debug;
use std::ops::Range;

use bytes::Bytes;
use mainstay_core::Result;

pub use batch::LogBatch;
pub use faulty::FaultyLog;
pub use memory::MemoryLog;
pub use refused::Refused;
pub use segment::{Driver, LOCK_FILE, LogActivity, LogHealth, LogOptions, SegmentLog, SyncDelay};

/// The number of a replication group within a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

/// A log shared by many groups.
///
/// To be correct:
/// - [`submit`](NodeLog::submit) checks the whole batch first and refuses it as a whole; what it accepts is visible to
///   [`read`](NodeLog::read) and [`group`](NodeLog::group) when it returns, and durable when `done` is called with `Ok`.
/// - Batches become durable in the order in which they were submitted, each atomically, and `done` is called in that
///   order, each exactly once.
/// - A `done` that panics all the same keeps nobody else from being called.
/// - After a failed write or sync nothing is accepted any more: every waiting and later batch fails with the first
///   cause, until the log is opened anew.
/// - After a crash the log holds a prefix of the batches submitted that contains every batch whose `done` was `Ok`.
pub trait NodeLog: Debug + Send + Sync + 'static {
    /// Queues a batch; `done` is called on the log's own thread and must neither block nor panic.
    ///
    /// # Errors
    /// `Invalid` if an entry would leave a gap or overwrite one, `TooLarge` for a batch over the limit, `Overloaded`
    /// while too many bytes wait, `StorageFull` or `Retry` while the disk has no room for it or gives none, `Fatal` after a
    /// failure. The batch is not queued then, and comes back with `done`, so that it can be submitted again without a copy.
    fn submit(&self, batch: LogBatch, done: Done) -> Result<(), Box<Refused>>;

    /// Entries of a group, in order, starting at `range.start`: as many as exist in the range and fit into `bytes_max`,
    /// but at least one if the first exists.
    ///
    /// # Errors
    /// `NotFound` if `range.start` was compacted away; `Corrupt` if the stored bytes are damaged.
    fn read(&self, group: GroupId, range: Range<u64>, bytes_max: usize) -> Result<Vec<Bytes>>;

    /// How many bytes each entry of a range has that exists, in order. Reads nothing from the disk.
    ///
    /// # Errors
    /// `NotFound` if `range.start` was compacted away.
    fn lengths(&self, group: GroupId, range: Range<u64>) -> Result<Vec<u64>>;

    /// What the log knows of a group; a group that was never written is empty.
    fn group(&self, group: GroupId) -> GroupView;

    /// Whether more may be committed to the log by now. Batches are taken all the same, because what is under way has to end.
    ///
    /// # Errors
    /// `Overloaded` while the disk has little room left.
    fn check_space(&self) -> Result<()> {
        Ok(())
    }

    /// The groups that were ever written and not removed, in order.
    fn groups(&self) -> Vec<GroupId>;
}

/// Called once when a batch is durable or has failed.
pub type Done = Box<dyn FnOnce(Result<()>) + Send>;

/// What a log knows of a group apart from its entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupView {
    /// The last hard state written.
    pub hard_state: Option<Bytes>,
    /// The mark of the last compaction.
    pub mark: Option<Bytes>,
    /// The first index that is there, or would be if nothing is.
    pub first: u64,
    /// The index after the last.
    pub next: u64,
}
