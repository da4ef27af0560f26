//! Nodes of a cluster in one process: real replicas and real connections, on a simulated network and in virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod beginning;
mod failing;
mod growing;
mod returning;
mod services;
mod support;
mod tokens;
