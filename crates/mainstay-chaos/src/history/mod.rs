//! What callers asked for and what they were told, as JSON, a line each, written as it happens.
//!
//! The first line is a [`Header`], all others are [`Event`]s: an operation is invoked, and ends as ok (with its answer), fail (nothing
//! has happened) or unknown. One that has no end, because the process was killed, is unknown as well. The order of the lines is
//! the order in which things happened; several files are merged by their clocks, and so come from one machine.

mod event;
mod operation;
mod reader;
mod writer;

pub use event::{Event, Failure, Header, Phase, VERSION};
pub use operation::{History, Operation, Outcome};
pub use reader::read;
pub use writer::Recorder;
