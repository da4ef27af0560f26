//! Actors from end to end: a node, the actors on it and the calls that reach them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod chains;
mod closing;
mod deferred;
mod delete;
mod enumerate;
mod gate;
mod idempotency;
mod identity;
mod idle;
mod lives;
mod memory;
mod races;
mod state;
mod turns;
