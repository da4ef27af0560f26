//! What many callers bring, written in one go.
//!
//! A file that is synced, a row that is inserted, a request that is sent: each costs about the same for one item as for a
//! thousand. A [`BatchExecutor`] takes items one by one, from any number of callers, and hands them to a [`BatchWriter`]
//! many at a time. A caller that [submits](BatchExecutor::submit) is answered when *its* batch has been written, with the result
//! of its own item.
//!
//! ```
//! use mainstay::prelude::*;
//! use mainstay::governance::batch::{BatchExecutor, BatchSettings, BatchWriter};
//!
//! /// Answers each word with its length, all words of a batch at once.
//! struct Measure;
//!
//! impl BatchWriter<String, usize> for Measure {
//!     async fn write(&self, words: &[String]) -> Result<Vec<usize>> {
//!         Ok(words.iter().map(String::len).collect())
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<()> {
//! let batch = BatchExecutor::start("measure", Measure, BatchSettings::default())?;
//! let (red, blue) = tokio::join!(batch.submit("red".to_owned()), batch.submit("blue".to_owned()));
//! assert_eq!((red?, blue?), (3, 4));
//! batch.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! It is usable anywhere; in an actor it is a plain field, and a shared method awaits `self.batch.submit(event)`, so that
//! callers wait beside each other and no turn is held up.
//!
//! # When a batch is written
//!
//! While one batch is being written, the next one gathers: under load batches grow by themselves, and a caller that is
//! alone does not wait. [`BatchSettings::linger`] makes the first item of a batch wait for others even so. A batch is
//! full by count or by bytes, [`BatchExecutor::flush`] hurries, and [`BatchExecutor::close`] writes what is there. A node that
//! [serves](serve) it does so when it is stopped in order, for executors that [close with it](BatchExecutor::closes_with);
//! nobody does for others, and what they have not begun to write fails.
//!
//! # When writing fails
//!
//! A batch that fails, fails its own items and no others. Before that it may be tried again, by a [`RetryPolicy`], and then
//! be split, by a [`SplitPolicy`], until the items are found that cannot be written, so that only they fail.
//!
//! A writer that hangs is given up after [`BatchSettings::write_time_max`], and its batch fails with `OutcomeUnknown`: it may
//! have been written. So it is tried again only if the policy says so, for items that are recognized when they come twice,
//! and it is never split. The next batch may be written while whatever hangs outside comes to its end. That also holds for
//! a writer that blocks its thread, on a runtime of several threads: it is given up a second later, and not tried again.
//!
//! # What must not be lost
//!
//! What waits here is in memory: a caller that has not been answered must expect that its item is not written. The
//! [durable] variant acknowledges an item when it is stored, and writes it later, whatever happens.

mod cell;
pub mod durable;
mod executor;
mod executors;
mod failure;
pub(crate) mod in_place;
mod lane;
mod queue;
mod retry;
mod settings;
mod stats;
mod watchdog;
mod write_time;
mod writer;

pub use executor::{BatchExecutor, ItemSize, Submitted};
pub use executors::{EXECUTORS_MAX, serve};
pub use retry::{RetryPolicy, SplitPolicy};
pub use settings::BatchSettings;
pub use stats::BatchStats;
pub use writer::BatchWriter;

#[cfg(test)]
mod tests;
