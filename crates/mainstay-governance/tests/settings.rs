//! What operators set goes over what the code says, in every part.
#![allow(clippy::disallowed_methods, reason = "these are tests of applications, which use tokio as it is")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::pending;
use std::time::Duration;

use mainstay::node::NodeBuilder;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::batch::durable::{DurableBatch, DurableQueueRef, DurableSettings, DurableWriter, Numbered};
use mainstay_governance::batch::{self, BatchSettings};
use mainstay_governance::cache::{self, CacheSettings, CacheSource, SmartCache};
use mainstay_governance::limit::{self, ConcurrencyLimiter, LimiterSettings, RateLimit, RateLimiter};
use mainstay_governance::owner::{Opening, OwnerRef, OwnerSettings, Resource, ResourceOwner};
use mainstay_governance::pool::{PoolSettings, ResourcePool};
use mainstay_governance::resolve::{self, Resolver, ResolverSettings};
use mainstay_governance::sink::csv::{CsvFolder, CsvRow, CsvSettings};
use tokio::time::timeout;

/// How long a test waits for what is to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A thing whose jobs never end, and whose code says what cannot be: a job of no time, a pool of none.
struct Hanging;

impl Resource for Hanging {
    const NAME: &'static str = "hanging";
    type Handle = ();
    type Job = ();
    type Reply = ();

    async fn open(&self, _: &Opening) -> Result<()> {
        Ok(())
    }

    async fn run(&self, (): &mut (), (): ()) -> Result<()> {
        pending().await
    }

    fn owner_settings(&self) -> OwnerSettings {
        OwnerSettings { job_time_max: Duration::ZERO, ..OwnerSettings::default() }
    }

    fn pool_settings(&self) -> PoolSettings {
        PoolSettings { initial_size: 0, ..PoolSettings::default() }
    }
}

/// A node on which operators have set this.
async fn node(set: &'static [(&'static str, &'static str)], serve: fn(NodeBuilder) -> NodeBuilder) -> TestNode {
    let build = move |node| set.iter().fold(serve(node), |node, (key, value)| node.set(*key, *value));
    TestNode::start(build).await.unwrap()
}

#[tokio::test]
async fn owners_and_pools_are_as_operators_set_them() {
    let set = &[("governance.owners.hanging.job_time_max", "7ms"), ("governance.pools.hanging.initial_size", "3")];
    let serve = |node| ResourcePool::<Hanging>::serve_provided(ResourceOwner::serve(node, Hanging));
    let node = node(set, serve).await;
    let owner: OwnerRef<Hanging> = node.actor("one").unwrap();
    let error = owner.run(()).await.unwrap_err();
    assert!(error.to_string().contains("7ms"), "{error}");
    let pool = ResourcePool::<Hanging>::open(&node, "few").await.unwrap();
    assert_eq!(pool.status().await.unwrap().size, 3);
    let error = pool.run(()).await.unwrap_err();
    assert!(error.to_string().contains("7ms"), "a member is an owner: {error}");
}

#[tokio::test]
async fn a_pool_gives_its_node_the_sections_of_its_members() {
    let set = &[("governance.owners.hanging.job_time_max", "7ms"), ("governance.pools.hanging.initial_size", "3")];
    let node = node(set, |node| ResourcePool::serve(node, Hanging)).await;
    assert_eq!(ResourcePool::<Hanging>::open(&node, "few").await.unwrap().status().await.unwrap().size, 3);
    let entries = node.settings().entries();
    let origin = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| entry.origin.kind());
    assert_eq!(origin("governance.pools.hanging.initial_size"), Some("builder"));
    assert_eq!(origin("governance.owners.hanging.open_time_max"), Some("default"));
}

#[tokio::test]
async fn resolvers_are_as_operators_set_them() {
    let code = || ResolverSettings { lease: Duration::ZERO, ..ResolverSettings::default() };
    let node = node(&[("governance.resolvers.users.lease", "2s")], resolve::serve).await;
    Resolver::open(&node, "users", code()).await.unwrap();
    let error = Resolver::open(&node, "others", code()).await.unwrap_err();
    assert!(error.to_string().contains("lease is 0ns"), "only the one that was named: {error}");
}

#[tokio::test]
async fn limits_are_as_operators_set_them() {
    let set = &[("governance.limits.mail.wait_max", "1ms"), ("governance.limits.mail.lease", "2s")];
    let node = node(set, limit::serve).await;
    // The code would have callers wait for ever, and holders be trusted for no time.
    let code = || LimiterSettings { wait_max: Duration::MAX, lease: Duration::ZERO, ..LimiterSettings::default() };
    let mail = ConcurrencyLimiter::open_with(&node, "mail", 1, code()).await.unwrap();
    let _permit = mail.acquire_within(1, PATIENCE).await.unwrap();
    let refused = timeout(PATIENCE, mail.acquire(1)).await.expect("operators let nobody wait for so long");
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Timeout);

    // All of an hour is there at first, and then not for another hour.
    let hourly = RateLimit::per_second(1).with_burst(3600);
    let mail = RateLimiter::open_with(&node, "mail", hourly, code()).await.unwrap();
    mail.acquire_within(3600, PATIENCE).await.unwrap();
    let refused = timeout(PATIENCE, mail.acquire(3600)).await.expect("operators let nobody wait for so long");
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Timeout);
}

