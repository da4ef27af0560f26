//! What needs a holder that does not behave, which nobody outside can be.

use std::collections::BTreeSet;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use tokio::time::Instant;

use super::chart::Chart;
use super::holders::{Report, WAITERS_MAX};
use super::map::ResolverMapRef;
use super::*;

const LEASE: Duration = Duration::from_secs(3);

async fn start() -> (TestNode, Resolver) {
    let node = TestNode::start(serve).await.unwrap();
    let users = open(&node).await;
    users.add_resource(PhysicalResource::new("db1").with_partitions(2)).await.unwrap();
    users.add_resource(PhysicalResource::new("db2").with_partitions(2)).await.unwrap();
    users.assign(7, "db1").await.unwrap();
    (node, users)
}

async fn open(node: &TestNode) -> Resolver {
    let settings = ResolverSettings { shards: 1, lease: LEASE, ..ResolverSettings::default() };
    Resolver::open(&**node, "users", settings).await.unwrap()
}

fn map(node: &TestNode) -> ResolverMapRef {
    node.actor("users").unwrap()
}

async fn attach_silent(node: &TestNode) -> Chart {
    map(node).attach("silent".into(), LEASE.as_millis() as u64, 1, BTreeSet::new()).await.unwrap()
}

#[tokio::test]
async fn a_move_waits_for_a_holder_that_is_silent_until_its_lease_is_over_and_not_longer() {
    let (node, users) = start().await;
    attach_silent(&node).await;
    let begun = Instant::now();
    users.move_entity(7, "db2").await.unwrap();
    assert!(begun.elapsed() >= LEASE && begun.elapsed() < 2 * LEASE, "{:?}", begun.elapsed());
    let begun = Instant::now();
    users.move_partition(0, "db2").await.unwrap();
    assert!(begun.elapsed() < LEASE / 3, "it is gone: {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_move_waits_for_holders_of_before_a_restart() {
    let (mut node, _users) = start().await;
    attach_silent(&node).await;
    node.kill().await.unwrap();
    let users = open(&node).await;
    let begun = Instant::now();
    users.move_partition(0, "db2").await.unwrap();
    assert!(begun.elapsed() >= LEASE, "whoever was there may still be: {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_move_returns_as_soon_as_the_last_holder_has_heard_of_it() {
    let (node, users) = start().await;
    attach_silent(&node).await;
    let moving = tokio::spawn(async move { users.move_partition(0, "db2").await });
    node.advance(LEASE / 3).await;
    assert!(!moving.is_finished());
    // It hears of it, which is not yet to say so.
    let renewed = map(&node).renew("silent".into(), Report::default()).await.unwrap().unwrap();
    node.advance(Duration::from_millis(10)).await;
    assert!(!moving.is_finished());
    let report = Report { seen: renewed.version, busy: BTreeSet::new() };
    assert_eq!(map(&node).renew("silent".into(), report).await.unwrap(), None);
    moving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_holder_whose_lease_is_over_begins_nothing_before_it_has_heard_from_the_map() {
    let (node, users) = start().await;
    let resolution = users.resolve(7).await.unwrap();
    drop(users.begin(&resolution).await.unwrap());
    // The map cannot be reached, and so time passes without a renewal.
    node.stop().await;
    node.advance(LEASE).await;
    let error = users.begin(&resolution).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
}

#[tokio::test]
async fn a_holder_that_was_forgotten_comes_back_and_knows_what_has_moved_meanwhile() {
    let (node, users) = start().await;
    let held = users.resolve(7).await.unwrap();
    let other = open(&node).await;
    // As if the lease of the first had run out at the map.
    let view_of_first = users.guard("db1");
    drop(other);
    node.advance(Duration::from_millis(1)).await;
    node.deactivate_actor::<map::ResolverMapActor>("users").await.unwrap();
    users.move_entity(7, "db2").await.unwrap();
    assert!(Moved::is(&users.begin(&held).await.unwrap_err()));
    assert!(Moved::is(&view_of_first.enter(&held.ticket()).await.unwrap_err()));
    assert_eq!(users.resolve(7).await.unwrap().resource.name, "db2");
}

#[tokio::test]
async fn a_move_of_which_nobody_was_told_is_made_known_by_itself() {
    let (node, users) = start().await;
    let held = users.resolve(7).await.unwrap();
    // So many wait for a holder that is silent that the map takes nobody more.
    attach_silent(&node).await;
    let waiters: Vec<_> = (0..WAITERS_MAX)
        .map(|_| {
            let users = users.clone();
            tokio::spawn(async move { users.move_partition(3, "db1").await })
        })
        .collect();
    node.advance(Duration::from_millis(100)).await;
    let before = map(&node).chart().await.unwrap().version;
    let error = users.move_entity(7, "db2").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded, "{error}");
    assert_eq!(map(&node).chart().await.unwrap().version, before);

    node.advance(Duration::from_secs(10)).await;
    assert!(map(&node).chart().await.unwrap().version > before);
    assert!(Moved::is(&users.begin(&held).await.unwrap_err()));
    assert_eq!(users.resolve(7).await.unwrap().resource.name, "db2");
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
}
