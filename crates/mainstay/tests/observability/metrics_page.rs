//! Every metric of actors, counted by a node and asked for over a socket.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use mainstay::prelude::*;
use tokio::sync::Semaphore;

use crate::http::get;

/// Lets `hold` go on.
static RELEASED: Semaphore = Semaphore::const_new(0);

#[interface]
trait Metered {
    async fn add(&mut self, n: i64) -> Result<i64>;
    async fn count(&self) -> Result<i64>;
    async fn fail(&mut self) -> Result<()>;
    async fn burst(&mut self) -> Result<()>;
    async fn hold(&mut self) -> Result<()>;
    async fn doze(&mut self) -> Result<()>;
    async fn set_timer(&mut self) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Metered), persistence = "persisted", partitions = 2)]
struct MeteredActor {
    count: State<i64>,
    ctx: Context,
}

impl Lifecycle for MeteredActor {}

impl MeteredActor {
    async fn ticked(&mut self) -> Result<()> {
        *self.count += 1;
        Ok(())
    }
}

impl Metered for MeteredActor {
    async fn add(&mut self, n: i64) -> Result<i64> {
        *self.count += n;
        Ok(*self.count)
    }

    async fn count(&self) -> Result<i64> {
        Ok(*self.count)
    }

    async fn fail(&mut self) -> Result<()> {
        Err(Error::invalid("on purpose"))
    }

    async fn burst(&mut self) -> Result<()> {
        panic!("on purpose");
    }

    async fn hold(&mut self) -> Result<()> {
        RELEASED.acquire().await.unwrap().forget();
        Ok(())
    }

    async fn doze(&mut self) -> Result<()> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    }

    async fn set_timer(&mut self) -> Result<()> {
        self.ctx.set_timer("t", Duration::ZERO, None, MeteredActor::ticked).map(drop)
    }
}

/// The samples of the page that are about actors of the type, without its label.
struct Samples(BTreeMap<String, f64>);

impl Samples {
    fn of(address: SocketAddr) -> Self {
        let page = get(address, "/metrics");
        assert_eq!(page.status, 200, "{}", page.head);
        let samples = page.body.lines().filter(|line| line.contains("{actor=\"MeteredActor\"")).map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let series = series.replace("{actor=\"MeteredActor\"}", "").replace("actor=\"MeteredActor\",", "");
            (series, value.parse().unwrap())
        });
        Self(samples.collect())
    }

    fn get(&self, series: &str) -> f64 {
        *self.0.get(series).unwrap_or_else(|| panic!("no {series} in {:#?}", self.0.keys()))
    }

    fn method(&self, name: &str, method: &str) -> f64 {
        self.get(&format!("{name}{{method={method:?}}}"))
    }
}

