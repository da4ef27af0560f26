//! The event pipeline of resource governance, running in a terminal.
//!
//! ```text
//! callers ─▶ EventProcessor workers ─▶ Resolver: user → east or west ─▶ EventWriter of a type there ─▶ CSV files
//!            stateless, a pool          durable, moved while in use       durable buffer, batches        one writer each
//! ```
//!
//! An event is acknowledged when its writer, an actor, has it in its durable state. The writer brings it into its CSV file
//! together with others. Meanwhile users move between the two resources. In the end everything is read back and compared:
//! events acknowledged are rows written, once each. Killing the process at any moment changes nothing of that; the next
//! start says what it has found, and goes on from there. Events that were written and whose acknowledgement a kill has cut
//! off are a number of their own, in all later runs: nobody was promised them, and none of them is there twice.
//!
//! Read in this order: [`event`], [`writer`], [`processor`] are the application; [`traffic`] and [`moves`] use it;
//! [`journal`], [`records`] and [`evidence`] hold it to its word, with [`numbers`] and their [`origin`]; [`demo`] puts it together.
#![allow(
    clippy::disallowed_methods,
    reason = "built as an application is: its tasks and its clock are tokio's and the system's"
)]

pub mod event;
pub mod writer;

pub mod processor;

pub mod traffic;

pub mod moves;

pub mod journal;
pub mod records;

pub mod evidence;

pub mod numbers;
pub mod origin;

pub mod demo;
pub mod earlier;

pub mod latency;
pub mod options;
pub mod output;
pub mod progress;
pub mod stop;
pub mod summary;

pub use demo::run;
pub use evidence::{Finding, Verdict};
pub use options::Options;
