//! Limits that all nodes keep together: rates, and numbers of things at once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and its tasks and clock are tokio's"
)]

#[path = "../foreign/mod.rs"]
mod foreign;

mod concurrency;
mod foreign_callers;
mod rate;
mod threads;

use mainstay::testkit::TestNode;
use mainstay_governance::limit::{self, ConcurrencyLimiter, RateLimit, RateLimiter};

async fn start() -> TestNode {
    TestNode::start(limit::serve).await.unwrap()
}

#[tokio::test]
async fn limits_that_are_not_served_say_how_to_serve_them() {
    let node = TestNode::start(|node| node).await.unwrap();
    let rate = RateLimiter::open(&*node, "mails", RateLimit::per_second(1)).await.unwrap_err();
    let concurrency = ConcurrencyLimiter::open(&*node, "mails", 1).await.unwrap_err();
    for (error, noun) in [(rate, "rate limit"), (concurrency, "concurrency limit")] {
        assert_eq!(error.kind(), mainstay::ErrorKind::NotFound);
        let text = format!("{noun} `mails` needs the actors of `limit`; build the node with `limit::serve(builder)`");
        assert_eq!(error.to_string(), text);
    }
}
