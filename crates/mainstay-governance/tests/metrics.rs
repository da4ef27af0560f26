//! What is measured, as a recorder sees it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and its clock is tokio's"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::batch::{BatchExecutor, BatchSettings, BatchWriter};
use mainstay_governance::cache::{self, CacheSettings, CacheSource, SmartCache, StaleMode, WriteMode};
use mainstay_governance::limit::{self, ConcurrencyLimiter, RateLimit, RateLimiter};
use mainstay_governance::metric;
use mainstay_governance::owner::{Opening, Resource};
use mainstay_governance::pool::{BreakerSettings, Coordination, PoolSettings, ResourcePool};
use mainstay_governance::resolve::{self, PhysicalResource, Policy, Resolver, ResolverSettings};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use parking_lot::Mutex;

/// Keeps the last value of each metric, and of histograms how many values there were.
#[derive(Clone, Default)]
struct Recorded {
    values: Arc<Mutex<BTreeMap<String, f64>>>,
    described: Arc<Mutex<BTreeMap<String, String>>>,
}

struct Series(Recorded, String);

impl Series {
    fn change(&self, change: impl FnOnce(&mut f64)) {
        change(self.0.values.lock().entry(self.1.clone()).or_default());
    }
}

impl CounterFn for Series {
    fn increment(&self, value: u64) {
        self.change(|it| *it += value as f64);
    }

    fn absolute(&self, value: u64) {
        self.change(|it| *it = value as f64);
    }
}

impl GaugeFn for Series {
    fn increment(&self, value: f64) {
        self.change(|it| *it += value);
    }

    fn decrement(&self, value: f64) {
        self.change(|it| *it -= value);
    }

    fn set(&self, value: f64) {
        self.change(|it| *it = value);
    }
}

impl HistogramFn for Series {
    fn record(&self, _: f64) {
        self.change(|it| *it += 1.0);
    }
}

impl Recorded {
    fn series(&self, key: &Key) -> Arc<Series> {
        let mut labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        labels.sort();
        Arc::new(Series(self.clone(), format!("{}{{{}}}", key.name(), labels.join(","))))
    }

    fn of(&self, name: &str, labels: &str) -> f64 {
        self.values.lock().get(&format!("{name}{{{labels}}}")).copied().unwrap_or(0.0)
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, about: SharedString) {
        self.described.lock().insert(key.as_str().to_owned(), about.to_string());
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, about: SharedString) {
        self.described.lock().insert(key.as_str().to_owned(), about.to_string());
    }

    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, about: SharedString) {
        self.described.lock().insert(key.as_str().to_owned(), about.to_string());
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key))
    }
}

struct Database;

impl Resource for Database {
    const NAME: &'static str = "database";
    type Handle = ();
    type Job = bool;
    type Reply = ();

    async fn open(&self, _: &Opening) -> Result<()> {
        Ok(())
    }

    async fn run(&self, (): &mut (), fails: bool) -> Result<()> {
        if fails { Err(Error::new(ErrorKind::Retry, "the line is cut")) } else { Ok(()) }
    }

    fn pool_settings(&self) -> PoolSettings {
        let breaker = BreakerSettings { failures_max: 1, ..BreakerSettings::default() };
        PoolSettings { initial_size: 2, coordination: Coordination::Server, breaker, ..PoolSettings::default() }
    }
}

/// Waits until something is so, in virtual time.
async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it was never so");
}

#[tokio::test]
async fn pools_tell_of_members_leases_waits_openings_and_failures() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let node = TestNode::start(|node| ResourcePool::serve(node, Database)).await.unwrap();
    let pool = ResourcePool::<Database>::open(&*node, "orders").await.unwrap();
    let of = |name: &str| recorded.of(name, "pool=orders,resource=database");
    let leases = [pool.lease().await.unwrap(), pool.lease().await.unwrap()];
    let waiting = {
        let pool = pool.clone();
        tokio::spawn(async move { pool.lease().await })
    };
    until(|| of(metric::POOL_WAITING) > 0.0).await;
    assert_eq!((of(metric::POOL_SIZE), of(metric::POOL_LEASED)), (2.0, 2.0));
    leases[0].run(false).await.unwrap();
    leases[0].run(true).await.unwrap_err();
    assert_eq!((of(metric::POOL_OPENS), of(metric::POOL_FAILURES), of(metric::POOL_BREAKER_TRIPS)), (1.0, 1.0, 1.0));
    drop(leases);
    drop(waiting.await.unwrap().unwrap());
    assert_eq!((of(metric::POOL_WAIT), of(metric::POOL_WAITING)), (3.0, 0.0));
    until(|| of(metric::POOL_LEASED) == 0.0).await;
    node.deactivate_actor::<mainstay_governance::pool::PoolCoordinator<Database>>("orders").await.unwrap();
    assert_eq!(of(metric::POOL_SIZE), 0.0, "what is not here is not counted here");
    assert_eq!(recorded.described.lock()[metric::POOL_SIZE], "Members of a pool");
}

struct Picky;

impl BatchWriter<u64> for Picky {
    async fn write(&self, items: &[u64]) -> Result<Vec<()>> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if items.contains(&13) { Err(Error::invalid("13")) } else { Ok(vec![(); items.len()]) }
    }
}

