//! Actors with much to delete.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Waker};

use bytes::Bytes;
use mainstay_core::time::{Duration, WallTime};
use mainstay_core::{ActorId, ErrorKind, Level, NodeId};
use mainstay_replica::{Partition, UniformSetsOptions};
use mainstay_state::actor::{ActorStore, ActorWrites, Answer, IDEMPOTENCY_KEY_BYTES_MAX, Reminder, Schedule};
use support::{LEVELS, TestNode, stored_keys};

fn at(millis: u64) -> WallTime {
    WallTime::from_millis(millis)
}

fn answer(expires: u64) -> Answer {
    Answer {
        interface: None,
        method: "pay".into(),
        arguments: None,
        reply: Bytes::from_static(b"paid"),
        expires: at(expires),
    }
}

fn reminder(name: &str, due: u64) -> Reminder {
    Reminder::new(name, Bytes::new(), Schedule::Every(Duration::from_secs(1)), at(due)).unwrap()
}

/// Fills an actor with so many answers and reminders, whose names have so many bytes, and so many states.
async fn fill(store: &ActorStore, id: &ActorId, count: usize, name_bytes: usize) {
    let numbers: Vec<usize> = (0..count).collect();
    for page in numbers.chunks(2000) {
        let mut writes = ActorWrites::new(id.clone());
        writes.mark_known();
        for number in page {
            let name = format!("{number:0name_bytes$}");
            writes.put_answer(&name, answer(1000 + *number as u64)).unwrap();
            writes.put_reminder(reminder(&name, 2000 + *number as u64)).unwrap();
            writes.put_state(&format!("\0{number}"), Bytes::from_static(b"dynamic")).unwrap();
        }
        writes.publish("Moved").unwrap();
        store.commit(&writes).await.unwrap();
    }
}

fn deletion(id: &ActorId) -> ActorWrites {
    let mut writes = ActorWrites::new(id.clone());
    writes.delete_actor();
    writes
}

fn assert_gone(store: &ActorStore, id: &ActorId) {
    assert!(!store.holds(id).unwrap() && !store.is_known(id).unwrap());
    assert_eq!(store.next_due().unwrap(), None);
    assert_eq!(store.next_expiry().unwrap(), None);
    assert_eq!(store.reminders(id).unwrap(), []);
    assert_eq!((store.answer_count(id).unwrap(), store.reminder_count(id).unwrap()), (0, 0));
}

/// What is stored but the version of the layout.
fn left(partition: &Partition) -> Vec<Bytes> {
    stored_keys(partition).into_iter().filter(|key| key.as_ref() != b"\x40").collect()
}

#[tokio::test]
async fn an_actor_with_a_hundred_thousand_entries_is_deleted() {
    let node = TestNode::start_small().await;
    let store = ActorStore::open(node.partition(Level::Volatile, 1).await).await.unwrap();
    let (id, other) = (ActorId::from("busy"), ActorId::from("other"));
    fill(&store, &id, 34_000, 8).await;
    assert_eq!((store.answer_count(&id).unwrap(), store.reminder_count(&id).unwrap()), (34_000, 34_000));
    fill(&store, &other, 3, 8).await;
    // Entries, places, that it is known, and the count of its events.
    let others = left(store.partition()).len() - 5 * 34_000 - 2;
    store.commit(&deletion(&id)).await.unwrap();
    assert!(store.holds(&other).unwrap());
    assert_eq!(left(store.partition()).len(), others);
    store.commit(&deletion(&other)).await.unwrap();
    assert_gone(&store, &id);
    assert_eq!(left(store.partition()), [] as [Bytes; 0]);
    node.replicas.stop().await;
}

