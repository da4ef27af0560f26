//! For tests and benchmarks: the outside resources themselves, real ones, private to the test that starts them.
//!
//! In `Cargo.toml`: `mainstay-governance = { version = "…", features = ["testkit"] }` under `[dev-dependencies]`.

mod postgres;

pub use postgres::{PostgresOptions, PostgresServer, Stop};
