//! Following what is committed to a dictionary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use mainstay_core::{ErrorKind, Level, SequenceNumber};
use mainstay_state::{
    Change, Changed, Collection, ConcurrentQueue, Dictionary, Queue, QueueChange, QueueChanged, StateManager, Watch,
};
use serde::{Deserialize, Serialize, Serializer};
use support::{TestNode, on_every_level};

type Ages = Dictionary<String, u32>;

async fn ages(state: &StateManager) -> Ages {
    state.collection("ages").await.unwrap()
}

async fn set(state: &StateManager, ages: &Ages, key: &str, value: u32) -> SequenceNumber {
    let mut tx = state.begin();
    ages.set(&mut tx, key.into(), value).await.unwrap();
    tx.commit().await.unwrap()
}

fn was_set(key: &str, old: Option<u32>, new: u32) -> Change<String, u32> {
    Change::Set { key: key.into(), old: old.map(Arc::new), new: new.into() }
}

#[tokio::test]
async fn every_commit_is_seen_with_what_it_changed() {
    on_every_level(async |state| {
        let ages = ages(&state).await;
        let others: Ages = state.collection("others").await.unwrap();
        set(&state, &ages, "before", 1).await;
        let mut watch = ages.watch().await.unwrap();
        set(&state, &others, "anna", 7).await;
        let first = set(&state, &ages, "anna", 1).await;

        let mut tx = state.begin();
        ages.set(&mut tx, "anna".into(), 2).await.unwrap();
        ages.add(&mut tx, "bert".into(), 3).await.unwrap();
        ages.remove(&mut tx, "before").await.unwrap();
        others.set(&mut tx, "anna".into(), 8).await.unwrap();
        let second = tx.commit().await.unwrap();
        let mut undone = state.begin();
        ages.set(&mut undone, "anna".into(), 99).await.unwrap();
        drop(undone);

        let mut tx = state.begin();
        ages.clear(&mut tx).await.unwrap();
        ages.add(&mut tx, "carl".into(), 4).await.unwrap();
        let third = tx.commit().await.unwrap();

        let next = watch.next().await.unwrap();
        assert_eq!(next, Changed { sequence_number: first, changes: vec![was_set("anna", None, 1)] });
        let next = watch.next().await.unwrap();
        let removed = Change::Removed { key: "before".into(), old: Some(1.into()) };
        let changes = vec![was_set("anna", Some(1), 2), removed, was_set("bert", None, 3)];
        assert_eq!(next, Changed { sequence_number: second, changes });
        let next = watch.next().await.unwrap();
        let changes = vec![Change::Cleared, was_set("carl", None, 4)];
        assert_eq!(next, Changed { sequence_number: third, changes });

        let mut pending = Box::pin(watch.next());
        assert!(futures_util::poll!(&mut pending).is_pending());
        drop(pending);
        set(&state, &ages, "carl", 5).await;
        assert_eq!(watch.next().await.unwrap().changes, [was_set("carl", Some(4), 5)]);
    })
    .await;
}

