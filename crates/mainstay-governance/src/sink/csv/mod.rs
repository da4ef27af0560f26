//! Rows in CSV files, appended by one writer at a time.
//!
//! A [`CsvSink`] is the open series of files of one key, such as a type of events. It writes batches, so it goes behind a
//! [`BatchExecutor`](crate::batch::BatchExecutor):
//!
//! ```
//! use mainstay::prelude::*;
//! use mainstay::governance::batch::{BatchExecutor, BatchSettings};
//! use mainstay::governance::owner::Fence;
//! use mainstay::governance::sink::csv::{CsvSettings, CsvSink};
//!
//! #[derive(serde::Serialize)]
//! struct Visit {
//!     page: String,
//!     seconds: u32,
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let sink = CsvSink::open(CsvSettings::in_folder(folder), "visits", Fence::new(1)).await?;
//! let batch = BatchExecutor::start("visits", sink, BatchSettings::default())?;
//! batch.submit(Visit { page: "home, sweet home".into(), seconds: 7 }).await?;
//! assert_eq!(std::fs::read_to_string(folder.join("visits-000001.csv"))?, "page,seconds\n\"home, sweet home\",7\n");
//! # Ok(())
//! # }
//! ```
//!
//! A [`CsvFolder`] opens them by key: it is a [`Resource`](crate::owner::Resource), for the owner of a file that others
//! write through, and a [`DurableWriter`](crate::batch::durable::DurableWriter), for rows that must not be lost.
//!
//! # What it does
//!
//! - **Quoting** and numbers are those of the `csv` crate, whatever the language of the machine. The header is written once
//!   per file, from the names of the fields.
//! - **Appends.** Nothing that was acknowledged is ever cut off. What a crash has left behind the last whole record is, before
//!   the next batch is written; it is kept in a file beside the rows that ends in `.cut`, and a warning names it. A file that is
//!   damaged is an error (`Corrupt`) that says where and what to do, and nothing is written to it.
//! - **Durable.** A batch counts as written after `fdatasync`. A batch that fails leaves nothing behind.
//! - **Names.** Any key makes a safe name: [`file_stem`].
//! - **Rotation** by bytes, rows and time, and when the columns change: [`CsvRotation`]. A batch is never torn apart.
//! - **One writer.** Every opening has a fencing token, which is kept in a file beside the rows, with whose it is, and looked at under
//!   a file lock for every batch. A writer that was replaced gets an error and writes nothing; so does one whose file of the
//!   token was taken away, and another one, such as an owner and a queue that were given one key in one folder.
//! - Files are touched on tokio's threads for blocking work, once per batch. A batch executor on a runtime of several threads
//!   does not wait for one of them and writes where it is, also through an owner: that saves two wake-ups, which can take as
//!   long as the disk. Should the disk hang, its callers are answered after
//!   [`write_time_max`](crate::batch::BatchSettings::write_time_max), and
//!   [`job_time_max`](crate::owner::OwnerSettings::job_time_max) of an owner does not count.

mod aside;
mod encode;
mod error;
mod file_system;
mod folder;
mod name;
mod scan;
mod series;
mod settings;
mod sidecar;
mod sink;
mod token;

pub use folder::{CsvFolder, CsvRow};
pub use name::{FILE_STEM_BYTES_MAX, file_stem};
pub use series::CsvMark;
pub(crate) use settings::CsvTuning;
pub use settings::{CsvRotation, CsvSettings};
pub use sink::CsvSink;

#[cfg(test)]
mod tests;
