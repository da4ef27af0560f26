//! The samples of the documents that Mainstay implements, in Rust and with their mistakes corrected.
//!
//! | document | sample | here |
//! |---|---|---|
//! | resource governance (000 to 002) | static resolver | [`static_resolver`] |
//! | | `User` and `Resolver` | [`resolver`] |
//! | | `EventProcessor` and `EventWriter` | [`event_writer`], with the file in [`csv_file`] |
//! | | `EventWriter` with a buffer | [`buffered_writer`] |
//! | | asynchronous batches | [`batching_writer`] |
//! | reliable collections (003) | all | the tests of `mainstay-state`: see the conformance page |
//! | state management (004) | levels, and the settings that are generated from them | [`levels`] |
//! | | the state manager | [`state_manager`] |
#![allow(clippy::disallowed_methods, reason = "these are applications, which use tokio as it is")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod static_resolver;

mod resolver;

mod csv_file;
mod event_writer;

mod buffered_writer;

mod batching_writer;

mod levels;
mod state_manager;