#[tokio::test]
async fn who_was_away_goes_on_where_it_was() {
    let node = TestNode::start().await;
    for level in [Level::Persisted, Level::Volatile] {
        let state = node.state(level).await;
        let ages = ages(&state).await;
        let start = set(&state, &ages, "anna", 0).await;
        for value in 1..10 {
            set(&state, &ages, "anna", value).await;
        }
        let mut watch = ages.watch_after(start).await.unwrap();
        for value in 1..10 {
            if value == 5 {
                // As if the process had ended and remembered where it was.
                watch = ages.watch_after(watch.position()).await.unwrap();
            }
            assert_eq!(watch.next().await.unwrap().changes, [was_set("anna", Some(value - 1), value)]);
        }
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_watch_waits_for_no_transaction_not_even_ones_own() {
    on_every_level(async |state| {
        let ages = ages(&state).await;
        set(&state, &ages, "anna", 1).await;
        let mut other = state.begin();
        ages.set(&mut other, "bert".into(), 1).await.unwrap();
        let mut tx = state.begin();
        assert_eq!(ages.len(&mut tx).await.unwrap(), 1);
        let number = tx.snapshot_number().unwrap();
        ages.set(&mut tx, "anna".into(), 2).await.unwrap();
        let mut watches = [ages.watch_after(number).await.unwrap(), ages.watch().await.unwrap()];
        // What was begun before the first of them was there tells what it has replaced.
        tx.commit().await.unwrap();
        other.commit().await.unwrap();
        for watch in &mut watches {
            assert_eq!(watch.next().await.unwrap().changes, [was_set("anna", Some(1), 2)]);
            assert_eq!(watch.next().await.unwrap().changes, [was_set("bert", None, 1)]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_watch_of_what_is_being_dropped_changes_nothing() {
    let node = TestNode::start_small().await;
    let state = node.state(Level::None).await;
    let ages = ages(&state).await;
    let mut tx = state.begin();
    state.drop_collection(&mut tx, "ages").await.unwrap();
    assert!(futures_util::poll!(&mut Box::pin(ages.watch())).is_pending());
    tx.abort();
    // Nobody watches, so that nothing of it can be known later.
    let first = set(&state, &ages, "anna", 1).await;
    set(&state, &ages, "anna", 2).await;
    assert_eq!(ages.watch_after(first).await.unwrap_err().kind(), ErrorKind::TooOld);
}

#[tokio::test]
async fn what_was_watched_can_be_followed_after_the_state_was_opened_again() {
    let node = TestNode::start_small().await;
    let state = node.state(Level::None).await;
    let number = ages(&state).await.watch().await.unwrap().position();
    state.close().await;
    drop(state);
    let state = node.state(Level::None).await;
    let ages = ages(&state).await;
    for value in 1..4 {
        set(&state, &ages, "anna", value).await;
    }
    let mut watch = ages.watch_after(number).await.unwrap();
    for value in 1..4 {
        let old = (value > 1).then_some(value - 1);
        assert_eq!(watch.next().await.unwrap().changes, [was_set("anna", old, value)]);
    }
}

/// The first watch of a partition of level none, while transactions of it are committed all the time.
#[test]
fn the_first_watch_misses_no_old_value_of_those_who_commit() {
    const WRITERS: u32 = 3;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let node = TestNode::start_small().await;
        for id in 0..200 {
            let state = StateManager::open(node.partition(Level::None, id).await).await.unwrap();
            let ages = ages(&state).await;
            for writer in 0..WRITERS {
                set(&state, &ages, &writer.to_string(), 1).await;
            }
            let busy = Arc::new(AtomicBool::new(true));
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (state, ages, busy) = (state.clone(), ages.clone(), busy.clone());
                    mainstay_core::task::spawn(async move {
                        let mut last = 1;
                        while busy.load(Ordering::Relaxed) {
                            last += 1;
                            set(&state, &ages, &writer.to_string(), last).await;
                        }
                    })
                })
                .collect();
            let mut watch = ages.watch().await.unwrap();
            for _ in 0..20 {
                for change in watch.next().await.unwrap().changes {
                    let Change::Set { old, new, .. } = change else { panic!("only sets") };
                    assert_eq!(old.as_deref(), Some(&(*new - 1)));
                }
            }
            busy.store(false, Ordering::Relaxed);
            for writer in writers {
                writer.await.unwrap();
            }
        }
    });
}

/// Two partitions of level none that share a set, which is followed because somebody watches the first.
async fn followed_by_others(node: &TestNode) -> (StateManager, Watch<String, u32>) {
    let [watched, other] =
        [7, 8].map(async |id| StateManager::open(node.partition(Level::None, id).await).await.unwrap());
    let ages = ages(&watched.await).await;
    (other.await, ages.watch().await.unwrap())
}

#[tokio::test]
async fn what_carries_no_old_values_is_too_old() {
    let node = TestNode::start_small().await;
    let (state, _watch) = followed_by_others(&node).await;
    let ages = ages(&state).await;
    let first = set(&state, &ages, "anna", 1).await;
    set(&state, &ages, "anna", 2).await;
    let error = ages.watch_after(first).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooOld, "{error}");
    let mut watch = ages.watch().await.unwrap();
    set(&state, &ages, "anna", 3).await;
    assert_eq!(watch.next().await.unwrap().changes, [was_set("anna", Some(2), 3)]);
}

/// Looks at the state when it is encoded and when it is dropped.
#[derive(Debug, Clone, Deserialize)]
struct Nosy;

static LOOKED_AT: OnceLock<StateManager> = OnceLock::new();

fn look() {
    if let Some(state) = LOOKED_AT.get() {
        state.collections().unwrap();
    }
}

impl Serialize for Nosy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        look();
        serializer.serialize_unit_struct("Nosy")
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        look();
    }
}

