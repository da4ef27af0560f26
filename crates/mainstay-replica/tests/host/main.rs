//! All replicas of a node on one data folder.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod harness;

mod following;
mod growing;
mod identities;
mod lifecycle;
mod opening;
mod operations;
