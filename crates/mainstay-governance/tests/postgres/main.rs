//! Rows in a real PostgreSQL: the server that tests start, the sink, and the proof that few connections serve many callers.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "these are tests of applications, which use tokio as it is")]

mod leases;
mod proof;
mod server;
mod shared;
mod sink;