#[tokio::test]
async fn long_keys_do_not_make_a_deletion_too_large_on_any_level() {
    let node = TestNode::start_small().await;
    for level in LEVELS {
        let store = ActorStore::open(node.partition(level, 1).await).await.unwrap();
        let id = ActorId::from("busy");
        // Twice as much as a commit can have, in places alone.
        fill(&store, &id, 20_000, IDEMPOTENCY_KEY_BYTES_MAX).await;
        store.commit(&deletion(&id)).await.unwrap();
        assert_gone(&store, &id);
        assert_eq!(left(store.partition()), [] as [Bytes; 0]);
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn an_answer_that_is_kept_with_the_deletion_keeps_its_place() {
    let node = TestNode::start_with(small_commits()).await;
    for level in LEVELS {
        let store = ActorStore::open(node.partition(level, 1).await).await.unwrap();
        let id = ActorId::from("busy");
        fill_in_small_commits(&store, &id, 1000).await;
        let mut writes = deletion(&id);
        let name = format!("{:064}", 7);
        // At the very time that the one before had.
        writes.put_answer(&name, answer(1007)).unwrap();
        store.commit(&writes).await.unwrap();
        assert_eq!(store.answer(&id, &name).unwrap(), Some(answer(1007)));
        assert_eq!(store.expired_answers(at(9999), 9).unwrap(), [(id.clone(), name)]);
        assert!(store.holds(&id).unwrap() && !store.is_known(&id).unwrap());
        assert_eq!(left(store.partition()).len(), 2);
        store.commit(&deletion(&id)).await.unwrap();
        assert_gone(&store, &id);
    }
    node.replicas.stop().await;
}

/// A host whose commits are small, so that little is much.
fn small_commits() -> UniformSetsOptions {
    let mut options = UniformSetsOptions { sets_per_level: 1, ..UniformSetsOptions::new(NodeId(1)) };
    options.replica.commit.commit_bytes_max = 64 << 10;
    options
}

#[tokio::test]
async fn a_deletion_that_is_cut_short_is_finished_by_the_next_opening() {
    let node = TestNode::start_with(small_commits()).await;
    let (id, other) = (ActorId::from("busy"), ActorId::from("other"));
    let mut cut = Vec::new();
    // After the first answer of the partition, after the second, and so on.
    for steps in 0..6 {
        let partition = node.partition(Level::Persisted, 10 + steps).await;
        let store = ActorStore::open(partition.clone()).await.unwrap();
        fill_in_small_commits(&store, &id, 1000).await;
        fill_in_small_commits(&store, &other, 10).await;
        let before = left(&partition).len();
        {
            let writes = deletion(&id);
            let mut committing = pin!(store.commit(&writes));
            let mut cx = Context::from_waker(Waker::noop());
            let mut is_over = committing.as_mut().poll(&mut cx).is_ready();
            for _ in 0..steps {
                // The commit that is under way lands; then the deletion takes its next step.
                let landed = partition.read().unwrap().sequence_number();
                while !is_over && partition.read().unwrap().sequence_number() == landed {
                    tokio::task::yield_now().await;
                    is_over = committing.as_mut().poll(&mut cx).is_ready();
                }
            }
        }
        store.close().await;
        drop(store);
        // What was under way when it was given up lands before this.
        let mut batch = partition.batch();
        batch.put(b"\x50", b"").delete(b"\x50");
        partition.commit(batch).await.unwrap();
        cut.push(left(&partition).len());
        let store = ActorStore::open(partition.clone()).await.unwrap();
        // Nothing is there, or everything.
        match store.is_known(&id).unwrap() {
            true => assert_eq!(left(&partition).len(), before),
            false => {
                assert!(!store.holds(&id).unwrap());
                assert_eq!(left(&partition).len(), before - 5 * 1000 - 2, "after {steps} steps");
            }
        }
        assert_eq!(store.reminder_count(&other).unwrap(), 10);
        assert_eq!(store.due(at(99_999), 99).unwrap().iter().filter(|(found, _)| *found == other).count(), 10);
        // And one that comes after it is not touched by what was left of the one before.
        fill_in_small_commits(&store, &id, 10).await;
        drop(store);
        let store = ActorStore::open(partition.clone()).await.unwrap();
        assert_eq!(store.due(at(99_999), 99).unwrap().iter().filter(|(found, _)| *found == id).count().min(10), 10);
        drop(store);
    }
    let others = 5 * 10 + 2;
    assert!(cut.iter().any(|left| *left > others), "at least one has left something: {cut:?}");
    node.replicas.stop().await;
}

async fn fill_in_small_commits(store: &ActorStore, id: &ActorId, count: usize) {
    let numbers: Vec<usize> = (0..count).collect();
    for page in numbers.chunks(50) {
        let mut writes = ActorWrites::new(id.clone());
        writes.mark_known();
        for number in page {
            let name = format!("{number:064}");
            writes.put_answer(&name, answer(1000 + *number as u64)).unwrap();
            writes.put_reminder(reminder(&name, 2000 + *number as u64)).unwrap();
            writes.put_state(&format!("\0{number}"), Bytes::from_static(b"dynamic")).unwrap();
        }
        writes.publish("Moved").unwrap();
        store.commit(&writes).await.unwrap();
    }
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_keeps_its_actor_however_far_behind_it_is() {
    let node = TestNode::start_with(small_commits()).await;
    let partition = node.partition(Level::None, 1).await;
    let store = ActorStore::open(partition.clone()).await.unwrap();
    let id = ActorId::from(7);
    fill_in_small_commits(&store, &id, 1000).await;
    let mut batch = partition.batch();
    batch.put(b"\x44\x01\x80\0\0\0\0\0\0\x07zzz", b"\x09");
    partition.commit(batch).await.unwrap();
    let before = left(&partition);
    assert_eq!(store.commit(&deletion(&id)).await.unwrap_err().kind(), ErrorKind::UnknownVersion);
    assert_eq!(left(&partition), before);
    node.replicas.stop().await;
}