async fn replace_and_clear(state: &StateManager, values: &Dictionary<u32, Nosy>) {
    for _ in 0..2 {
        let mut tx = state.begin();
        for key in 0..3 {
            values.set(&mut tx, key, Nosy).await.unwrap();
        }
        tx.commit().await.unwrap();
    }
    let mut tx = state.begin();
    values.clear(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
}

#[test]
fn nobody_is_locked_out_while_code_of_values_runs() {
    let (done, ended) = std::sync::mpsc::sync_channel(1);
    // One that is locked out stays so, and is left behind.
    let thread = std::thread::Builder::new().spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let node = TestNode::start_small().await;
            let state = StateManager::open(node.partition(Level::None, 9).await).await.unwrap();
            let values: Dictionary<u32, Nosy> = state.collection("values").await.unwrap();
            LOOKED_AT.set(state.clone()).unwrap();
            replace_and_clear(&state, &values).await;
            // Whoever is followed keeps values for longer, and has them encoded.
            let (_, _watch) = followed_by_others(&node).await;
            replace_and_clear(&state, &values).await;
            done.send(()).unwrap();
        });
    });
    ended.recv_timeout(Duration::from_secs(60)).unwrap();
    thread.unwrap().join().unwrap();
}

#[tokio::test]
async fn a_watch_goes_on_after_a_restart() {
    let node = TestNode::start().await;
    let state = node.state(Level::Persisted).await;
    let ages_before = ages(&state).await;
    let start = set(&state, &ages_before, "anna", 1).await;
    set(&state, &ages_before, "anna", 2).await;
    drop((state, ages_before));
    let node = node.restart().await;
    let state = node.state(Level::Persisted).await;
    let ages = ages(&state).await;
    let mut watch = ages.watch_after(start).await.unwrap();
    set(&state, &ages, "bert", 3).await;
    assert_eq!(watch.next().await.unwrap().changes, [was_set("anna", Some(1), 2)]);
    assert_eq!(watch.next().await.unwrap().changes, [was_set("bert", None, 3)]);
    drop((watch, state, ages));
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_snapshot_and_what_follows_it_leave_no_gap() {
    on_every_level(async |state| {
        let ages = ages(&state).await;
        // Level none keeps a history once somebody has watched.
        drop(ages.watch().await.unwrap());
        set(&state, &ages, "anna", 1).await;
        let mut tx = state.begin();
        let all: Vec<(String, Arc<u32>)> = ages.all().entries(&mut tx).await.unwrap().collect().await.unwrap();
        let number = tx.snapshot_number().unwrap();
        drop(tx);
        assert_eq!(all, [("anna".into(), 1.into())]);
        set(&state, &ages, "anna", 2).await;
        let mut watch = ages.watch_after(number).await.unwrap();
        assert_eq!(watch.next().await.unwrap().changes, [was_set("anna", Some(1), 2)]);
    })
    .await;
}

#[tokio::test]
async fn what_the_log_no_longer_has_is_too_old() {
    let node = TestNode::start().await;
    let state = node.state(Level::None).await;
    let ages = ages(&state).await;
    let start = set(&state, &ages, "anna", 1).await;
    set(&state, &ages, "anna", 2).await;
    let error = ages.watch_after(start).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooOld);
    assert!(error.to_string().contains(r#"watching dictionary "ages""#), "{error}");
    assert!(error.to_string().contains("snapshot"), "{error}");
    drop((state, ages));
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_watch_ends_when_its_dictionary_is_dropped() {
    on_every_level(async |state| {
        let ages = ages(&state).await;
        set(&state, &ages, "anna", 1).await;
        let mut watch = ages.watch().await.unwrap();
        let mut tx = state.begin();
        state.drop_collection(&mut tx, "ages").await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(watch.next().await.unwrap().changes, [Change::Cleared]);
        let error = watch.next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), r#"dictionary "ages" was dropped: there is nothing more to watch"#);
        assert_eq!(ages.watch().await.unwrap_err().kind(), ErrorKind::NotFound);
    })
    .await;
}

#[tokio::test]
async fn a_watch_is_a_stream_that_ends_after_an_error() {
    on_every_level(async |state| {
        let ages = ages(&state).await;
        let mut watch = ages.watch().await.unwrap();
        let first = set(&state, &ages, "anna", 1).await;
        let second = set(&state, &ages, "anna", 2).await;
        drop_ages(&state).await;
        let seen: Vec<_> = StreamExt::collect(watch.by_ref()).await;
        let numbers: Vec<_> = seen.iter().flatten().map(|changed| changed.sequence_number).collect();
        assert_eq!(numbers[..2], [first, second]);
        assert_eq!(seen[2].as_ref().unwrap().changes, [Change::Cleared]);
        assert_eq!(seen[3].as_ref().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(seen.len(), 4, "and then it ends");
        assert_eq!(watch.next().await.unwrap_err().kind(), ErrorKind::NotFound, "the error can be asked for again");
    })
    .await;
}

#[tokio::test]
async fn a_watch_of_a_queue_is_a_stream() {
    on_every_level(async |state| {
        let queue: Queue<u32> = state.collection("queue").await.unwrap();
        let watch = queue.watch().await.unwrap();
        for item in [7, 8] {
            let mut tx = state.begin();
            queue.enqueue(&mut tx, item).await.unwrap();
            tx.commit().await.unwrap();
        }
        let seen: Vec<_> = watch.take(2).map(|changed| changed.unwrap().changes).collect().await;
        assert_eq!(seen, [7, 8].map(|item| vec![QueueChange::Enqueued(item.into())]));
    })
    .await;
}

#[tokio::test]
async fn queues_are_watched_too() {
    on_every_level(async |state| {
        let strict: Queue<u32> = state.collection("strict").await.unwrap();
        let many: ConcurrentQueue<u32> = state.collection("many").await.unwrap();
        let (mut first, mut second) = (strict.watch().await.unwrap(), many.watch().await.unwrap());
        let mut tx = state.begin();
        for item in [1, 2] {
            strict.enqueue(&mut tx, item).await.unwrap();
            many.enqueue(&mut tx, item * 10).await.unwrap();
        }
        let number = tx.commit().await.unwrap();
        let changes = [1, 2].map(|item| QueueChange::Enqueued(Arc::new(item))).to_vec();
        assert_eq!(first.next().await.unwrap(), QueueChanged { sequence_number: number, changes });
        let changes = [10, 20].map(|item| QueueChange::Enqueued(Arc::new(item))).to_vec();
        assert_eq!(second.next().await.unwrap(), QueueChanged { sequence_number: number, changes });

        let mut tx = state.begin();
        strict.try_dequeue(&mut tx).await.unwrap();
        many.try_dequeue(&mut tx).await.unwrap();
        strict.enqueue(&mut tx, 3).await.unwrap();
        tx.commit().await.unwrap();
        let changes = [QueueChange::Dequeued(Some(1.into())), QueueChange::Enqueued(3.into())];
        assert_eq!(first.next().await.unwrap().changes, changes);
        assert_eq!(second.next().await.unwrap().changes, [QueueChange::Dequeued(Some(10.into()))]);

        let mut tx = state.begin();
        strict.clear(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(first.next().await.unwrap().changes, [QueueChange::Cleared]);
    })
    .await;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Person {
    name: String,
}

/// A version of a type that cannot read what the other one writes.
mod strict {
    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    pub(crate) struct Person {
        pub(crate) name: String,
        pub(crate) age: u32,
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_not_passed_over() {
    on_every_level(async |state| {
        let strict: Dictionary<u8, strict::Person> = state.collection("people").await.unwrap();
        let people: Dictionary<u8, Person> = state.collection("people").await.unwrap();
        let strict_line: Queue<strict::Person> = state.collection("line").await.unwrap();
        let line: Queue<Person> = state.collection("line").await.unwrap();
        let (mut watch, mut line_watch) = (strict.watch().await.unwrap(), strict_line.watch().await.unwrap());
        let (start, line_start) = (watch.position(), line_watch.position());
        let anna = Person { name: "anna".into() };
        let mut tx = state.begin();
        people.set(&mut tx, 1, anna.clone()).await.unwrap();
        line.enqueue(&mut tx, anna.clone()).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = state.begin();
        strict.set(&mut tx, 2, strict::Person { name: "bert".into(), age: 4 }).await.unwrap();
        tx.commit().await.unwrap();
        for _ in 0..2 {
            assert_eq!(watch.next().await.unwrap_err().kind(), ErrorKind::Invalid);
            assert_eq!(line_watch.next().await.unwrap_err().kind(), ErrorKind::Invalid);
            assert_eq!((watch.position(), line_watch.position()), (start, line_start));
        }
        // Who can read it goes on there.
        let mut watch = people.watch_after(watch.position()).await.unwrap();
        let changes = [Change::Set { key: 1, old: None, new: Arc::new(anna.clone()) }];
        assert_eq!(watch.next().await.unwrap().changes, changes);
        let mut line_watch = line.watch_after(line_watch.position()).await.unwrap();
        assert_eq!(line_watch.next().await.unwrap().changes, [QueueChange::Enqueued(Arc::new(anna))]);
    })
    .await;
}

async fn drop_ages(state: &StateManager) -> SequenceNumber {
    let mut tx = state.begin();
    state.drop_collection(&mut tx, "ages").await.unwrap();
    tx.commit().await.unwrap()
}

#[tokio::test]
async fn a_watch_ends_when_another_takes_the_name_at_once() {
    on_every_level(async |state| {
        let old = ages(&state).await;
        set(&state, &old, "anna", 1).await;
        let mut watch = old.watch().await.unwrap();
        let mut tx = state.begin();
        state.drop_collection(&mut tx, "ages").await.unwrap();
        let new = Ages::open(&state, &mut tx, "ages").await.unwrap();
        new.set(&mut tx, "anna".into(), 2).await.unwrap();
        new.clear(&mut tx).await.unwrap();
        new.set(&mut tx, "bert".into(), 3).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(watch.next().await.unwrap().changes, [Change::Cleared]);
        assert_eq!(watch.next().await.unwrap_err().kind(), ErrorKind::NotFound);
        let mut watch = new.watch().await.unwrap();
        set(&state, &new, "bert", 4).await;
        assert_eq!(watch.next().await.unwrap().changes, [was_set("bert", Some(3), 4)]);
    })
    .await;
}

#[tokio::test]
async fn the_end_of_one_is_not_that_of_the_next_of_its_name() {
    let node = TestNode::start().await;
    for level in [Level::Persisted, Level::Volatile] {
        let state = node.state(level).await;
        let old = ages(&state).await;
        let start = set(&state, &old, "anna", 1).await;
        drop_ages(&state).await;
        let new = ages(&state).await;
        set(&state, &new, "bert", 2).await;
        let mut watch = new.watch_after(start).await.unwrap();
        assert_eq!(watch.next().await.unwrap().changes, [was_set("bert", None, 2)]);
        drop_ages(&state).await;
        assert_eq!(watch.next().await.unwrap().changes, [Change::Cleared]);
        assert_eq!(watch.next().await.unwrap_err().kind(), ErrorKind::NotFound);
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn what_comes_and_goes_in_one_transaction_is_not_shown() {
    on_every_level(async |state| {
        let ages = ages(&state).await;
        let mut watch = ages.watch().await.unwrap();
        set(&state, &ages, "anna", 1).await;
        let mut tx = state.begin();
        ages.add(&mut tx, "bert".into(), 2).await.unwrap();
        ages.remove(&mut tx, "bert").await.unwrap();
        assert!(!ages.contains(&mut tx, "bert").await.unwrap());
        tx.commit().await.unwrap();
        let mut tx = state.begin();
        ages.add(&mut tx, "bert".into(), 2).await.unwrap();
        ages.remove(&mut tx, "bert").await.unwrap();
        ages.add(&mut tx, "carl".into(), 3).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(watch.next().await.unwrap().changes, [was_set("anna", None, 1)]);
        assert_eq!(watch.next().await.unwrap().changes, [was_set("carl", None, 3)]);
        assert_eq!(ages.len(&mut state.begin()).await.unwrap(), 2);
    })
    .await;
}

/// The first watch of a set of level none, while others of the set commit all the time.
#[test]
fn the_first_watch_opens_while_others_commit() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        for _ in 0..50 {
            let node = TestNode::start_small().await;
            let state = node.state(Level::None).await;
            let ages = ages(&state).await;
            let other = node.partition(Level::None, 8).await;
            let busy = Arc::new(AtomicBool::new(true));
            let goes_on = busy.clone();
            let (begun, has_begun) = std::sync::mpsc::sync_channel(1);
            let committing = std::thread::Builder::new().spawn(move || {
                while goes_on.load(Ordering::Relaxed) {
                    let mut batch = other.batch();
                    batch.put(b"key", b"value");
                    other.commit_at_once(batch).unwrap();
                    _ = begun.try_send(());
                }
            });
            has_begun.recv().unwrap();
            let watch = ages.watch().await;
            busy.store(false, Ordering::Relaxed);
            committing.unwrap().join().unwrap();
            watch.unwrap();
        }
    });
}
