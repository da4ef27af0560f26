//! Services from end to end: a node, its partitions, the objects in them and the calls that reach them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod contexts;
mod harness;
mod keys;
mod lock_chains;
mod registry;
mod roles;
mod running;
mod state;
mod stopping;
mod worker_chains;
mod workers;
