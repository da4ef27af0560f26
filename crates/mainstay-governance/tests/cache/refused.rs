//! Writes behind that cannot be stored: they are refused, and have not happened.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay_governance::cache::{CacheSettings, WriteMode};

use super::{start, text};

/// How long writes are gathered.
const GATHER: Duration = Duration::from_secs(1);

/// One batch for each write, so that a write begins to go to the source in the turn that takes it.
fn behind() -> CacheSettings {
    let writes = WriteMode::Behind { flush_after: GATHER };
    CacheSettings { writes, batch_max: 1, ..CacheSettings::default() }
}

fn too_large() -> String {
    "x".repeat(5 << 20)
}

#[tokio::test]
async fn a_write_that_is_too_large_is_neither_served_nor_written() {
    let (node, table, cache) = start(behind()).await;
    table.set(1, "one");
    assert_eq!(cache.get(&1).await.unwrap(), text("one"));
    let error = cache.put(1, too_large()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("VALUE_BYTES_MAX"), "{error}");
    assert!(cache.get(&1).await.unwrap() == text("one"), "it is served");
    assert_eq!(table.loads(), 1, "what the shard knows is not forgotten for a write that it refuses");
    node.advance(5 * GATHER).await;
    assert!(table.row(1) == text("one"), "it went to the source");
    assert_eq!(cache.status().await.unwrap().buffered, 0);
}

#[tokio::test]
async fn a_write_that_is_too_large_replaces_no_acknowledged_one() {
    let (mut node, table, cache) = start(CacheSettings { batch_max: 256, ..behind() }).await;
    cache.put(1, "one".into()).await.unwrap();
    cache.put(1, too_large()).await.unwrap_err();
    assert!(cache.get(&1).await.unwrap() == text("one"), "it is served");
    assert_eq!(cache.status().await.unwrap().buffered, 1);
    node.advance(5 * GATHER).await;
    assert!(table.row(1) == text("one"), "it went to the source");
    node.kill().await.unwrap();
    node.advance(5 * GATHER).await;
    assert_eq!(table.row(1), text("one"));
}

#[tokio::test]
async fn a_write_that_is_too_large_does_not_hold_up_the_others() {
    let (node, table, cache) = start(behind()).await;
    cache.put(1, too_large()).await.unwrap_err();
    // Of both shards.
    for key in 1..10 {
        cache.put(key, format!("{key}")).await.unwrap();
    }
    node.advance(5 * GATHER).await;
    for key in 1..10 {
        assert_eq!(table.row(key), Some(format!("{key}")));
    }
    assert_eq!(cache.status().await.unwrap().buffered, 0);
}
