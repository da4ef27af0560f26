//! Batches of items: in actors, and as their state.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "an application's tasks and clock are tokio's")]

mod damage;
mod durable;
mod holders;
mod in_actors;
mod large_items;
mod ledger;
mod pipeline;
mod stopping;
