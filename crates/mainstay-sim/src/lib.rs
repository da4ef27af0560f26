//! Whole replica sets in one thread, on simulated time, network and disk, driven by a seed.
//!
//! A [`run`](run()) starts three or five replicas, lets clients commit and read, and meanwhile crashes nodes (what was
//! not synced is lost), restarts their processes, lets operations of their disks fail, cuts and spoils the network, hands over
//! the primary and changes the members. Then it heals everything and lets the [checkers](check) judge. Same seed, same run, event for event: a seed that fails can
//! be replayed with its trace.

pub mod check;
mod run;

mod client;
mod cluster;
mod ledger;
pub mod linearizability;
mod nemesis;
mod panics;

pub mod planted;
mod regressions;
mod scenario;
mod shared;
mod trace;

pub use nemesis::{Counts, DiskFaults, Tally};
pub use regressions::{Regression, regressions};
pub use run::{Report, Settings, run};
pub use scenario::Scenario;
pub use trace::Trace;
