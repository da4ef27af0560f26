use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::cache::{self, CacheSettings, FLUSHES_WAITING_MAX, SmartCache, WriteMode};
use parking_lot::Mutex;

use super::{DOWN, LATENCY, Table, start, text, until_loading};

/// How long writes are gathered.
const GATHER: Duration = Duration::from_secs(1);

fn behind() -> CacheSettings {
    CacheSettings { writes: WriteMode::Behind { flush_after: GATHER }, ..CacheSettings::default() }
}

fn spawn_put(cache: &SmartCache<Table>, key: i64, value: &str) -> tokio::task::JoinHandle<Result<()>> {
    let (cache, value) = (cache.clone(), value.to_owned());
    tokio::spawn(async move { cache.put(key, value).await })
}

#[tokio::test]
async fn a_write_through_is_with_the_source_when_it_returns_and_those_that_wait_go_together() {
    let (_node, table, cache) = start(CacheSettings::default()).await;
    cache.put(1, "one".into()).await.unwrap();
    assert_eq!(table.row(1), text("one"));
    assert_eq!((cache.get(&1).await.unwrap(), table.loads()), (text("one"), 0));
    let writes: Vec<_> = (0..100).map(|key| spawn_put(&cache, key, &format!("{key}!"))).collect();
    for write in writes {
        write.await.unwrap().unwrap();
    }
    let batches = table.inner.lock().batches.clone();
    assert!(batches.len() <= 7, "{batches:?}");
    assert_eq!(table.row(42), text("42!"));
    cache.remove(1).await.unwrap();
    assert_eq!((table.row(1), cache.get(&1).await.unwrap()), (None, None));
}

#[tokio::test]
async fn a_write_through_that_fails_is_told_and_the_source_is_asked_again() {
    let (_node, table, cache) = start(CacheSettings::default()).await;
    cache.put(1, "one".into()).await.unwrap();
    table.fail(DOWN);
    assert_eq!(cache.put(1, "two".into()).await.unwrap_err().to_string(), "the table is down");
    table.fail(0);
    assert_eq!((cache.get(&1).await.unwrap(), table.loads()), (text("one"), 1));
}

#[tokio::test]
async fn a_wall_clock_that_is_set_keeps_no_write_from_the_source() {
    let hour = Duration::from_secs(60 * 60);
    let (mut node, table, cache) = start(behind()).await;
    cache.put(1, "one".into()).await.unwrap();
    node.set_wall(mainstay::actor::wall().saturating_sub(hour));
    node.advance(2 * GATHER).await;
    assert_eq!(table.row(1), text("one"));
    cache.put(2, "two".into()).await.unwrap();
    node.set_wall(mainstay::actor::wall().saturating_sub(hour));
    node.kill().await.unwrap();
    node.advance(3 * GATHER).await;
    assert_eq!(table.row(2), text("two"));
    let cache = SmartCache::<Table>::open(&*node).unwrap();
    cache.put(3, "three".into()).await.unwrap();
    node.set_wall(mainstay::actor::wall().saturating_add(hour));
    node.advance(2 * GATHER).await;
    assert_eq!(table.row(3), text("three"));
}

#[tokio::test]
async fn a_load_that_was_under_way_does_not_bring_back_what_was_before_a_write() {
    for settings in [CacheSettings::default(), behind()] {
        let (node, table, cache) = start(settings).await;
        table.set(1, "old");
        table.inner.lock().slow = 10 * LATENCY;
        let reading = {
            let cache = cache.clone();
            tokio::spawn(async move { cache.get(&1).await })
        };
        until_loading(&node, &table).await;
        cache.put(1, "new".into()).await.unwrap();
        cache.flush().await.unwrap();
        assert_eq!(table.row(1), text("new"));
        assert!(!reading.is_finished(), "the answer to the load, which is the old value, is still on its way");
        assert_eq!(reading.await.unwrap().unwrap(), text("new"));
        assert_eq!((cache.get(&1).await.unwrap(), table.loads()), (text("new"), 1));
    }
}

#[tokio::test]
async fn a_write_behind_is_seen_at_once_and_is_written_later_with_others_the_last_of_each_key() {
    let (node, table, cache) = start(behind()).await;
    for round in 0..3 {
        for key in 0..20 {
            cache.put(key, format!("{key} in round {round}")).await.unwrap();
        }
    }
    assert_eq!(table.row(7), None);
    assert_eq!((cache.get(&7).await.unwrap(), table.loads()), (text("7 in round 2"), 0));
    assert_eq!(cache.status().await.unwrap().buffered, 20);
    node.advance(2 * GATHER).await;
    assert_eq!(table.row(7), text("7 in round 2"));
    let batches = table.inner.lock().batches.clone();
    assert!(batches.len() <= 2 && batches.iter().sum::<usize>() == 20, "{batches:?}");
    assert_eq!(cache.status().await.unwrap().buffered, 0);
    assert_eq!((cache.get(&7).await.unwrap(), table.loads()), (text("7 in round 2"), 0));
}

