use std::collections::BTreeMap;

use mainstay::prelude::*;
use mainstay_governance::resolve::{ENTITY_BYTES_MAX, PhysicalResource, Policy, Resolver, ResolverSettings};

use super::{home, open, start, two_databases};

async fn counts(users: &Resolver, entities: std::ops::Range<i64>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for entity in entities {
        *counts.entry(home(users, entity).await).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn who_is_placed_by_load_goes_where_there_is_least_and_stays_after_a_kill() {
    let mut node = start().await;
    let users = two_databases(&node, Policy::LeastLoaded).await;
    let before = counts(&users, 0..200).await;
    assert!(before.values().all(|count| (84..=116).contains(count)), "{before:?}");

    users.add_resource(PhysicalResource::new("db3").with_partitions(4)).await.unwrap();
    assert_eq!(counts(&users, 0..200).await, before, "who is known stays");
    let later = counts(&users, 200..260).await;
    assert!(later.get("db3").is_some_and(|count| *count > 45), "{later:?}");

    let places: Vec<u32> = partitions(&users, 0..260).await;
    node.kill().await.unwrap();
    let users = open(&node, Policy::Refuse).await;
    assert_eq!(partitions(&users, 0..260).await, places);
}

async fn partitions(users: &Resolver, entities: std::ops::Range<i64>) -> Vec<u32> {
    let mut partitions = Vec::new();
    for entity in entities {
        partitions.push(users.resolve(entity).await.unwrap().partition);
    }
    partitions
}

#[tokio::test]
async fn who_is_placed_by_hash_is_spread_over_all_partitions_and_stays_when_there_are_more() {
    let node = start().await;
    let users = two_databases(&node, Policy::Hash).await;
    let before = partitions(&users, 0..100).await;
    assert!((0..8).all(|partition| before.iter().filter(|it| **it == partition).count() > 2), "{before:?}");
    users.add_resource(PhysicalResource::new("db3")).await.unwrap();
    let fresh = Resolver::open(&*node, "users", ResolverSettings { policy: Policy::Hash, ..Default::default() });
    assert_eq!(partitions(&fresh.await.unwrap(), 0..100).await, before);
}

#[tokio::test]
async fn who_is_placed_in_a_region_gets_a_resource_there_and_other_regions_are_an_error() {
    let node = start().await;
    let users = open(&node, Policy::LeastLoaded).await;
    for (name, region) in [("eu1", "eu"), ("eu2", "eu"), ("us1", "us")] {
        users.add_resource(PhysicalResource::new(name).in_region(region)).await.unwrap();
    }
    for entity in 0..50 {
        let region = if entity % 2 == 0 { "eu" } else { "us" };
        let resolution = users.resolve_in(entity, region).await.unwrap();
        assert_eq!(resolution.resource.region.as_deref(), Some(region));
    }
    let region = users.with_in(50, "us", async |resolution| Ok(resolution.resource.region)).await.unwrap();
    assert_eq!(region.as_deref(), Some("us"));
    let error = users.resolve_in(99, "asia").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("no resource in region \"asia\""), "{error}");
    assert_eq!(users.resolve_in(0, "us").await.unwrap().resource.region.as_deref(), Some("eu"), "who is known stays");
}

#[tokio::test]
async fn what_is_being_drained_gets_nobody() {
    let node = start().await;
    let users = two_databases(&node, Policy::LeastLoaded).await;
    users.drain_resource("db2", super::LONG).await.unwrap();
    assert_eq!(counts(&users, 0..40).await.keys().collect::<Vec<_>>(), ["db1"]);
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_name() {
    let node = start().await;
    let users = open(&node, Policy::Refuse).await;
    let long = "x".repeat(ENTITY_BYTES_MAX + 1);
    assert_eq!(users.resolve(long).await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(users.add_resource(PhysicalResource::new("")).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(
        users.add_resource(PhysicalResource::new("a").with_partitions(0)).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    let more = ResolverSettings { shards: 17, ..ResolverSettings::default() };
    let error = Resolver::open(&*node, "users", more).await.unwrap_err();
    assert!(error.to_string().contains("has 16 shards"), "{error}");
    let none = ResolverSettings { shards: 0, ..ResolverSettings::default() };
    assert!(Resolver::open(&*node, "users", none).await.unwrap_err().to_string().contains("shards is 0"));
}
