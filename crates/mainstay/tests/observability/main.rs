//! What is seen of actors at work: spans, warnings, and every metric over a real socket.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod capture;
#[path = "../admin/http.rs"]
mod http;
mod metrics_page;
mod spans;
mod warnings;
