//! What the test kit offers to the tests of applications.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "these are tests of applications, which use tokio as it is")]

mod advance;
mod commit_faults;
mod set_wall;
mod starting;
mod without_node;
