use std::sync::Arc;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::resolve::{self, Catalog, PhysicalResource, Policy, ResolutionSource, Sources};
use parking_lot::Mutex;

use super::{home, open};

/// A table that others keep, and that can be away.
#[derive(Clone, Default)]
struct Table {
    rows: Arc<Mutex<Option<Catalog>>>,
}

impl ResolutionSource for Table {
    async fn load(&self) -> Result<Catalog> {
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.rows.lock().clone().ok_or_else(|| Error::new(ErrorKind::Retry, "the table is away"))
    }
}

impl Table {
    fn say(&self, entities: &[(i64, &str)]) {
        let resources = vec![PhysicalResource::new("db1"), PhysicalResource::new("db2")];
        let entities = entities.iter().map(|(entity, name)| ((*entity).into(), (*name).to_owned())).collect();
        *self.rows.lock() = Some(Catalog { resources, entities });
    }
}

const PERIOD: Duration = Duration::from_secs(60);

async fn start() -> (TestNode, Table) {
    let table = Table::default();
    let source = table.clone();
    let node = TestNode::start(move |node| resolve::serve_with(node, Sources::new().with("users", source.clone())));
    (node.await.unwrap(), table)
}

#[tokio::test]
async fn a_source_is_copied_by_timer_and_what_it_moves_is_moved() {
    let (mut node, table) = start().await;
    table.say(&[(1, "db1"), (2, "db2")]);
    let users = open(&node, Policy::Refuse).await;
    users.refresh_every(PERIOD).await.unwrap();
    node.advance(Duration::from_secs(5)).await;
    assert_eq!((home(&users, 1).await, home(&users, 2).await), ("db1".into(), "db2".into()));
    let held = users.resolve(1).await.unwrap();

    table.say(&[(1, "db2"), (3, "db1")]);
    node.advance(2 * PERIOD).await;
    assert!(resolve::Moved::is(&users.begin(&held).await.unwrap_err()));
    assert_eq!((home(&users, 1).await, home(&users, 3).await), ("db2".into(), "db1".into()));
    assert_eq!(home(&users, 2).await, "db2", "what a source does not name stays");

    node.kill().await.unwrap();
    table.say(&[(1, "db1")]);
    let users = open(&node, Policy::Refuse).await;
    node.advance(2 * PERIOD).await;
    assert_eq!(home(&users, 1).await, "db1", "it goes on after a restart");
}

#[tokio::test]
async fn what_was_drained_stays_drained_until_it_is_added_again() {
    let (node, table) = start().await;
    table.say(&[(1, "db1"), (2, "db2")]);
    let users = open(&node, Policy::LeastLoaded).await;
    assert_eq!(users.refresh().await.unwrap().refusal, None);
    let partitions = async || users.resources().await.unwrap().into_iter().map(|(_, on_it)| on_it.len());
    let before: usize = partitions().await.sum();
    users.drain_resource("db1", super::LONG).await.unwrap();

    table.say(&[(1, "db1"), (2, "db2"), (3, "db1")]);
    let status = users.refresh().await.unwrap();
    assert_eq!(status.refusal, None, "what a source says of a drained resource is no failure");
    assert_eq!((home(&users, 1).await, home(&users, 3).await), ("db2".into(), "db2".into()));
    assert_eq!(partitions().await.collect::<Vec<_>>(), [0, before]);

    users.add_resource(PhysicalResource::new("db1")).await.unwrap();
    users.refresh().await.unwrap();
    assert_eq!((home(&users, 1).await, home(&users, 3).await), ("db1".into(), "db1".into()));
}

#[tokio::test]
async fn the_last_good_copy_answers_while_the_source_is_down_and_its_age_is_known() {
    let (mut node, table) = start().await;
    table.say(&[(1, "db1")]);
    let users = open(&node, Policy::Refuse).await;
    assert_eq!(users.source_status().await.unwrap().age, None);
    let status = users.refresh().await.unwrap();
    assert_eq!((status.age.unwrap().as_secs(), status.refusal), (0, None));

    *table.rows.lock() = None;
    node.advance(PERIOD).await;
    let status = users.refresh().await.unwrap();
    assert_eq!(status.age.unwrap().as_secs(), 60);
    assert!(status.refusal.unwrap().contains("the table is away"));
    assert_eq!(home(&users, 1).await, "db1");
    node.kill().await.unwrap();
    let users = open(&node, Policy::Refuse).await;
    assert_eq!(home(&users, 1).await, "db1");
    assert!(users.source_status().await.unwrap().age.unwrap() >= PERIOD);

    table.say(&[(1, "db2")]);
    assert_eq!(users.refresh().await.unwrap().refusal, None);
    assert_eq!(home(&users, 1).await, "db2");
}

#[tokio::test]
async fn of_a_catalog_with_something_that_cannot_be_nothing_is_taken_over() {
    let (node, table) = start().await;
    let users = open(&node, Policy::Refuse).await;
    table.say(&[(1, "db1")]);
    let good = table.rows.lock().clone().unwrap();
    let mut nameless = good.clone();
    nameless.resources.push(PhysicalResource::new(""));
    let mut too_long = good;
    too_long.entities.push(("x".repeat(resolve::ENTITY_BYTES_MAX + 1).into(), "db1".to_owned()));
    for bad in [nameless, too_long] {
        *table.rows.lock() = Some(bad);
        assert!(users.refresh().await.unwrap().refusal.is_some());
        assert_eq!(users.resources().await.unwrap(), [], "not even what is right in it");
    }
    table.say(&[(1, "db1")]);
    assert_eq!(users.refresh().await.unwrap().refusal, None);
    assert_eq!(home(&users, 1).await, "db1");
}

#[tokio::test]
async fn a_source_that_nobody_has_given_and_a_catalog_that_cannot_be_are_told() {
    let (node, table) = start().await;
    let other = mainstay_governance::resolve::Resolver::open(&*node, "others", Default::default()).await.unwrap();
    let error = other.refresh_every(PERIOD).await.unwrap_err();
    assert!(error.to_string().contains("\"others\" has no source"), "{error}");
    let users = open(&node, Policy::Refuse).await;
    table.say(&[(1, "db3")]);
    let refusal = users.refresh().await.unwrap().refusal.unwrap();
    assert!(refusal.contains("no resource \"db3\""), "{refusal}");
}
