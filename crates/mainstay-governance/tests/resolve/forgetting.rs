use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::resolve::{ENTITY_BYTES_MAX, ENTITY_MOVES_KEPT, Moved, Policy, Resolver, ResolverSettings};

use super::{home, open, start, two_databases};

#[tokio::test]
async fn a_resolver_that_is_not_served_says_how_to_serve_it() {
    let node = TestNode::start(|node| node).await.unwrap();
    let error = Resolver::open(&*node, "users", ResolverSettings::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let text = "resolver `users` needs the actors of `resolve`; build the node with `resolve::serve(builder)`";
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn a_forgotten_entity_is_unknown_here_and_elsewhere_and_can_be_assigned_anew() {
    let node = start().await;
    let users = two_databases(&node, Policy::Refuse).await;
    let other = open(&node, Policy::Refuse).await;
    users.assign(7, "db1").await.unwrap();
    let (held, theirs) = (users.resolve(7).await.unwrap(), other.resolve(7).await.unwrap());
    users.forget(7).await.unwrap();
    assert!(Moved::is(&users.begin(&held).await.unwrap_err()));
    assert!(Moved::is(&other.begin(&theirs).await.unwrap_err()));
    assert!(Moved::is(&other.guard("db1").enter(&held.ticket()).await.unwrap_err()));
    for resolver in [&users, &other] {
        assert_eq!(resolver.resolve(7).await.unwrap_err().kind(), ErrorKind::NotFound);
    }
    users.assign(7, "db2").await.unwrap();
    assert_eq!(home(&other, 7).await, "db2");
    // On the same partition as before, it is not what it was.
    users.forget(7).await.unwrap();
    users.assign(7, "db1").await.unwrap();
    assert!(Moved::is(&users.begin(&held).await.unwrap_err()));
}

#[tokio::test]
async fn what_is_under_way_for_a_forgotten_entity_goes_on_and_a_call_that_comes_late_looks_again() {
    let node = start().await;
    let users = two_databases(&node, Policy::LeastLoaded).await;
    let first = users.resolve(7).await.unwrap();
    let pass = users.begin(&first).await.unwrap();
    users.forget(7).await.unwrap();
    drop(pass);
    let tries = std::sync::atomic::AtomicU32::new(0);
    let used = users
        .with(7, async |resolution| {
            tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            users.begin(&resolution).await.map(drop)?;
            Ok(resolution.version)
        })
        .await
        .unwrap();
    assert!(used > first.version);
    assert_eq!(tries.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn forgetting_frees_the_place_of_an_entity_for_others() {
    let node = start().await;
    let settings = ResolverSettings { shards: 1, policy: Policy::LeastLoaded, ..ResolverSettings::default() };
    let users = Resolver::open(&*node, "few", settings).await.unwrap();
    for name in ["db1", "db2"] {
        users.add_resource(mainstay_governance::resolve::PhysicalResource::new(name)).await.unwrap();
    }
    for entity in 0..10 {
        users.resolve(entity).await.unwrap();
    }
    let on_db1 = |homes: &[String]| homes.iter().filter(|home| *home == "db1").count();
    let mut homes = Vec::new();
    for entity in 0..10 {
        homes.push(home(&users, entity).await);
    }
    assert_eq!(on_db1(&homes), 5);
    // Of those on db1 three go, and three new ones take their places.
    let gone: Vec<i64> = (0..10).filter(|entity| homes[*entity as usize] == "db1").take(3).collect();
    users.forget_all(gone).await.unwrap();
    for entity in 100..103 {
        assert_eq!(home(&users, entity).await, "db1");
    }
}

#[tokio::test]
async fn what_was_forgotten_stays_so_after_a_kill_and_what_was_not_committed_was_not() {
    let mut node = start().await;
    let users = two_databases(&node, Policy::Refuse).await;
    for entity in [7, 8] {
        users.assign(entity, "db1").await.unwrap();
    }
    users.forget(7).await.unwrap();
    users.forget("nobody").await.unwrap();
    node.fail_next_commit();
    users.forget(8).await.unwrap_err();
    assert_eq!(home(&users, 8).await, "db1");
    node.kill().await.unwrap();
    let users = open(&node, Policy::Refuse).await;
    assert_eq!(users.resolve(7).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(home(&users, 8).await, "db1");
    let long = "x".repeat(ENTITY_BYTES_MAX + 1);
    assert_eq!(users.forget(long).await.unwrap_err().kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn more_can_be_forgotten_at_once_than_moves_are_remembered() {
    let node = start().await;
    let settings = ResolverSettings { shards: 1, policy: Policy::Hash, ..ResolverSettings::default() };
    let users = Resolver::open(&*node, "many", settings).await.unwrap();
    users.add_resource(mainstay_governance::resolve::PhysicalResource::new("db1")).await.unwrap();
    let count = ENTITY_MOVES_KEPT as i64 + 200;
    let mut held = Vec::new();
    for entity in 0..count {
        held.push(users.resolve(entity).await.unwrap());
    }
    users.forget_all(0..count).await.unwrap();
    for resolution in &held {
        assert!(Moved::is(&users.begin(resolution).await.unwrap_err()), "{}", resolution.entity);
    }
    node.advance(Duration::from_secs(1)).await;
}
