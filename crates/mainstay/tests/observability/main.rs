//! What is seen of actors at work: spans, warnings, and every metric over a real socket.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "these are tests of applications, which use tokio as it is")]

mod capture;
#[path = "../admin/http.rs"]
#[allow(dead_code, reason = "other tests read more of a page")]
mod http;
mod metrics_page;
mod renamed;
mod spans;
mod warnings;
