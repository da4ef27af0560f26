use std::time::Duration;

use mainstay_governance::cache::{CacheSettings, PRELOADED_TOGETHER_MAX, Preloaded};
use tokio::time::Instant;

use super::{DOWN, LATENCY, start, text};

fn settings() -> CacheSettings {
    CacheSettings { refresh_ahead: None, ..CacheSettings::default() }
}

#[tokio::test]
async fn what_was_preloaded_is_in_memory_and_each_key_is_loaded_once() {
    let (_node, table, cache) = start(settings()).await;
    for key in 0..1000 {
        table.set(key, &key.to_string());
    }
    cache.get(&3).await.unwrap();
    let outcome = cache.preload(0..1010).await.unwrap();
    assert_eq!(outcome, Preloaded { loaded: 999, known: 1, absent: 10, ..Preloaded::default() });
    assert_eq!(table.loads(), 1010);
    let begun = Instant::now();
    for key in 0..1000 {
        assert_eq!(cache.get(&key).await.unwrap(), text(&key.to_string()));
    }
    assert!(begun.elapsed() < LATENCY, "nobody waited for the table");
    assert_eq!(table.loads(), 1010);
    assert!(table.most_at_once() <= PRELOADED_TOGETHER_MAX as u64, "{}", table.most_at_once());
}

#[tokio::test]
async fn a_caller_and_a_preload_share_one_load() {
    let (node, table, cache) = start(settings()).await;
    table.set(1, "one");
    table.inner.lock().slow = 10 * LATENCY;
    let preloading = {
        let cache = cache.clone();
        tokio::spawn(async move { cache.preload([1, 1]).await })
    };
    while table.loads() == 0 {
        node.advance(LATENCY / 10).await;
    }
    assert_eq!(cache.get(&1).await.unwrap(), text("one"));
    assert_eq!(preloading.await.unwrap().unwrap().loaded, 2, "the key was given twice");
    assert_eq!(table.loads(), 1);
}

#[tokio::test]
async fn keys_that_cannot_be_loaded_are_counted_and_the_others_are_there() {
    let (_node, table, cache) = start(CacheSettings { attempts: 1, ..settings() }).await;
    for key in 0..10 {
        table.set(key, "x");
    }
    table.fail(4);
    let outcome = cache.preload(0..10).await.unwrap();
    assert_eq!((outcome.loaded, outcome.failed), (6, 4));
    assert_eq!(outcome.error.as_deref(), Some("the table is down"));
    assert_eq!(cache.status().await.unwrap().entries, 6);
}

#[tokio::test]
async fn no_more_is_preloaded_than_there_is_room_for() {
    let (_node, table, cache) = start(CacheSettings { entries_max: 300, ..settings() }).await;
    // Without an end.
    let outcome = cache.preload(0..).await.unwrap();
    assert!(outcome.is_cut);
    assert_eq!((outcome.absent, table.loads()), (300, 300));
}

#[tokio::test]
async fn a_source_lists_the_keys_that_are_worth_having() {
    let (_node, table, cache) = start(settings()).await;
    for key in 0..10 {
        table.set(key, "x");
    }
    table.inner.lock().hot = vec![2, 4, 6];
    assert_eq!(cache.preload_hot().await.unwrap().loaded, 3);
    assert_eq!(cache.status().await.unwrap().entries, 3);
    table.fail(DOWN);
    assert_eq!(cache.preload_hot().await.unwrap_err().to_string(), "the table is down");
}

#[tokio::test]
async fn what_was_preloaded_and_never_asked_for_is_not_refreshed() {
    let ahead = CacheSettings { refresh_ahead: Some(Duration::from_secs(10)), ..CacheSettings::default() };
    let (node, table, cache) = start(ahead).await;
    table.set(1, "one");
    assert_eq!(cache.preload([1]).await.unwrap().loaded, 1);
    node.advance(Duration::from_secs(300)).await;
    assert_eq!((cache.status().await.unwrap().entries, table.loads()), (0, 1));
}
