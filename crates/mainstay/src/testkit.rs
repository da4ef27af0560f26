//! For the tests of applications: a node in the test's process, in virtual time.
//!
//! In `Cargo.toml`: `mainstay = { version = "…", features = ["testkit"] }` under `[dev-dependencies]`.

pub use mainstay_node::testkit::TestNode;
pub use mainstay_runtime::CommitFault;
