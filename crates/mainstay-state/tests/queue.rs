//! A queue in strict order, on every level.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::poll;
use mainstay_core::time::Duration;
use mainstay_core::{ErrorKind, Level, task};
use mainstay_state::{CollectionKind, ConcurrentQueue, Dictionary, Queue, StateManager, Transaction, VALUE_BYTES_MAX};
use support::{LEVELS, TestNode, on_every_level};

type Numbers = Queue<u64>;

async fn numbers(state: &StateManager) -> Numbers {
    state.collection("numbers").await.unwrap()
}

async fn enqueue(state: &StateManager, queue: &Numbers, items: impl IntoIterator<Item = u64>) {
    let mut tx = state.begin();
    for item in items {
        queue.enqueue(&mut tx, item).await.unwrap();
    }
    tx.commit().await.unwrap();
}

async fn dequeue(tx: &mut Transaction, queue: &Numbers) -> Option<u64> {
    queue.try_dequeue(tx).await.unwrap().as_deref().copied()
}

/// All that is left, in a transaction that is committed.
async fn drain(state: &StateManager, queue: &Numbers) -> Vec<u64> {
    let mut tx = state.begin();
    let mut all = Vec::new();
    while let Some(item) = dequeue(&mut tx, queue).await {
        all.push(item);
    }
    tx.commit().await.unwrap();
    all
}

async fn all(tx: &mut Transaction, queue: &Numbers) -> Vec<u64> {
    let items: Vec<Arc<u64>> = queue.entries(tx).await.unwrap().collect().await.unwrap();
    items.iter().map(|item| **item).collect()
}

#[tokio::test]
async fn what_comes_first_leaves_first_within_and_across_transactions() {
    on_every_level(async |state| {
        let queue = numbers(&state).await;
        enqueue(&state, &queue, 0..3).await;
        enqueue(&state, &queue, [9, 8]).await;
        let mut tx = state.begin();
        assert_eq!(dequeue(&mut tx, &queue).await, Some(0));
        assert_eq!(dequeue(&mut tx, &queue).await, Some(1));
        tx.commit().await.unwrap();
        enqueue(&state, &queue, [7]).await;
        assert_eq!(drain(&state, &queue).await, [2, 9, 8, 7]);
        assert_eq!(drain(&state, &queue).await, []);
    })
    .await;
}

#[tokio::test]
async fn the_order_is_that_of_commits_not_of_calls() {
    on_every_level(async |state| {
        let queue = numbers(&state).await;
        let (mut one, mut two) = (state.begin(), state.begin());
        // Both are under way at the same time, and neither waits: a limit of zero would say so.
        queue.enqueue(one.within(Duration::ZERO), 1).await.unwrap();
        queue.enqueue(two.within(Duration::ZERO), 2).await.unwrap();
        queue.enqueue(one.within(Duration::ZERO), 11).await.unwrap();
        queue.enqueue(two.within(Duration::ZERO), 22).await.unwrap();
        two.commit().await.unwrap();
        one.commit().await.unwrap();
        assert_eq!(drain(&state, &queue).await, [2, 22, 1, 11]);
    })
    .await;
}

#[tokio::test]
async fn producers_and_a_consumer_do_not_wait_for_each_other() {
    on_every_level(async |state| {
        let queue = numbers(&state).await;
        enqueue(&state, &queue, [1, 2]).await;
        let mut producer = state.begin();
        queue.enqueue(&mut producer, 3).await.unwrap();
        let mut consumer = state.begin();
        let limit = Duration::ZERO;
        assert_eq!(queue.try_dequeue(consumer.within(limit)).await.unwrap().as_deref(), Some(&1));
        queue.enqueue(producer.within(limit), 4).await.unwrap();
        let mut other = state.begin();
        queue.enqueue(other.within(limit), 5).await.unwrap();
        other.commit().await.unwrap();
        assert_eq!(queue.try_dequeue(consumer.within(limit)).await.unwrap().as_deref(), Some(&2));
        // What has been committed since is dequeued although the consumer began before that.
        assert_eq!(queue.try_dequeue(consumer.within(limit)).await.unwrap().as_deref(), Some(&5));
        consumer.commit().await.unwrap();
        producer.commit().await.unwrap();
        assert_eq!(drain(&state, &queue).await, [3, 4]);
    })
    .await;
}

