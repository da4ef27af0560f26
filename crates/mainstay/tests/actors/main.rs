//! Actors from end to end: a node, the actors on it and the calls that reach them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "these are tests of applications, which use tokio as it is")]

mod bounds;
mod chains;
mod closing;
mod conformance;
mod continuations;
mod crowding;
mod deferred;
mod delete;
mod delete_everything;
mod dynamic;
mod elsewhere;
mod enumerate;
mod events;
mod gate;
mod giving_up;
#[path = "../services/harness.rs"]
mod harness;
mod idempotency;
mod idempotency_keys;
mod identity;
mod idle;
mod large_values;
mod lives;
mod log;
mod memory;
mod missing_interfaces;
mod observers;
mod own_errors;
mod paged;
mod panics;
mod races;
mod reminders;
mod saving;
mod state;
mod sweep;
mod timers;
mod turns;
mod yielding;
