//! For the tests of applications.

pub use mainstay_node::testkit::TestNode;
pub use mainstay_runtime::CommitFault;
