//! Calls between nodes, by bytes: a loopback that loses, repeats and redirects what it carries.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "these are tests of applications, which use tokio as it is")]

mod chains;
mod evolving;
mod exactly_once;
mod harness;
mod observing;
mod partitions;
mod routing;
