//! What operators see of a running node, over a real socket.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod http;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};

use mainstay::prelude::*;

use crate::http::{exchange, get};

#[interface]
trait Tally {
    async fn put(&self, value: u64) -> Result<()>;
}

#[derive(Service)]
#[service(implements(Tally), partitions = singleton)]
struct TallyService {
    values: Dictionary<String, u64>,
    state: StateManager,
}

impl Tally for TallyService {
    async fn put(&self, value: u64) -> Result<()> {
        let mut tx = self.state.begin();
        self.values.set(&mut tx, "the".into(), value).await?;
        tx.commit().await.map(drop)
    }
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// The samples of a page, by name and labels; fails on a line that Prometheus would not read.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    for line in page.lines().filter(|line| !line.is_empty()) {
        if let Some(comment) = line.strip_prefix("# ") {
            assert!(comment.starts_with("HELP ") || comment.starts_with("TYPE "), "{line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
        let name = series.split('{').next().unwrap_or_default();
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{line}");
        assert_eq!(series.contains('{'), series.ends_with('}'), "{line}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
    }
    samples
}

fn sum(samples: &BTreeMap<String, f64>, start: &str) -> f64 {
    let found: Vec<_> = samples.iter().filter(|(series, _)| series.starts_with(start)).collect();
    assert!(!found.is_empty(), "no {start} in {:?}", samples.keys());
    found.iter().map(|(_, value)| **value).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_served_and_count_what_happens() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::builder()
        .isolated()
        .data_dir(folder.path())
        .admin_address(loopback())
        .service::<TallyService>()
        .start()
        .await
        .unwrap();
    let address = node.admin_address().unwrap();
    assert!(address.ip().is_loopback() && address.port() != 0, "{address}");
    let tally: TallyRef = node.service(()).unwrap();
    tally.put(1).await.unwrap();

    let page = get(address, "/metrics");
    assert_eq!(page.status, 200);
    assert!(page.head.contains("content-type: text/plain; version=0.0.4"), "{}", page.head);
    assert!(page.body.contains("# TYPE mainstay_replica_commits_total counter"), "{}", page.body);
    assert!(page.body.contains("# HELP mainstay_log_bytes_total Bytes written to the node log"), "{}", page.body);
    assert!(page.body.contains("# TYPE mainstay_log_flush_seconds histogram"), "{}", page.body);
    let before = samples(&page.body);
    for _ in 0..20 {
        tally.put(2).await.unwrap();
    }
    let after = samples(&get(address, "/metrics").body);
    let grown = |start: &str| sum(&after, start) - sum(&before, start);
    assert!(grown("mainstay_replica_commits_total{set=\"persisted") >= 20.0);
    assert!(grown("mainstay_replica_commit_seconds_count{set=\"persisted") >= 20.0);
    assert!(grown("mainstay_replica_commit_seconds_sum{set=\"persisted") > 0.0);
    assert!(grown("mainstay_log_flushes_total") >= 20.0);
    assert!(grown("mainstay_log_bytes_total") >= 20.0 * 512.0, "a block is at least a sector");
    assert_eq!(grown("mainstay_log_flush_seconds_count"), grown("mainstay_log_flushes_total"));
    assert_eq!(sum(&after, "mainstay_replica_throttled_total"), 0.0);
    for metric in ["replica_checkpoint_bytes_total", "replica_copied_bytes_total", "store_entries", "store_bytes"] {
        let series = format!("mainstay_{metric}{{set=\"persisted");
        assert!(after.keys().any(|key| key.starts_with(&series)), "{metric}");
    }

    assert_eq!(get(address, "/health").body, "running\n");
    assert_eq!(get(address, "/").status, 404);
    let post =
        exchange(address, b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert!(post.starts_with("HTTP/1.1 405 ") && post.contains("allow: GET, HEAD"), "{post}");
    let lower = |byte: u8| vec![byte; 64 << 10];
    for garbage in
        [b"\x16\x03\x01\0\0".to_vec(), b"GET\r\n\r\n".to_vec(), lower(b'a'), [b"GET /".to_vec(), lower(b'b')].concat()]
    {
        let answer = exchange(address, &garbage);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert_eq!(get(address, "/health").status, 200, "whatever was sent, the server goes on");

    let second = Node::builder().isolated().data_dir(folder.path().join("second")).admin_address(address).start().await;
    let error = second.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains(&address.to_string()) && error.to_string().contains("admin.address"), "{error}");
    assert!(!folder.path().join("second").exists(), "nothing is touched before the address is there");

    node.stop().await;
    assert!(TcpStream::connect(address).is_err(), "a node that has stopped does not listen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_address_nothing_listens() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::builder().isolated().data_dir(folder.path()).start().await.unwrap();
    assert_eq!(node.admin_address(), None);
    node.stop().await;
}
