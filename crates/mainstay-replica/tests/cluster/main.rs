//! Replicas of one set, talking to each other over an in-process network on virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod harness;

mod commits;
mod failover;
mod following;
mod lagging;
mod leases;
mod logs;
mod members;
mod snapshots;
