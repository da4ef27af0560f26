//! Actors from end to end: a node, the actors on it and the calls that reach them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod continuations;
#[path = "../services/harness.rs"]
mod harness;
mod log;
mod reminders;
mod timers;
