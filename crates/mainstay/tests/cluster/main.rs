//! Several nodes in one process: what callers see when roles move.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod answers;
mod hand_over;
mod harness;
mod level_none;
