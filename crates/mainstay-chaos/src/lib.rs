//! A small application that is killed, cut off and judged: what `cargo xtask chaos` runs.
//!
//! ```text
//! load ──▶ gateway of any node ──▶ registers, counters, tickers (actors), journals (owners of a file), banks (services)
//!   │                                                                        │
//!   ▼                                                                        ▼
//! history: invoke, then ok, fail or unknown                        journal files outside, guarded by fences
//!   └──────────────────────────────▶ check ◀─────────────────────────────────┘
//! ```
//!
//! A [`node`] serves the [`workload`]. A [`load`] calls it, in the same process or through the [`gateway`] of any node, and writes
//! down in a [`history`] what it was told. A [`check`] reads histories and journals and says whether there is a world in which all
//! of that is true. The faults come from outside: the processes do not know of them.
//!
//! Read in this order: [`action`] is what can be asked for, [`workload`] who does it, [`entry`] how it is reached.
#![allow(
    clippy::disallowed_methods,
    reason = "built as an application is: its tasks and its clock are tokio's and the system's"
)]

pub mod action;
pub mod workload;

pub mod entry;
pub mod gateway;
pub mod joining;
pub mod node;

pub mod history;
pub mod load;

pub mod check;
