//! Items that are acknowledged when they are stored, and written later in batches, whatever happens in between.
//!
//! A [`DurableBatch`] is an actor: there is one per key in the cluster, and its buffer is its state. An item that was
//! [appended](DurableQueue::append) survives a restart and a kill. It is written together with others through a
//! [`DurableWriter`], and leaves the buffer in the commit that records that it was written.
//!
//! ```
//! use mainstay::prelude::*;
//! use mainstay::governance::batch::durable::{DurableBatch, DurableQueueRef};
//! use mainstay::governance::sink::csv::{CsvFolder, CsvRow, CsvSettings};
//!
//! #[derive(Clone, serde::Serialize, serde::Deserialize)]
//! struct Visit {
//!     page: String,
//! }
//!
//! impl CsvRow for Visit {
//!     const OWNER: &'static str = "visit-files";
//!     const QUEUE: &'static str = "visit-queues";
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let files = CsvFolder::<Visit>::new(CsvSettings::in_folder(folder.join("csv")));
//! let node = DurableBatch::serve(Node::builder().data_dir(folder.join("data")), files).start().await?;
//!
//! let visits: DurableQueueRef<CsvFolder<Visit>> = node.actor("visits")?;
//! // With a key of its own, an item that is sent again because an answer got lost is taken once.
//! let number = visits.idempotent("visit 4711").append(Visit { page: "home".into() }).await?;
//! visits.written(number).await?; // only where a caller has to know
//! assert_eq!(std::fs::read_to_string(folder.join("csv/visits-000001.csv"))?, "page\nhome\n");
//! node.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Nothing lost
//!
//! An item is an entry of the actor's state of its own, so that a save costs the same however full the buffer is. While
//! there are any, a *reminder* is set in the same commit, which brings the actor back after a restart even without a call.
//! An item is removed after it was written, never before. A buffer that is full refuses (`Overloaded`).
//!
//! # Nothing twice
//!
//! A batch may have been written when the process is killed, and not yet be removed. It is then written again, and the
//! outside must be able to tell: items have *numbers* that never change, for a table where a number and its
//! [lineage](Numbered::lineage) are unique; and the writer returns a *mark* that is stored with the removal and handed to the next write, for
//! a file that is cut back to it.
//!
//! A line that was deleted, or restored from a backup, does not know what it has written. It begins a new lineage: its numbers are
//! others than those before, and a file is not cut back behind what was there when it came. So nothing is lost, and what
//! waited in the backup may be written twice.
//!
//! # What cannot be written
//!
//! A writer that fails for a reason of its own is tried again, with growing waits, for as long as it takes; one that hangs is
//! given up after [`DurableSettings::write_time_max`], and then tried again as after a crash. If it refuses
//! the items (`Invalid` and its kind), smaller and smaller batches find the item that is to blame, which is set aside with
//! its error: [`DurableQueue::dead_letters`]. There is room for so many; then the line waits until an operator has looked.

mod actor;
mod book;
mod interface;
mod settings;
mod waiters;
mod writer;
mod writing;

pub use actor::DurableBatch;
pub use book::{DeadLetter, DurableStatus};
pub use interface::{DurableQueue, DurableQueueRef};
pub use settings::DurableSettings;
pub use writer::{DurableWriter, Numbered};