#[tokio::test]
async fn consumers_wait_for_each_other() {
    on_every_level(async |state| {
        let queue = numbers(&state).await;
        enqueue(&state, &queue, [1, 2]).await;
        let (mut one, mut two) = (state.begin(), state.begin());
        assert_eq!(dequeue(&mut one, &queue).await, Some(1));
        let error = queue.try_dequeue(two.within(Duration::ZERO)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.to_string().contains(r#"the head of queue "numbers""#), "{error}");
        let mut waiting = Box::pin(queue.try_dequeue(&mut two));
        assert!(poll!(&mut waiting).is_pending());
        one.abort();
        assert_eq!(waiting.await.unwrap().as_deref(), Some(&1), "an aborted dequeue leaves the queue as it was");
    })
    .await;
}

#[tokio::test]
async fn who_sees_the_queue_empty_keeps_it_so_until_its_end() {
    on_every_level(async |state| {
        let queue = numbers(&state).await;
        for peeks in [false, true] {
            let mut consumer = state.begin();
            let seen = if peeks { queue.peek(&mut consumer).await } else { queue.try_dequeue(&mut consumer).await };
            assert_eq!(seen.unwrap(), None);
            let mut producer = state.begin();
            let error = queue.enqueue(producer.within(Duration::ZERO), 1).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout);
            assert!(error.to_string().contains(r#"the tail of queue "numbers""#), "{error}");
            assert_eq!(dequeue(&mut consumer, &queue).await, None);
            let mut waiting = Box::pin(queue.enqueue(&mut producer, 1));
            assert!(poll!(&mut waiting).is_pending());
            // It can enqueue itself.
            queue.enqueue(&mut consumer, 7).await.unwrap();
            consumer.commit().await.unwrap();
            waiting.await.unwrap();
            producer.commit().await.unwrap();
            assert_eq!(drain(&state, &queue).await, [7, 1]);
        }
    })
    .await;
}

#[tokio::test]
async fn who_finds_nothing_waits_for_those_who_are_enqueuing() {
    on_every_level(async |state| {
        let queue = numbers(&state).await;
        let (mut good, mut bad) = (state.begin(), state.begin());
        queue.enqueue(&mut good, 1).await.unwrap();
        queue.enqueue(&mut bad, 2).await.unwrap();
        let mut consumer = state.begin();
        let mut waiting = Box::pin(queue.try_dequeue(&mut consumer));
        assert!(poll!(&mut waiting).is_pending());
        good.commit().await.unwrap();
        assert!(poll!(&mut waiting).is_pending());
        bad.abort();
        assert_eq!(waiting.await.unwrap().as_deref(), Some(&1));
    })
    .await;
}

#[tokio::test]
async fn what_a_transaction_enqueues_it_dequeues_after_all_that_is_committed() {
    on_every_level(async |state| {
        let queue = numbers(&state).await;
        enqueue(&state, &queue, [1]).await;
        let mut tx = state.begin();
        queue.enqueue(&mut tx, 2).await.unwrap();
        queue.enqueue(&mut tx, 3).await.unwrap();
        enqueue(&state, &queue, [10]).await;
        assert_eq!(queue.peek_for_update(&mut tx).await.unwrap().as_deref(), Some(&1));
        assert_eq!(dequeue(&mut tx, &queue).await, Some(1));
        assert_eq!(dequeue(&mut tx, &queue).await, Some(10));
        assert_eq!(queue.peek(&mut tx).await.unwrap().as_deref(), Some(&2));
        assert_eq!(dequeue(&mut tx, &queue).await, Some(2));
        queue.enqueue(&mut tx, 4).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(drain(&state, &queue).await, [3, 4]);
    })
    .await;
}

#[tokio::test]
async fn an_aborted_dequeue_leaves_the_queue_as_it_was() {
    on_every_level(async |state| {
        let queue = numbers(&state).await;
        enqueue(&state, &queue, 0..5).await;
        for _ in 0..2 {
            let mut tx = state.begin();
            for item in 0..3 {
                assert_eq!(dequeue(&mut tx, &queue).await, Some(item));
            }
            queue.enqueue(&mut tx, 99).await.unwrap();
            assert_eq!(queue.len(&mut tx).await.unwrap(), 3);
            drop(tx);
            assert_eq!(queue.len(&mut state.begin()).await.unwrap(), 5);
        }
        assert_eq!(drain(&state, &queue).await, [0, 1, 2, 3, 4]);
    })
    .await;
}

#[tokio::test]
async fn counts_and_enumerations_are_of_a_snapshot_with_own_changes() {
    on_every_level(async |state| {
        let queue = numbers(&state).await;
        enqueue(&state, &queue, [1, 2, 3]).await;
        let mut tx = state.begin();
        assert_eq!(queue.len(&mut tx).await.unwrap(), 3);
        enqueue(&state, &queue, [4, 5]).await;
        queue.enqueue(&mut tx, 6).await.unwrap();
        queue.enqueue(&mut tx, 7).await.unwrap();
        assert_eq!(all(&mut tx, &queue).await, [1, 2, 3, 6, 7]);
        assert_eq!(dequeue(&mut tx, &queue).await, Some(1));
        assert_eq!(all(&mut tx, &queue).await, [2, 3, 6, 7]);
        let reversed: Vec<Arc<u64>> = queue.entries_reversed(&mut tx).await.unwrap().collect().await.unwrap();
        assert_eq!(reversed, [7, 6, 3, 2].map(Arc::new));
        assert_eq!(queue.len(&mut tx).await.unwrap(), 4);
        // A dequeue is of what is committed now; what the snapshot never had is not missing from it.
        for item in [2, 3, 4, 5] {
            assert_eq!(dequeue(&mut tx, &queue).await, Some(item));
        }
        assert_eq!(all(&mut tx, &queue).await, [6, 7]);
        assert_eq!(queue.len(&mut tx).await.unwrap(), 2);
        assert!(!queue.is_empty(&mut tx).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(queue.len(&mut state.begin()).await.unwrap(), 2);
        assert_eq!(drain(&state, &queue).await, [6, 7]);
        assert!(queue.is_empty(&mut state.begin()).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_clear_is_part_of_its_transaction() {
    on_every_level(async |state| {
        let queue = numbers(&state).await;
        enqueue(&state, &queue, [1, 2, 3]).await;
        for commits in [false, true] {
            let mut tx = state.begin();
            assert_eq!(dequeue(&mut tx, &queue).await, Some(1));
            queue.enqueue(&mut tx, 4).await.unwrap();
            queue.clear(&mut tx).await.unwrap();
            assert!(queue.is_empty(&mut tx).await.unwrap());
            assert_eq!(queue.peek(&mut tx).await.unwrap(), None);
            assert_eq!(dequeue(&mut tx, &queue).await, None);
            assert_eq!(all(&mut tx, &queue).await, []);
            queue.enqueue(&mut tx, 5).await.unwrap();
            queue.enqueue(&mut tx, 6).await.unwrap();
            assert_eq!(dequeue(&mut tx, &queue).await, Some(5));
            assert_eq!(queue.len(&mut tx).await.unwrap(), 1);
            if commits {
                tx.commit().await.unwrap();
            }
        }
        enqueue(&state, &queue, [7]).await;
        assert_eq!(queue.len(&mut state.begin()).await.unwrap(), 2);
        assert_eq!(drain(&state, &queue).await, [6, 7]);
        // Undone, it leaves everything.
        enqueue(&state, &queue, [1, 2, 3]).await;
        let mut tx = state.begin();
        queue.clear(&mut tx).await.unwrap();
        drop(tx);
        assert_eq!(drain(&state, &queue).await, [1, 2, 3]);
    })
    .await;
}

#[tokio::test]
async fn more_than_is_read_ahead_stays_in_order() {
    on_every_level(async |state| {
        let queue = numbers(&state).await;
        for part in 0..7 {
            enqueue(&state, &queue, part * 100..(part + 1) * 100).await;
        }
        // Taken and given back across what is read at once.
        let mut tx = state.begin();
        for item in 0..600 {
            assert_eq!(dequeue(&mut tx, &queue).await, Some(item));
        }
        drop(tx);
        assert_eq!(drain(&state, &queue).await, (0..700).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn a_restart_keeps_what_is_persisted() {
    let node = TestNode::start().await;
    let state = node.state(Level::Persisted).await;
    let queue = numbers(&state).await;
    enqueue(&state, &queue, 0..5).await;
    let mut tx = state.begin();
    assert_eq!(dequeue(&mut tx, &queue).await, Some(0));
    queue.enqueue(&mut tx, 5).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = state.begin();
    assert_eq!(dequeue(&mut tx, &queue).await, Some(1));
    drop((tx, queue, state));
    let node = node.restart().await;
    let state = node.state(Level::Persisted).await;
    let queue = numbers(&state).await;
    assert_eq!(queue.len(&mut state.begin()).await.unwrap(), 5);
    // New commits go behind the old ones.
    enqueue(&state, &queue, [6]).await;
    assert_eq!(drain(&state, &queue).await, [1, 2, 3, 4, 5, 6]);
    node.replicas.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_producers_and_consumers_lose_and_double_nothing() {
    const PRODUCERS: u64 = 6;
    const EACH: u64 = 40;
    let node = TestNode::start().await;
    for level in LEVELS {
        let state = node.state(level).await;
        let queue = numbers(&state).await;
        let produce = |producer: u64| {
            let (state, queue) = (state.clone(), queue.clone());
            task::spawn(async move {
                for item in 0..EACH {
                    let body =
                        async |mut tx: mainstay_state::Attempt| queue.enqueue(&mut tx, producer * EACH + item).await;
                    state.transact(body).await.unwrap();
                }
            })
        };
        let producers: Vec<_> = (0..PRODUCERS).map(produce).collect();
        let consume = |_| {
            let (state, queue) = (state.clone(), queue.clone());
            task::spawn(async move {
                let mut got: Vec<(u64, u64)> = Vec::new();
                while got.last() != Some(&(u64::MAX, u64::MAX)) {
                    let mut tx = state.begin();
                    let Ok(Some(item)) = queue.try_dequeue(&mut tx).await else {
                        drop(tx);
                        tokio::task::yield_now().await;
                        continue;
                    };
                    // One in four is undone, and somebody gets it again.
                    if *item % 4 == 0 && got.len().is_multiple_of(2) && *item != u64::MAX {
                        drop(tx);
                        got.push((u64::MAX, 0));
                        continue;
                    }
                    if *item == u64::MAX {
                        queue.enqueue(&mut tx, u64::MAX).await.unwrap();
                    }
                    let place = tx.commit().await.unwrap();
                    got.push(if *item == u64::MAX { (u64::MAX, u64::MAX) } else { (place.0, *item) });
                }
                got
            })
        };
        let consumers: Vec<_> = (0..4).map(consume).collect();
        for producer in producers {
            producer.await.unwrap();
        }
        enqueue(&state, &queue, [u64::MAX]).await;
        let mut got = Vec::new();
        for consumer in consumers {
            got.extend(consumer.await.unwrap().into_iter().filter(|(place, _)| *place != u64::MAX));
        }
        got.sort_unstable();
        let items: Vec<u64> = got.iter().map(|(_, item)| *item).collect();
        assert_eq!(items.len() as u64, PRODUCERS * EACH);
        assert_eq!(items.iter().collect::<BTreeSet<_>>().len(), items.len());
        // Each producer's items leave in the order in which they came.
        for producer in 0..PRODUCERS {
            assert!(items.iter().filter(|item| **item / EACH == producer).is_sorted());
        }
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_queue_is_what_it_was_created_as() {
    on_every_level(async |state| {
        let queue = numbers(&state).await;
        assert_eq!(format!("{queue:?}").split(" of ").next(), Some(r#"queue "numbers""#));
        let infos = state.collections().unwrap();
        assert_eq!((infos[0].kind, infos[0].key.as_deref()), (CollectionKind::Queue, None));
        let error = state.collection::<Queue<String>>("numbers").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains(r#"collection "numbers" is a queue of"#), "{error}");
        for error in [
            state.collection::<ConcurrentQueue<u64>>("numbers").await.unwrap_err(),
            state.collection::<Dictionary<u64, u64>>("numbers").await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Conflict);
        }
        for name in ["", "a\nb", &"n".repeat(300)] {
            assert!(state.collection::<Numbers>(name).await.is_err());
        }

        enqueue(&state, &queue, [1]).await;
        let mut tx = state.begin();
        state.drop_collection(&mut tx, "numbers").await.unwrap();
        tx.commit().await.unwrap();
        let error = queue.try_dequeue(&mut state.begin()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        // A new one of that name has nothing of the old one, and can be used in the transaction that creates it.
        let mut tx = state.begin();
        let again = <Numbers as mainstay_state::Collection>::open(&state, &mut tx, "numbers").await.unwrap();
        assert_eq!(dequeue(&mut tx, &again).await, None);
        again.enqueue(&mut tx, 2).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(drain(&state, &again).await, [2]);
    })
    .await;
}

#[tokio::test]
async fn bad_input_is_refused_and_changes_nothing() {
    let node = TestNode::start().await;
    for level in LEVELS {
        let state = node.state(level).await;
        let queue: Queue<String> = state.collection("texts").await.unwrap();
        let mut tx = state.begin();
        queue.enqueue(&mut tx, "good".into()).await.unwrap();
        let error = queue.enqueue(&mut tx, "x".repeat(VALUE_BYTES_MAX)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        let text = error.to_string();
        assert!(text.starts_with(r#"queue "texts": "#) && text.contains(&VALUE_BYTES_MAX.to_string()), "{text}");
        for _ in 0..3 {
            queue.enqueue(&mut tx, "x".repeat(VALUE_BYTES_MAX - 100)).await.unwrap();
        }
        let error = queue.enqueue(&mut tx, "x".repeat(VALUE_BYTES_MAX - 100)).await.unwrap_err();
        assert!(error.to_string().contains("TRANSACTION_BYTES_MAX"), "{error}");
        tx.commit().await.unwrap();
        assert_eq!(queue.len(&mut state.begin()).await.unwrap(), 4);

        // What takes more than a transaction can hold stays, and the rest can be committed.
        let mut tx = state.begin();
        queue.enqueue(&mut tx, "x".repeat(VALUE_BYTES_MAX - 100)).await.unwrap();
        for _ in 0..3 {
            queue.try_dequeue(&mut tx).await.unwrap().unwrap();
        }
        let error = queue.try_dequeue(&mut tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        tx.commit().await.unwrap();
        assert_eq!(queue.len(&mut state.begin()).await.unwrap(), 2);

        let there = StateManager::open(node.partition(level, 8).await).await.unwrap();
        let error = queue.enqueue(&mut there.begin(), "elsewhere".into()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("partition p8"), "{error}");
    }
    node.replicas.stop().await;
}

/// Two versions of a type that cannot read each other, under one name.
mod versions {
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    #[serde(rename = "Order")]
    pub(crate) struct Old {
        pub(crate) count: u64,
    }

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(rename = "Order")]
    pub(crate) struct New {
        pub(crate) amount: u64,
    }
}

#[tokio::test]
async fn an_item_that_cannot_be_read_is_named_and_can_be_discarded() {
    on_every_level(async |state| {
        let old: Queue<versions::Old> = state.collection("orders").await.unwrap();
        let mut tx = state.begin();
        old.enqueue(&mut tx, versions::Old { count: 1 }).await.unwrap();
        tx.commit().await.unwrap();
        let new: Queue<versions::New> = state.collection("orders").await.unwrap();
        let mut tx = state.begin();
        new.enqueue(&mut tx, versions::New { amount: 2 }).await.unwrap();
        tx.commit().await.unwrap();

        let mut tx = state.begin();
        for error in [new.try_dequeue(&mut tx).await.unwrap_err(), new.peek(&mut tx).await.unwrap_err()] {
            let text = error.to_string();
            assert!(text.contains(r#"queue "orders", item 0 of commit "#) && text.contains("amount"), "{text}");
        }
        assert!(new.discard(&mut tx).await.unwrap());
        assert_eq!(new.try_dequeue(&mut tx).await.unwrap().unwrap().amount, 2);
        assert!(!new.discard(&mut tx).await.unwrap());
        tx.commit().await.unwrap();
        assert!(new.is_empty(&mut state.begin()).await.unwrap());
    })
    .await;
}