#[tokio::test]
async fn an_acknowledged_write_survives_a_kill_at_any_moment() {
    for moment_ms in [0, 3, 995, 1005, 1012, 1020, 1500] {
        let (mut node, table, cache) = start(behind()).await;
        table.set(1, "before");
        for key in 0..10 {
            cache.put(key, format!("{key}")).await.unwrap();
        }
        cache.remove(1).await.unwrap();
        node.advance(Duration::from_millis(moment_ms)).await;
        node.kill().await.unwrap();
        let cache = SmartCache::<Table>::open(&*node).unwrap();
        assert_eq!(cache.get(&1).await.unwrap(), None, "killed after {moment_ms} ms");
        assert_eq!(cache.get(&2).await.unwrap(), text("2"), "killed after {moment_ms} ms");
        // Nobody asks, and yet it is written.
        node.advance(5 * GATHER).await;
        assert_eq!(cache.status().await.unwrap().buffered, 0, "killed after {moment_ms} ms");
        for key in 2..10 {
            assert_eq!(table.row(key), Some(format!("{key}")), "killed after {moment_ms} ms");
        }
        assert_eq!(table.row(1), None, "killed after {moment_ms} ms");
    }
}

#[tokio::test]
async fn writes_behind_wait_for_a_source_that_is_down_up_to_a_bound() {
    let bounded = CacheSettings { buffered_max: 20, ..behind() };
    let (mut node, table, cache) = start(bounded).await;
    table.fail(DOWN);
    let mut acknowledged = Vec::new();
    let mut refusal = None;
    for key in 0..30 {
        match cache.put(key, format!("{key}")).await {
            Ok(()) => acknowledged.push(key),
            Err(error) => refusal = Some(error),
        }
    }
    let refusal = refusal.unwrap();
    assert!(refusal.kind() == ErrorKind::Overloaded && refusal.to_string().contains("buffered_max"), "{refusal}");
    assert!(acknowledged.len() >= 15, "{acknowledged:?}");
    assert!(cache.flush().await.is_err());
    cache.put(acknowledged[0], "again".into()).await.unwrap();
    node.advance(60 * GATHER).await;
    node.kill().await.unwrap();
    let cache = SmartCache::<Table>::open(&*node).unwrap();
    assert_eq!(cache.status().await.unwrap().buffered, acknowledged.len() as u64);
    table.fail(0);
    node.advance(10 * GATHER).await;
    assert_eq!(table.row(acknowledged[0]), text("again"));
    for key in &acknowledged[1..] {
        assert_eq!(table.row(*key), Some(format!("{key}")));
    }
    assert_eq!(cache.status().await.unwrap().buffered, 0);
}

#[tokio::test]
async fn a_write_that_the_source_never_takes_does_not_hold_up_the_others() {
    let (node, table, cache) = start(behind()).await;
    table.inner.lock().poison = Some(4);
    for key in 0..10 {
        cache.put(key, format!("{key}")).await.unwrap();
    }
    node.advance(3 * GATHER).await;
    for key in (0..10).filter(|key| *key != 4) {
        assert_eq!(table.row(key), Some(format!("{key}")));
    }
    assert_eq!(cache.status().await.unwrap().buffered, 1, "it stays, and is warned of");
    assert_eq!(cache.get(&4).await.unwrap(), text("4"));
    table.inner.lock().poison = None;
    cache.flush().await.unwrap();
    assert_eq!(table.row(4), text("4"));
}

#[tokio::test]
async fn a_write_behind_that_is_not_committed_has_not_happened() {
    let (node, table, cache) = start(behind()).await;
    table.set(1, "one");
    node.fail_next_commit();
    cache.put(1, "two".into()).await.unwrap_err();
    assert_eq!(cache.get(&1).await.unwrap(), text("one"));
    node.advance(3 * GATHER).await;
    assert_eq!(table.row(1), text("one"));
    // Written, and the note of it fails: it is written again, which is the same.
    cache.put(1, "two".into()).await.unwrap();
    node.advance(GATHER - LATENCY).await;
    node.fail_next_commit();
    node.advance(5 * GATHER).await;
    assert_eq!(table.row(1), text("two"));
    assert_eq!(cache.status().await.unwrap().buffered, 0);
}

#[tokio::test]
async fn a_key_that_is_written_while_it_is_on_its_way_is_written_again() {
    let (node, table, cache) = start(behind()).await;
    cache.put(1, "first".into()).await.unwrap();
    let flushing = {
        let cache = cache.clone();
        tokio::spawn(async move { cache.flush().await })
    };
    node.advance(LATENCY / 5).await;
    cache.put(1, "second".into()).await.unwrap();
    assert_eq!(table.row(1), None, "the first is on its way");
    flushing.await.unwrap().unwrap();
    assert_eq!(cache.get(&1).await.unwrap(), text("second"));
    node.advance(3 * GATHER).await;
    assert_eq!(table.row(1), text("second"));
}

#[tokio::test]
async fn writes_through_that_wait_for_what_was_buffered_are_bounded() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let table = Table::default();
    table.inner.lock().hangs = true;
    let settings = Arc::new(Mutex::new(CacheSettings { source_timeout: DAY, ..behind() }));
    let (source, given) = (table.clone(), settings.clone());
    let mut node = TestNode::start(move |node| cache::serve(node, source.clone(), given.lock().clone())).await.unwrap();
    SmartCache::<Table>::open(&*node).unwrap().put(1, "buffered".into()).await.unwrap();
    settings.lock().writes = WriteMode::Through;
    node.kill().await.unwrap();

    let cache = SmartCache::<Table>::open(&*node).unwrap();
    let mut writes = FuturesUnordered::new();
    for number in 0..=FLUSHES_WAITING_MAX {
        writes.push(spawn_put(&cache, 1, "through"));
        if number % 64 == 0 {
            // So that the mailbox of the shard is not what is full.
            node.advance(Duration::from_millis(1)).await;
        }
    }
    let refusal = writes.next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Overloaded);
    assert!(refusal.to_string().contains("FLUSHES_WAITING_MAX"), "{refusal}");
    assert_eq!((writes.len(), table.row(1)), (FLUSHES_WAITING_MAX, None));
}
