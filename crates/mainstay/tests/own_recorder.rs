//! An application with a metrics recorder of its own, which the node respects. In a process of its own, because a process
//! has one recorder.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "admin/http.rs"]
mod http;

use std::net::SocketAddr;

use mainstay::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_recorder_of_the_application_stays_and_the_page_says_so() {
    metrics::set_global_recorder(metrics::NoopRecorder).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let node = Node::builder().isolated().data_dir(folder.path()).admin_address(address).start().await.unwrap();
    let page = http::get(node.admin_address().unwrap(), "/metrics");
    assert_eq!(page.status, 404);
    assert!(page.head.contains("content-type: text/plain"), "{}", page.head);
    assert!(page.body.contains("a metrics recorder of its own"), "{}", page.body);
    assert_eq!(http::get(node.admin_address().unwrap(), "/health").status, 200);
    node.stop().await;
}
