//! Actors from end to end: a node, the actors on it and the calls that reach them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod chains;
mod deferred;
mod events;
mod gate;
mod idempotency;
mod identity;
mod state;
mod turns;