#[tokio::test]
async fn batches_tell_of_items_batches_failures_and_what_waits() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let of = |name: &str| recorded.of(name, "batch=rows");
    let settings = BatchSettings { linger: Duration::from_secs(1), ..BatchSettings::default() };
    let rows = BatchExecutor::start("rows", Picky, settings).unwrap();
    let items: Vec<_> = (0..4).map(|item| rows.try_submit(item).unwrap()).collect();
    assert_eq!(of(metric::BATCH_WAITING), 4.0);
    rows.flush().await;
    for item in items {
        item.await.unwrap();
    }
    let unlucky = rows.try_submit(13).unwrap();
    rows.close().await;
    unlucky.await.unwrap_err();
    assert_eq!((of(metric::BATCH_BATCHES), of(metric::BATCH_ITEMS), of(metric::BATCH_FAILURES)), (2.0, 5.0, 1.0));
    assert_eq!((of(metric::BATCH_WAITING), of(metric::BATCH_WRITE)), (0.0, 2.0));
}

#[tokio::test]
async fn limits_tell_of_permits_refusals_and_who_waits() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let node = TestNode::start(limit::serve).await.unwrap();
    let queries = ConcurrencyLimiter::open(&*node, "queries", 2).await.unwrap();
    let of = |name: &str| recorded.of(name, "kind=concurrency,limit=queries");
    let permit = queries.acquire(2).await.unwrap();
    assert_eq!(of(metric::LIMIT_GRANTED), 2.0);
    queries.acquire_within(1, Duration::from_millis(10)).await.unwrap_err();
    assert!(queries.try_acquire(1).is_none());
    assert_eq!((of(metric::LIMIT_REFUSED), of(metric::LIMIT_WAITING)), (2.0, 0.0));
    let waiting = {
        let queries = queries.clone();
        tokio::spawn(async move { queries.acquire(1).await.map(drop) })
    };
    until(|| of(metric::LIMIT_WAITING) > 0.0).await;
    drop(permit);
    waiting.await.unwrap().unwrap();
    assert_eq!((of(metric::LIMIT_GRANTED), of(metric::LIMIT_WAITING)), (3.0, 0.0));
    let mails = RateLimiter::open(&*node, "mails", RateLimit::per_second(10)).await.unwrap();
    mails.acquire(3).await.unwrap();
    assert_eq!(recorded.of(metric::LIMIT_GRANTED, "kind=rate,limit=mails"), 3.0);
}

#[tokio::test]
async fn resolvers_tell_of_what_they_knew_asked_and_found_moved() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let node = TestNode::start(resolve::serve).await.unwrap();
    let settings = ResolverSettings { policy: Policy::Hash, ..ResolverSettings::default() };
    let users = Resolver::open(&*node, "users", settings).await.unwrap();
    for name in ["db1", "db2"] {
        users.add_resource(PhysicalResource::new(name)).await.unwrap();
    }
    let of = |name: &str| recorded.of(name, "resolver=users");
    let held = users.resolve("alice").await.unwrap();
    users.resolve("alice").await.unwrap();
    assert_eq!((of(metric::RESOLVER_LOOKUPS), of(metric::RESOLVER_HITS)), (1.0, 1.0));
    users.forget("alice").await.unwrap();
    users.begin(&held).await.unwrap_err();
    assert_eq!(of(metric::RESOLVER_MOVED), 1.0);
}

#[derive(Clone, Default)]
struct Table {
    is_down: Arc<Mutex<bool>>,
}

impl CacheSource for Table {
    const NAME: &'static str = "table";
    const SHARDS: u32 = 1;
    type Key = i64;
    type Value = i64;

    async fn load(&self, key: &i64) -> Result<Option<i64>> {
        if *self.is_down.lock() { Err(Error::invalid("down")) } else { Ok(Some(*key)) }
    }

    async fn store(&self, _: &[(i64, Option<i64>)]) -> Result<()> {
        if *self.is_down.lock() { Err(Error::new(ErrorKind::Retry, "down")) } else { Ok(()) }
    }
}

#[tokio::test]
async fn caches_tell_of_hits_misses_stale_values_refreshes_failures_and_what_is_buffered() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let settings = CacheSettings {
        fresh_for: Duration::from_secs(60),
        refresh_ahead: None,
        stale_for: Some(Duration::from_secs(60)),
        stale: StaleMode::WhileRevalidate,
        writes: WriteMode::Behind { flush_after: Duration::from_secs(1000) },
        attempts: 1,
        ..CacheSettings::default()
    };
    let table = Table::default();
    let source = table.clone();
    let node = TestNode::start(move |node| cache::serve(node, source.clone(), settings.clone())).await.unwrap();
    let cache = SmartCache::<Table>::open(&*node).unwrap();
    let of = |name: &str| recorded.of(name, "cache=table");
    cache.get(&1).await.unwrap();
    cache.get(&1).await.unwrap();
    assert_eq!((of(metric::CACHE_MISSES), of(metric::CACHE_HITS)), (1.0, 1.0));
    node.advance(Duration::from_secs(60)).await;
    cache.get(&1).await.unwrap();
    assert_eq!((of(metric::CACHE_STALE), of(metric::CACHE_REFRESHES)), (1.0, 1.0));
    node.advance(Duration::from_secs(1)).await;
    *table.is_down.lock() = true;
    cache.get(&2).await.unwrap_err();
    cache.put(3, 3).await.unwrap();
    assert_eq!(of(metric::CACHE_BUFFERED), 1.0);
    cache.flush().await.unwrap_err();
    let failures = |operation: &str| recorded.of(metric::CACHE_FAILURES, &format!("cache=table,operation={operation}"));
    assert_eq!((failures("load"), failures("store")), (1.0, 1.0));
    *table.is_down.lock() = false;
    cache.flush().await.unwrap();
    assert_eq!(of(metric::CACHE_BUFFERED), 0.0);
}
