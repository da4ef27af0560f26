//! The numbers of events, which are stored with the actors that publish them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use mainstay_core::{ActorId, ErrorKind, Level};
use mainstay_state::actor::{ActorStore, ActorWrites, EVENT_NAME_BYTES_MAX};
use support::{LEVELS, TestNode};

fn published(id: &ActorId, events: &[&str]) -> ActorWrites {
    let mut writes = ActorWrites::new(id.clone());
    events.iter().for_each(|event| writes.publish(event).unwrap());
    writes
}

#[tokio::test]
async fn events_are_counted_by_actor_and_type() {
    let node = TestNode::start_small().await;
    let (alice, bob) = (ActorId::from("alice"), ActorId::from(2));
    for level in LEVELS {
        let store = ActorStore::open(node.partition(level, 1).await).await.unwrap();
        assert_eq!(store.published(&alice, "Moved").unwrap(), None);
        store.commit(&published(&alice, &["Moved", "Left", "Moved"])).await.unwrap();
        store.commit(&published(&bob, &["Moved"])).await.unwrap();
        let first = store.published(&alice, "Moved").unwrap().unwrap();
        assert_eq!(first.count, 2);
        assert_eq!(store.published(&alice, "Left").unwrap().unwrap().count, 1);
        assert_eq!(store.published(&bob, "Moved").unwrap().unwrap().count, 1);
        store.commit(&published(&alice, &["Moved"])).await.unwrap();
        let second = store.published(&alice, "Moved").unwrap().unwrap();
        assert_eq!((second.count, second.life), (3, first.life));
        assert!(store.state_names(&alice).unwrap().is_empty());
    }
}

#[tokio::test]
async fn an_actor_that_was_deleted_counts_anew_in_another_life() {
    let node = TestNode::start_small().await;
    let store = ActorStore::open(node.partition(Level::None, 1).await).await.unwrap();
    let alice = ActorId::from("alice");
    store.commit(&published(&alice, &["Moved", "Moved"])).await.unwrap();
    let first = store.published(&alice, "Moved").unwrap().unwrap();
    let mut writes = published(&alice, &["Moved"]);
    writes.delete_actor();
    assert_eq!(writes.published("Moved"), 0);
    writes.merge(published(&alice, &["Moved"])).unwrap();
    store.commit(&writes).await.unwrap();
    let second = store.published(&alice, "Moved").unwrap().unwrap();
    assert_eq!(second.count, 1);
    assert_ne!(second.life, first.life);

    let mut writes = ActorWrites::new(alice.clone());
    writes.delete_actor();
    store.commit(&writes).await.unwrap();
    assert_eq!(store.published(&alice, "Moved").unwrap(), None);
}

#[tokio::test]
async fn the_count_outlives_a_restart() {
    let node = TestNode::start().await;
    let alice = ActorId::from("alice");
    let store = ActorStore::open(node.partition(Level::Persisted, 1).await).await.unwrap();
    store.commit(&published(&alice, &["Moved", "Moved"])).await.unwrap();
    let before = store.published(&alice, "Moved").unwrap();
    drop(store);
    let node = node.restart().await;
    let store = ActorStore::open(node.partition(Level::Persisted, 1).await).await.unwrap();
    assert_eq!(store.published(&alice, "Moved").unwrap(), before);
}

#[test]
fn merged_counts_add_up_and_are_remembered_after_a_deletion() {
    let alice = ActorId::from("alice");
    let mut writes = published(&alice, &["Moved"]);
    writes.merge(published(&alice, &["Left", "Moved"])).unwrap();
    assert_eq!((writes.published("Moved"), writes.published("Left"), writes.published("Came")), (2, 1, 0));
    let mut deletion = ActorWrites::new(alice.clone());
    deletion.delete_actor();
    assert!(!deletion.is_publishing());
    writes.merge(deletion).unwrap();
    assert_eq!(writes.published("Moved"), 0);
    assert!(writes.is_publishing(), "what was published before has yet to leave");
    // As many as a map is needed for.
    for number in 0..40 {
        writes.merge(published(&alice, &[&format!("event {number}"), "Moved"])).unwrap();
    }
    assert_eq!((writes.published("Moved"), writes.published("event 7")), (40, 1));
}

#[test]
fn the_name_of_an_event_has_a_limit() {
    let mut writes = ActorWrites::new(ActorId::from(1));
    writes.publish(&"x".repeat(EVENT_NAME_BYTES_MAX)).unwrap();
    let error = writes.publish(&"x".repeat(EVENT_NAME_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().starts_with("the name of an event has 1025 bytes"), "{error}");
}