struct Prices;

impl CacheSource for Prices {
    const NAME: &'static str = "prices";
    type Key = String;
    type Value = u64;

    async fn load(&self, _: &String) -> Result<Option<u64>> {
        pending().await
    }
}

#[tokio::test]
async fn caches_are_as_operators_set_them() {
    let set = &[("governance.caches.prices.source_timeout", "3ms"), ("governance.caches.prices.attempts", "1")];
    let serve = |node| cache::serve(node, Prices, CacheSettings { attempts: 0, ..CacheSettings::default() });
    let node = node(set, serve).await;
    let error = SmartCache::<Prices>::open(&node).unwrap().get(&"apple".to_owned()).await.unwrap_err();
    assert!(error.to_string().contains("3ms (source_timeout)"), "{error}");

    // Each shard needs its share, which the node knows.
    let few =
        |node| cache::serve(node, Prices, CacheSettings::default()).set("governance.caches.prices.entries_max", "3");
    let error = TestNode::start(few).await.unwrap_err();
    assert!(error.to_string().contains("entries_max of the cache is 3: use at least 16"), "{error}");
}

#[tokio::test]
async fn batches_are_as_operators_set_them_where_the_code_asks() {
    let set = &[("governance.batches.rows.items_max", "7"), ("governance.batches.others.bytes_max", "1KiB")];
    let node = node(set, batch::serve).await;
    let code = BatchSettings { items_max: 5, in_flight_max: 2, ..BatchSettings::default() };
    let rows = code.clone().in_force(&node, "rows").unwrap();
    assert_eq!((rows.items_max, rows.in_flight_max), (7, 2));
    let error = code.in_force(&node, "others").unwrap_err();
    assert!(error.to_string().contains("governance.batches.others.bytes_max has no meaning"), "{error}");
}

struct Nowhere;

impl DurableWriter for Nowhere {
    const NAME: &'static str = "nowhere";
    type Item = u64;
    type Handle = ();
    type Mark = ();

    async fn open(&self, _: &Opening) -> Result<()> {
        Ok(())
    }

    async fn begin(&self, (): &mut ()) -> Result<()> {
        Ok(())
    }

    async fn write(&self, (): &mut (), (): &(), _: &[Numbered<u64>]) -> Result<()> {
        Ok(())
    }

    fn settings(&self) -> DurableSettings {
        DurableSettings { linger: Duration::from_secs(3600), ..DurableSettings::default() }
    }
}

#[tokio::test]
async fn queues_are_as_operators_set_them() {
    let set = &[("governance.queues.nowhere.waiting_items_max", "2")];
    let node = node(set, |node| DurableBatch::serve(node, Nowhere)).await;
    let queue: DurableQueueRef<Nowhere> = node.actor("line").unwrap();
    queue.append_all(vec![1, 2]).await.unwrap();
    assert_eq!(queue.append(3).await.unwrap_err().kind(), ErrorKind::Overloaded);
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Visit {
    page: String,
}

impl CsvRow for Visit {
    const OWNER: &'static str = "visit-files";
    const QUEUE: &'static str = "visit-queues";
}

/// A node with files that the code has in one folder and operators in another.
async fn with_files(
    place: &std::path::Path,
    serve: fn(NodeBuilder, CsvFolder<Visit>) -> NodeBuilder,
) -> (TestNode, impl Fn(&str) -> String) {
    let (by_code, by_operators) = (place.join("code"), place.join("operators"));
    let folder = by_operators.clone();
    let build = move |node| {
        let files = CsvFolder::<Visit>::new(CsvSettings::in_folder(&by_code));
        let node = serve(node, files).set("governance.csv.visit-files.folder", folder.to_str().unwrap());
        node.set("governance.csv.visit-files.rotation.rows_max", "1")
    };
    let node = TestNode::start(build).await.unwrap();
    (node, move |name| std::fs::read_to_string(by_operators.join(name)).unwrap())
}

#[tokio::test]
async fn files_of_owners_are_as_operators_set_them() {
    let place = tempfile::tempdir().unwrap();
    let (node, rows) = with_files(place.path(), ResourceOwner::serve).await;
    let owner: OwnerRef<CsvFolder<Visit>> = node.actor("owned").unwrap();
    for page in ["a", "b"] {
        owner.run(vec![Visit { page: page.into() }]).await.unwrap();
    }
    assert_eq!([rows("owned-000001.csv"), rows("owned-000002.csv")], ["page\na\n", "page\nb\n"]);
}

#[tokio::test]
async fn files_of_queues_are_as_operators_set_them() {
    let place = tempfile::tempdir().unwrap();
    let (node, rows) = with_files(place.path(), DurableBatch::serve).await;
    let queue: DurableQueueRef<CsvFolder<Visit>> = node.actor("queued").unwrap();
    queue.append(Visit { page: "c".into() }).await.unwrap();
    queue.flush().await.unwrap();
    assert_eq!(rows("queued-000001.csv"), "page\nc\n");
}
