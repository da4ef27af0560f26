//! Limits that all nodes keep together: rates, and numbers of things at once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and its tasks and clock are tokio's"
)]

mod concurrency;
mod rate;
mod threads;

use mainstay::testkit::TestNode;
use mainstay_governance::limit;

async fn start() -> TestNode {
    TestNode::start(limit::serve).await.unwrap()
}
