//! The wire from outside: endpoints on a simulated network in virtual time, and on real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

mod calls;
mod connections;
mod credits;
mod golden;
mod hostile;
mod lanes;
mod roles;
mod tls;
