//! What is stale and loaded again in the background.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay_governance::cache::{CacheSettings, SmartCache, StaleMode};
use tokio::time::Instant;

use super::{DOWN, LATENCY, Table, start, text};

const FRESH: Duration = Duration::from_secs(60);
const STALE: Duration = Duration::from_secs(100);

fn revalidating() -> CacheSettings {
    CacheSettings {
        fresh_for: FRESH,
        refresh_ahead: None,
        stale_for: Some(STALE),
        stale: StaleMode::WhileRevalidate,
        ..CacheSettings::default()
    }
}

/// The value of a key, and that nobody waited for it.
async fn at_once(cache: &SmartCache<Table>, key: i64) -> Option<String> {
    let begun = Instant::now();
    let value = cache.get(&key).await.unwrap();
    assert!(begun.elapsed() < LATENCY, "{:?}", begun.elapsed());
    value
}

#[tokio::test]
async fn a_stale_value_is_given_at_once_and_loaded_once_for_all_who_ask() {
    let (node, table, cache) = start(revalidating()).await;
    table.set(1, "one");
    cache.get(&1).await.unwrap();
    table.set(1, "uno");
    node.advance(FRESH).await;
    table.inner.lock().slow = 10 * LATENCY;
    for _ in 0..50 {
        assert_eq!(at_once(&cache, 1).await, text("one"));
        node.advance(LATENCY / 10).await;
    }
    assert_eq!(table.loads(), 2, "one load for fifty who asked");
    node.advance(20 * LATENCY).await;
    assert_eq!(at_once(&cache, 1).await, text("uno"));
    assert_eq!(table.loads(), 2);
}

#[tokio::test]
async fn a_stale_value_goes_on_being_given_while_the_source_fails_until_its_time_is_over() {
    let (node, table, cache) = start(revalidating()).await;
    table.set(1, "one");
    cache.get(&1).await.unwrap();
    table.fail(DOWN);
    node.advance(FRESH).await;
    let before = table.loads();
    for _ in 0..3 {
        assert_eq!(at_once(&cache, 1).await, text("one"));
        node.advance(Duration::from_secs(20)).await;
    }
    assert!(table.loads() > before, "it was tried again");
    node.advance(STALE).await;
    let error = cache.get(&1).await.unwrap_err();
    assert_eq!(error.to_string(), "the table is down");
    table.fail(0);
    assert_eq!(cache.get(&1).await.unwrap(), text("one"));
}

#[tokio::test]
async fn a_value_that_is_evicted_while_it_is_loaded_again_is_loaded_once() {
    let few = CacheSettings { entries_max: 2, ..revalidating() };
    let (node, table, cache) = start(few).await;
    for key in 0..20 {
        table.set(key, "x");
    }
    table.set(1, "one");
    cache.get(&1).await.unwrap();
    node.advance(FRESH).await;
    table.inner.lock().slow = 10 * LATENCY;
    table.set(1, "uno");
    assert_eq!(at_once(&cache, 1).await, text("one"));
    while table.loads() < 2 {
        node.advance(LATENCY / 10).await;
    }
    let loads = table.loads();
    table.inner.lock().slow = Duration::ZERO;
    // One for each shard, so that it is let go for them.
    for key in (0..20).filter(|key| *key != 1) {
        cache.get(&key).await.unwrap();
        if table.loads() > loads + 4 {
            break;
        }
    }
    let others = table.loads();
    assert_eq!(cache.get(&1).await.unwrap(), text("uno"), "waits for the load that is under way");
    assert_eq!(table.loads(), others, "and makes no second one");
    assert!(cache.status().await.unwrap().entries <= 2);
}

#[tokio::test]
async fn a_write_while_a_stale_value_is_loaded_again_is_not_undone_by_it() {
    let (node, table, cache) = start(revalidating()).await;
    table.set(1, "one");
    cache.get(&1).await.unwrap();
    node.advance(FRESH).await;
    table.inner.lock().slow = 10 * LATENCY;
    assert_eq!(at_once(&cache, 1).await, text("one"));
    cache.put(1, "mine".into()).await.unwrap();
    node.advance(20 * LATENCY).await;
    assert_eq!(at_once(&cache, 1).await, text("mine"));
    assert_eq!(table.loads(), 2);
}

#[tokio::test]
async fn revalidation_without_a_time_for_stale_values_is_refused() {
    let (_node, _, cache) = start(CacheSettings { stale_for: None, ..revalidating() }).await;
    let error = cache.get(&1).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("set stale_for"), "{error}");
}
