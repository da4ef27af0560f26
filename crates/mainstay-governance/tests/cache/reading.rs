use std::time::Duration;

use mainstay::prelude::*;
use mainstay_governance::cache::{CacheSettings, SmartCache};
use tokio::time::Instant;

use super::{DOWN, LATENCY, Table, start, text, until_loading};

const FRESH: Duration = Duration::from_secs(60);

fn settings() -> CacheSettings {
    CacheSettings { fresh_for: FRESH, refresh_ahead: None, ..CacheSettings::default() }
}

#[tokio::test]
async fn many_who_ask_at_once_make_one_load_and_later_ones_none() {
    let (node, table, cache) = start(settings()).await;
    table.set(1, "one");
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let cache = cache.clone();
            tokio::spawn(async move { cache.get(&1).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), text("one"));
    }
    assert_eq!(cache.get(&1).await.unwrap(), text("one"));
    assert_eq!(table.loads(), 1);
    table.set(1, "uno");
    node.advance(FRESH).await;
    assert_eq!(cache.get(&1).await.unwrap(), text("uno"));
    assert_eq!(table.loads(), 2);
}

#[tokio::test]
async fn what_is_used_is_refreshed_before_its_end_and_what_is_not_used_is_not() {
    let ahead = CacheSettings { refresh_ahead: Some(Duration::from_secs(10)), ..settings() };
    let (node, table, cache) = start(ahead).await;
    table.set(1, "one");
    table.set(2, "two");
    cache.get(&1).await.unwrap();
    cache.get(&2).await.unwrap();
    node.advance(Duration::from_secs(30)).await;
    cache.get(&1).await.unwrap();
    table.set(1, "uno");
    node.advance(Duration::from_secs(28)).await;
    assert_eq!(table.loads(), 3, "the one that was used, and nobody waited");
    node.advance(Duration::from_secs(20)).await;
    let begun = Instant::now();
    assert_eq!(cache.get(&1).await.unwrap(), text("uno"));
    assert!(begun.elapsed() < LATENCY, "from memory, though its first end has passed");
    node.advance(10 * FRESH).await;
    let status = cache.status().await.unwrap();
    assert_eq!((status.entries, table.loads()), (0, 4), "once more for its last use, and then it goes");
}

#[tokio::test]
async fn a_source_that_panics_fails_those_who_asked_and_is_asked_again() {
    let (_node, table, cache) = start(settings()).await;
    table.set(1, "one");
    table.inner.lock().panics = 1;
    let error = cache.get(&1).await.unwrap_err();
    assert!(error.to_string().contains("the driver of the table is broken"), "{error}");
    assert_eq!(cache.get(&1).await.unwrap(), text("one"));
    table.inner.lock().panics = 1;
    assert!(cache.put(1, "uno".to_owned()).await.is_err());
    cache.put(1, "uno".to_owned()).await.unwrap();
    cache.flush().await.unwrap();
    assert_eq!(table.row(1), text("uno"));
}

#[tokio::test]
async fn that_there_is_nothing_is_remembered_only_if_asked_for() {
    let (_node, table, cache) = start(settings()).await;
    assert_eq!(cache.get(&1).await.unwrap(), None);
    table.set(1, "one");
    assert_eq!(cache.get(&1).await.unwrap(), text("one"));

    let remembering = CacheSettings { absent_for: Some(Duration::from_secs(5)), ..settings() };
    let (node, table, cache) = start(remembering).await;
    assert_eq!(cache.get(&1).await.unwrap(), None);
    table.set(1, "one");
    assert_eq!(cache.get(&1).await.unwrap(), None);
    assert_eq!(table.loads(), 1);
    node.advance(Duration::from_secs(5)).await;
    assert_eq!(cache.get(&1).await.unwrap(), text("one"));
}

#[tokio::test]
async fn a_source_that_fails_is_tried_again_and_then_its_error_is_told() {
    let (_node, table, cache) = start(settings()).await;
    table.set(1, "one");
    table.fail(2);
    assert_eq!(cache.get(&1).await.unwrap(), text("one"));
    assert_eq!(table.loads(), 3);
    table.fail(DOWN);
    let error = cache.get(&2).await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Retry, "the table is down"));
    assert_eq!(cache.get(&1).await.unwrap(), text("one"), "what is good is good");
}

#[tokio::test]
async fn what_is_stale_is_given_while_the_source_fails_within_a_bound() {
    let (node, table, cache) = start(settings()).await;
    table.set(1, "one");
    cache.get(&1).await.unwrap();
    table.fail(DOWN);
    node.advance(FRESH).await;
    cache.get(&1).await.unwrap_err();

    let tolerant = CacheSettings { stale_for: Some(Duration::from_secs(100)), ..settings() };
    let (node, table, cache) = start(tolerant).await;
    table.set(1, "one");
    cache.get(&1).await.unwrap();
    table.fail(DOWN);
    node.advance(FRESH + Duration::from_secs(90)).await;
    assert_eq!(cache.get(&1).await.unwrap(), text("one"));
    node.advance(Duration::from_secs(10)).await;
    cache.get(&1).await.unwrap_err();
    table.fail(0);
    assert_eq!(cache.get(&1).await.unwrap(), text("one"));
}

#[tokio::test]
async fn memory_is_bounded_by_number_and_by_bytes() {
    let few = CacheSettings { entries_max: 20, ..settings() };
    let (_node, table, cache) = start(few).await;
    for key in 0..200 {
        table.set(key, "x");
        cache.get(&key).await.unwrap();
    }
    let status = cache.status().await.unwrap();
    assert!((10..=20).contains(&status.entries), "{status:?}");

    let small = CacheSettings { bytes_max: 4000, ..settings() };
    let (_node, table, cache) = start(small).await;
    for key in 0..200 {
        table.set(key, &"x".repeat(100));
        cache.get(&key).await.unwrap();
    }
    let status = cache.status().await.unwrap();
    assert!((2000..=4000).contains(&status.bytes), "{status:?}");
}

#[tokio::test]
async fn what_was_invalidated_is_loaded_again_also_if_a_load_was_under_way() {
    let (node, table, cache) = start(settings()).await;
    table.set(1, "old");
    let reading = {
        let cache = cache.clone();
        tokio::spawn(async move { cache.get(&1).await })
    };
    until_loading(&node, &table).await;
    table.set(1, "new");
    cache.invalidate(&1).await.unwrap();
    assert_eq!(reading.await.unwrap().unwrap(), text("new"));
    assert_eq!(cache.get(&1).await.unwrap(), text("new"));
    assert_eq!(table.loads(), 2);
}

#[tokio::test]
async fn settings_that_cannot_be_and_a_cache_that_is_not_served_are_told() {
    let strange = CacheSettings { refresh_ahead: Some(FRESH), ..settings() };
    let (_node, _, cache) = start(strange).await;
    let error = cache.get(&1).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("refresh_ahead"), "{error}");
    let bare = mainstay::testkit::TestNode::start(|node| node).await.unwrap();
    let error = SmartCache::<Table>::open(&*bare).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let text =
        "cache `table` needs the actors of `cache`; build the node with `cache::serve(builder, source, settings)`";
    assert_eq!(error.to_string(), text);
}
