//! For the tests of applications: a node in the test's process, in virtual time.
//!
//! In `Cargo.toml`: `mainstay = { version = "…", features = ["testkit"] }` under `[dev-dependencies]`.

#[doc(inline)]
pub use mainstay_api::testkit::*;