/// Asks for the page until it says what it should.
async fn until(address: SocketAddr, what: &str, is_so: impl Fn(&Samples) -> bool) -> Samples {
    let mut last = Samples::of(address);
    for _ in 0..2000 {
        if is_so(&last) {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        last = Samples::of(address);
    }
    panic!("it never was so that {what}: {:#?}", last.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_metric_of_actors_is_there_and_counts_what_happens() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::builder()
        .isolated()
        .data_dir(folder.path())
        .admin_address(SocketAddr::from(([127, 0, 0, 1], 0)))
        .actor::<MeteredActor>()
        .actor_defaults(|settings| {
            settings.mailbox = 4;
            settings.slow_turn = Duration::from_millis(10);
        })
        .start()
        .await
        .unwrap();
    let address = node.admin_address().unwrap();
    let a: MeteredRef = node.actor("a").unwrap();
    for _ in 0..10 {
        a.add(1).await.unwrap();
    }
    for _ in 0..5 {
        assert_eq!(a.count().await.unwrap(), 10);
    }
    for _ in 0..3 {
        a.fail().await.unwrap_err();
    }
    a.doze().await.unwrap();
    a.set_timer().await.unwrap();
    let samples = until(address, "the timer has run", |samples| {
        samples.0.get("mainstay_actor_invocations_total{method=\"timer\"}") == Some(&1.0)
    })
    .await;
    for (method, count) in [("add", 10.0), ("count", 5.0), ("fail", 3.0), ("doze", 1.0), ("activate", 1.0)] {
        assert_eq!(samples.method("mainstay_actor_invocations_total", method), count, "{method}");
        assert_eq!(samples.method("mainstay_actor_turn_seconds_count", method), count, "{method}");
        let failures = if method == "fail" { 3.0 } else { 0.0 };
        assert_eq!(samples.method("mainstay_actor_failures_total", method), failures, "{method}");
        if method != "activate" {
            assert_eq!(samples.method("mainstay_actor_request_seconds_count", method), count, "{method}");
        }
    }
    assert_eq!(samples.method("mainstay_actor_slow_turns_total", "doze"), 1.0);
    assert!(samples.method("mainstay_actor_turn_seconds_sum", "doze") >= 0.02);
    let request = samples.method("mainstay_actor_request_seconds_sum", "add");
    assert!(request > samples.method("mainstay_actor_turn_seconds_sum", "add"), "the commit is a part of it");
    // Each call waited for its own; the timer may share one with nobody.
    assert!(samples.get("mainstay_actor_state_save_seconds_count") >= 10.0);
    assert!(samples.get("mainstay_actor_state_save_seconds_sum") > 0.0);
    assert_eq!(samples.get("mainstay_actor_state_load_seconds_count"), 1.0);
    assert_eq!(samples.get("mainstay_actor_activation_seconds_count"), 1.0);
    assert_eq!(samples.get("mainstay_actor_activations_total"), 1.0);
    assert_eq!(samples.get("mainstay_actor_deactivations_total"), 0.0);
    assert_eq!(samples.get("mainstay_actor_active"), 1.0);
    assert_eq!(samples.get("mainstay_actor_mailbox_full_total"), 0.0);

    let waited = samples.get("mainstay_actor_turn_wait_seconds_count");
    let holding = tokio::spawn({
        let a = a.clone();
        async move { a.hold().await }
    });
    until(address, "one holds the actor", |samples| {
        samples.0.get("mainstay_actor_invocations_total{method=\"hold\"}") == Some(&1.0)
    })
    .await;
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let a = a.clone();
            tokio::spawn(async move { a.add(1).await })
        })
        .collect();
    let busy = until(address, "one runs and four wait", |samples| samples.get("mainstay_actor_calls_waiting") == 4.0);
    assert_eq!(busy.await.get("mainstay_actor_requests_outstanding"), 5.0);
    assert_eq!(a.count().await.unwrap_err().kind(), ErrorKind::Overloaded);
    RELEASED.add_permits(1);
    holding.await.unwrap().unwrap();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let b: MeteredRef = node.actor("b").unwrap();
    b.add(1).await.unwrap();
    b.burst().await.unwrap_err();
    let samples = Samples::of(address);
    assert_eq!(samples.get("mainstay_actor_calls_waiting"), 0.0);
    assert_eq!(samples.get("mainstay_actor_requests_outstanding"), 0.0);
    assert_eq!(samples.get("mainstay_actor_mailbox_full_total"), 1.0);
    assert_eq!(samples.get("mainstay_actor_turn_wait_seconds_count"), waited + 4.0);
    assert!(samples.get("mainstay_actor_turn_wait_seconds_sum") > 0.0);
    assert_eq!(samples.method("mainstay_actor_failures_total", "burst"), 1.0);
    assert_eq!(samples.method("mainstay_actor_turn_seconds_count", "burst"), 1.0);
    // Whoever panics is reset.
    assert_eq!(samples.get("mainstay_actor_activations_total"), 2.0);
    assert_eq!(samples.get("mainstay_actor_deactivations_total"), 1.0);
    assert_eq!(samples.get("mainstay_actor_active"), 1.0);
    a.delete_actor().await.unwrap();
    assert_eq!(Samples::of(address).get("mainstay_actor_active"), 0.0);
    node.stop().await;
}

#[test]
fn the_guide_lists_every_metric_and_no_other() {
    let guide = include_str!("../../../../docs/guide/observability.md");
    // What governance adds is held against its own list, by a test of that crate.
    let (guide, _) = guide.split_once("`mainstay::governance` adds these.").unwrap();
    let listed = guide.lines().filter_map(|line| line.strip_prefix("| `mainstay_")?.split('`').next());
    let listed: BTreeSet<_> = listed.map(|name| format!("mainstay_{name}")).collect();
    let known: BTreeSet<_> = mainstay_runtime::metric::ALL.iter().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(listed, known);
}
