//! What a node says of itself when its disk fails or fills up.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "these are tests of applications, which use tokio as it is")]

#[path = "admin/http.rs"]
#[allow(dead_code, reason = "other tests send more")]
mod http;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fmt, io};

use mainstay::node::Health;
use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay_store::disk::sim::{DiskOp, Fault};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt as _};

use crate::http::get;

/// One at a time: the metrics are those of the process.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

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

/// The errors in the log of the process.
static ERRORS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct ErrorListener;

impl<S: Subscriber> Layer<S> for ErrorListener {
    fn on_event(&self, event: &Event<'_>, _: LayerContext<'_, S>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.0 += &format!("{}={value:?} ", field.name());
            }
        }
        if *event.metadata().level() == Level::ERROR {
            let mut text = Text(String::new());
            event.record(&mut text);
            ERRORS.lock().unwrap().push(text.0);
        }
    }
}

/// The beginnings of the errors of a log and of a set that has stopped. Other errors may have them as their cause.
const LOG_STOPPED: &str = "message=the node log has stopped";
const SET_STOPPED: &str = "message=the replica of a set has stopped";

/// Whether a set that has stopped was told.
fn is_set_told() -> bool {
    ERRORS.lock().unwrap().iter().any(|error| error.starts_with(SET_STOPPED))
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

/// A node on a simulated disk, with an address for operators.
async fn on(disk: &SimDisk) -> Node {
    let node = Node::builder().isolated().data_dir("/data").admin_address(loopback()).disk(Arc::new(disk.clone()));
    node.service::<TallyService>().start().await.unwrap()
}

/// Waits until the health of a node is as it should be.
async fn await_health(node: &Node, is_so: impl Fn(&Health) -> bool) -> Health {
    for _ in 0..1000 {
        let health = node.health().unwrap();
        if is_so(&health) {
            return health;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", node.health());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_has_stopped_is_told_in_health_metrics_and_the_log() {
    let _alone = ALONE.lock().await;
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(ErrorListener)).unwrap();
    for (fault, has_log_stopped) in [
        (Fault::on(DiskOp::Sync).path(".segment").times(u64::MAX), true),
        // The log goes on, but a set whose entry it cannot take does not.
        (Fault::on(DiskOp::Allocate).path(".segment").times(u64::MAX).kind(io::ErrorKind::StorageFull), false),
    ] {
        let disk = SimDisk::new(1);
        let node = on(&disk).await;
        let address = node.admin_address().unwrap();
        let tally: TallyRef = node.service(()).unwrap();
        tally.put(1).await.unwrap();
        assert!(node.health().unwrap().is_well());
        let well = samples(&get(address, "/metrics").body);
        assert_eq!(sum(&well, "mainstay_replica_stopped{set=\"persisted"), 0.0);

        disk.inject(fault);
        let mut left = 100_000;
        while tally.put(left).await.is_ok() {
            left -= 1;
            assert!(left > 0, "the disk takes everything");
        }
        let health = await_health(&node, |health| !health.stopped.is_empty()).await;
        // The health is there first: an error of a replica follows when it has ended.
        for _ in 0..1000 {
            if is_set_told() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let errors = std::mem::take(&mut *ERRORS.lock().unwrap());
        let told = |start: &str| errors.iter().filter(|error| error.starts_with(start)).count();
        assert_eq!(told(LOG_STOPPED), usize::from(has_log_stopped), "{errors:#?}");
        assert!(told(SET_STOPPED) > 0, "{errors:#?}");
        for error in errors.iter().filter(|error| error.starts_with(LOG_STOPPED) || error.starts_with(SET_STOPPED)) {
            assert!(error.contains("cause=") && error.contains("mend the cause and restart the node"), "{error}");
        }
        assert!(health.has_stopped() && health.log_failure.is_some() == has_log_stopped, "{health:?}");
        let page = get(address, "/health");
        assert_eq!(page.status, 503);
        let text = page.body;
        assert!(text.starts_with("failing\n") && text.contains("set persisted-"), "{text}");
        assert!(text.contains("mend that and restart the node"), "{text}");
        assert_eq!(text.contains("the node log has stopped: "), has_log_stopped, "{text}");
        let failing = samples(&get(address, "/metrics").body);
        assert!(sum(&failing, "mainstay_replica_stopped{set=\"persisted") >= 1.0);
        assert_eq!(sum(&failing, "mainstay_log_stopped"), f64::from(u8::from(has_log_stopped)));
        node.stop().await;
        assert!(node.health().is_none(), "a node that has stopped says nothing");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn low_space_is_told_and_passes() {
    let _alone = ALONE.lock().await;
    let disk = SimDisk::new(1);
    let node = on(&disk).await;
    let address = node.admin_address().unwrap();
    let tally: TallyRef = node.service(()).unwrap();
    tally.put(1).await.unwrap();
    disk.set_capacity(Some(disk.used_bytes()));
    let refused = loop {
        if let Err(error) = tally.put(2).await {
            break error;
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Overloaded, "{refused}");
    assert!(refused.to_string().contains("free or add room"), "{refused}");
    assert!(node.health().unwrap().low_space.is_some() && !node.health().unwrap().has_stopped());
    let page = get(address, "/health");
    assert_eq!(page.status, 200, "a restart makes no room");
    assert!(
        page.body.starts_with("running\ncommits are refused: ") && page.body.contains("free or add room"),
        "{}",
        page.body
    );
    assert_eq!(sum(&samples(&get(address, "/metrics").body), "mainstay_log_low_space"), 1.0);
    disk.set_capacity(None);
    await_health(&node, Health::is_well).await;
    tally.put(3).await.unwrap();
    node.stop().await;
}
