//! A queue for many producers and consumers, on every level.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::error::Error as _;
use std::sync::Arc;
use std::task::Poll;

use futures_util::poll;
use mainstay_core::time::Duration;
use mainstay_core::{ErrorKind, Level, task};
use mainstay_state::{CAPACITY_DEFAULT, ConcurrentQueue, NoItem, StateManager, Transaction, VALUE_BYTES_MAX};
use support::{LEVELS, TestNode, on_every_level};

type Jobs = ConcurrentQueue<u64>;

async fn jobs(state: &StateManager) -> Jobs {
    state.collection("jobs").await.unwrap()
}

async fn enqueue(state: &StateManager, queue: &Jobs, items: impl IntoIterator<Item = u64>) {
    let mut tx = state.begin();
    for item in items {
        queue.enqueue(&mut tx, item).await.unwrap();
    }
    tx.commit().await.unwrap();
}

async fn dequeue(tx: &mut Transaction, queue: &Jobs) -> Option<u64> {
    queue.try_dequeue(tx).await.unwrap().as_deref().copied()
}

/// All that is left, in a transaction that is committed.
async fn drain(state: &StateManager, queue: &Jobs) -> Vec<u64> {
    let mut tx = state.begin();
    let mut all = Vec::new();
    while let Some(item) = dequeue(&mut tx, queue).await {
        all.push(item);
    }
    tx.commit().await.unwrap();
    all
}

/// What a dequeue that has its item returns.
fn ready(poll: Poll<mainstay_core::Result<Arc<u64>>>) -> Option<u64> {
    match poll {
        Poll::Ready(item) => Some(*item.unwrap()),
        Poll::Pending => None,
    }
}

#[tokio::test]
async fn consumers_and_producers_work_at_the_same_time() {
    on_every_level(async |state| {
        let queue = jobs(&state).await;
        enqueue(&state, &queue, [1, 2, 3]).await;
        let (mut one, mut two, mut three) = (state.begin(), state.begin(), state.begin());
        let limit = Duration::ZERO;
        assert_eq!(dequeue(one.within(limit), &queue).await, Some(1));
        assert_eq!(dequeue(two.within(limit), &queue).await, Some(2));
        queue.enqueue(three.within(limit), 4).await.unwrap();
        assert_eq!(dequeue(one.within(limit), &queue).await, Some(3));
        // What others have taken or have not committed is not there, and nobody waits to find out.
        assert_eq!(dequeue(two.within(limit), &queue).await, None);
        three.commit().await.unwrap();
        assert_eq!(dequeue(two.within(limit), &queue).await, Some(4));
        // Undone, the items are where they were, and those that others have taken are not.
        one.abort();
        let mut four = state.begin();
        assert_eq!(dequeue(&mut four, &queue).await, Some(1));
        assert_eq!(dequeue(&mut four, &queue).await, Some(3));
        assert_eq!(dequeue(&mut four, &queue).await, None);
        drop(four);
        two.commit().await.unwrap();
        assert_eq!(queue.len(&mut state.begin()).await.unwrap(), 2);
        assert_eq!(drain(&state, &queue).await, [1, 3]);
    })
    .await;
}

#[tokio::test]
async fn a_transaction_dequeues_its_own_items_last() {
    on_every_level(async |state| {
        let queue = jobs(&state).await;
        let mut tx = state.begin();
        queue.enqueue(&mut tx, 1).await.unwrap();
        queue.enqueue(&mut tx, 2).await.unwrap();
        enqueue(&state, &queue, [10, 11]).await;
        assert_eq!(queue.len(&mut tx).await.unwrap(), 4);
        assert_eq!(*queue.dequeue(&mut tx).await.unwrap(), 10);
        assert_eq!(dequeue(&mut tx, &queue).await, Some(11));
        assert_eq!(*queue.dequeue(&mut tx).await.unwrap(), 1);
        assert_eq!(queue.len(&mut tx).await.unwrap(), 1);
        tx.commit().await.unwrap();
        assert_eq!(drain(&state, &queue).await, [2]);
        assert!(queue.is_empty(&mut state.begin()).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn those_who_wait_are_served_in_their_order_by_each_commit() {
    on_every_level(async |state| {
        let queue = jobs(&state).await;
        let (mut a, mut b, mut c) = (state.begin(), state.begin(), state.begin());
        let mut first = Box::pin(queue.dequeue(&mut a));
        let mut second = Box::pin(queue.dequeue(&mut b));
        let mut third = Box::pin(queue.dequeue(&mut c));
        assert!(poll!(&mut first).is_pending());
        assert!(poll!(&mut second).is_pending());
        assert!(poll!(&mut third).is_pending());
        let mut producer = state.begin();
        queue.enqueue(&mut producer, 1).await.unwrap();
        assert!(poll!(&mut first).is_pending(), "not before it is committed");
        producer.commit().await.unwrap();
        assert!(poll!(&mut second).is_pending());
        assert_eq!(ready(poll!(&mut first)), Some(1));
        enqueue(&state, &queue, [2]).await;
        // Nobody comes before those who wait, although the item is there.
        assert_eq!(dequeue(&mut state.begin(), &queue).await, None);
        assert!(poll!(&mut third).is_pending());
        assert_eq!(ready(poll!(&mut second)), Some(2));
        // What is given back goes to who waits.
        drop(first);
        drop(a);
        assert_eq!(ready(poll!(&mut third)), Some(1));
        drop((second, third));
        b.commit().await.unwrap();
        c.commit().await.unwrap();
        assert!(queue.is_empty(&mut state.begin()).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_wait_that_is_dropped_loses_neither_the_item_nor_the_wake_up() {
    on_every_level(async |state| {
        let queue = jobs(&state).await;
        let (mut a, mut b, mut c) = (state.begin(), state.begin(), state.begin());
        let mut first = Box::pin(queue.dequeue(&mut a));
        let mut second = Box::pin(queue.dequeue(&mut b));
        let mut third = Box::pin(queue.dequeue(&mut c));
        assert!(poll!(&mut first).is_pending());
        assert!(poll!(&mut second).is_pending());
        assert!(poll!(&mut third).is_pending());
        // Before it is served, and after it has been and has not heard of it.
        drop(second);
        enqueue(&state, &queue, [1]).await;
        drop(first);
        assert_eq!(ready(poll!(&mut third)), Some(1));
        drop(third);
        // Nobody is left, so the item is there for the next, and the transactions can go on.
        c.abort();
        assert_eq!(dequeue(&mut a, &queue).await, Some(1));
        b.commit().await.unwrap();
        a.commit().await.unwrap();
        assert!(queue.is_empty(&mut state.begin()).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_wait_that_is_forgotten_keeps_nothing_when_its_transaction_goes_on_or_ends() {
    on_every_level(async |state| {
        let queue = jobs(&state).await.with_capacity(2);
        let (mut a, mut b, mut c) = (state.begin(), state.begin(), state.begin());
        // One of them is never served, the others are and never hear of it.
        for tx in [&mut a, &mut b, &mut c] {
            let mut forgotten = Box::pin(queue.dequeue(tx));
            assert!(poll!(&mut forgotten).is_pending());
            std::mem::forget(forgotten);
        }
        enqueue(&state, &queue, [1, 2]).await;
        assert_eq!(queue.try_dequeue(&mut state.begin()).await.unwrap(), None, "both were granted");
        // Their transactions are committed, go on, and are undone.
        a.commit().await.unwrap();
        assert_eq!(*queue.dequeue(b.within(Duration::ZERO)).await.unwrap(), 2);
        drop((b, c));
        assert_eq!(drain(&state, &queue).await, [1, 2]);

        // So with room.
        enqueue(&state, &queue, [3, 4]).await;
        let mut tx = state.begin();
        let mut forgotten = Box::pin(queue.enqueue(&mut tx, 5));
        assert!(poll!(&mut forgotten).is_pending());
        std::mem::forget(forgotten);
        assert_eq!(drain(&state, &queue).await, [3, 4]);
        drop(tx);
        let mut tx = state.begin();
        for item in [6, 7] {
            queue.enqueue(tx.within(Duration::ZERO), item).await.unwrap();
        }
        tx.commit().await.unwrap();
        assert_eq!(drain(&state, &queue).await, [6, 7]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_has_waited_for_an_item_or_wants_too_much_is_not_tried_again() {
    let node = TestNode::start().await;
    let state = node.state(Level::None).await;
    let queue = jobs(&state).await.with_capacity(1);
    let (start, tries) = (mainstay_core::time::now(), Cell::new(0));
    let waited = state.transact(async |mut tx| {
        tries.update(|tries| tries + 1);
        queue.dequeue(tx.within(Duration::from_secs(1))).await
    });
    let error = waited.await.unwrap_err();
    assert_eq!((error.kind(), tries.take(), start.elapsed()), (ErrorKind::Timeout, 1, Duration::from_secs(1)));
    assert!(error.source().is_some_and(|source| source.is::<NoItem>()), "{error:?}");

    let fills = state.transact(async |mut tx| {
        tries.update(|tries| tries + 1);
        queue.enqueue(&mut tx, 1).await?;
        queue.enqueue(&mut tx, 2).await
    });
    let error = fills.await.unwrap_err();
    assert_eq!((error.kind(), tries.take()), (ErrorKind::TooLarge, 1), "{error}");
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_wait_can_be_woken_from_another_task() {
    let node = TestNode::start().await;
    for level in LEVELS {
        let state = node.state(level).await;
        let queue = jobs(&state).await;
        let consumer = task::spawn({
            let (state, queue) = (state.clone(), queue.clone());
            async move {
                let mut tx = state.begin();
                let mut sum = 0;
                for _ in 0..10 {
                    sum += *queue.dequeue(tx.within(Duration::from_secs(3600))).await.unwrap();
                }
                tx.commit().await.unwrap();
                sum
            }
        });
        for item in 1..=10 {
            tokio::task::yield_now().await;
            enqueue(&state, &queue, [item]).await;
        }
        assert_eq!(consumer.await.unwrap(), 55);
    }
    node.replicas.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_a_time_limit() {
    let node = TestNode::start().await;
    let state = node.state(Level::None).await;
    let queue = jobs(&state).await;
    let mut tx = state.begin();
    let start = mainstay_core::time::now();
    let error = queue.dequeue(&mut tx).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(4), "unless told otherwise");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let text = format!(r#"no item came for {} in concurrent queue "jobs" within 4s"#, tx.id());
    assert!(error.to_string().starts_with(&text), "{error}");
    queue.dequeue(tx.within(Duration::from_secs(1))).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    queue.dequeue(tx.within(Duration::ZERO)).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    // The transaction goes on, and nothing is left of its waits.
    enqueue(&state, &queue, [1]).await;
    assert_eq!(*queue.dequeue(tx.within(Duration::ZERO)).await.unwrap(), 1);
    // One who has cleared the queue waits for nobody but itself.
    tx.commit().await.unwrap();
    let mut tx = state.begin();
    queue.clear(&mut tx).await.unwrap();
    queue.enqueue(&mut tx, 2).await.unwrap();
    assert_eq!(*queue.dequeue(&mut tx).await.unwrap(), 2);
    assert_eq!(queue.dequeue(&mut tx).await.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(start.elapsed(), Duration::from_secs(9));
    node.replicas.stop().await;
}

#[tokio::test]
async fn producers_wait_for_room_in_their_order() {
    on_every_level(async |state| {
        let queue = jobs(&state).await;
        assert_eq!(queue.capacity(), CAPACITY_DEFAULT);
        let queue = queue.with_capacity(2);
        assert_eq!(queue.clone().capacity(), 2);
        let mut under_way = state.begin();
        queue.enqueue(&mut under_way, 1).await.unwrap();
        enqueue(&state, &queue, [2]).await;
        let (mut a, mut b, mut c) = (state.begin(), state.begin(), state.begin());
        let mut first = Box::pin(queue.enqueue(&mut a, 3));
        let mut second = Box::pin(queue.enqueue(&mut b, 4));
        let mut third = Box::pin(queue.enqueue(&mut c, 5));
        assert!(poll!(&mut first).is_pending(), "what is not yet committed counts");
        assert!(poll!(&mut second).is_pending());
        assert!(poll!(&mut third).is_pending());
        // Who would let the queue hold more does not come before those who wait.
        let wide = queue.clone().with_capacity(3);
        let mut late = state.begin();
        assert_eq!(wide.enqueue(late.within(Duration::ZERO), 6).await.unwrap_err().kind(), ErrorKind::Overloaded);
        // Room by one that is undone.
        under_way.abort();
        assert!(poll!(&mut second).is_pending());
        assert!(matches!(poll!(&mut first), Poll::Ready(Ok(()))));
        drop(first);
        a.commit().await.unwrap();
        assert!(poll!(&mut second).is_pending(), "what is committed counts once");
        // Room by a dequeue, when that is committed.
        let mut consumer = state.begin();
        assert_eq!(*queue.dequeue(&mut consumer).await.unwrap(), 2);
        assert!(poll!(&mut second).is_pending());
        consumer.commit().await.unwrap();
        // The room of a wait that is dropped goes to the next.
        drop(second);
        assert!(matches!(poll!(&mut third), Poll::Ready(Ok(()))));
        drop(third);
        c.commit().await.unwrap();
        assert_eq!(drain(&state, &queue).await, [3, 5]);
        enqueue(&state, &queue, [6, 7]).await;
        // It is the turn of who would let it hold more when those before it have given up.
        let mut d = state.begin();
        let mut fourth = Box::pin(queue.enqueue(&mut d, 8));
        assert!(poll!(&mut fourth).is_pending());
        let mut fifth = Box::pin(wide.enqueue(&mut late, 9));
        assert!(poll!(&mut fifth).is_pending());
        drop(fourth);
        assert!(matches!(poll!(&mut fifth), Poll::Ready(Ok(()))));
        drop((fifth, b));
        late.commit().await.unwrap();
        assert_eq!(drain(&state, &queue).await, [6, 7, 9]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_says_so() {
    let node = TestNode::start().await;
    let state = node.state(Level::None).await;
    let queue = jobs(&state).await.with_capacity(2);
    enqueue(&state, &queue, [1, 2]).await;
    let mut tx = state.begin();
    let start = mainstay_core::time::now();
    let error = queue.enqueue(&mut tx, 3).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(4));
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    let text = error.to_string();
    assert!(text.starts_with(r#"concurrent queue "jobs" is full: its capacity is 2"#), "{text}");
    queue.enqueue(tx.within(Duration::from_secs(1)), 3).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    // Who dequeues an item may put another one in its place.
    assert_eq!(dequeue(&mut tx, &queue).await, Some(1));
    queue.enqueue(tx.within(Duration::ZERO), 3).await.unwrap();
    assert_eq!(queue.enqueue(tx.within(Duration::ZERO), 4).await.unwrap_err().kind(), ErrorKind::Overloaded);
    tx.commit().await.unwrap();
    // Others may allow more.
    let mut tx = state.begin();
    queue.clone().with_capacity(3).enqueue(tx.within(Duration::ZERO), 4).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(drain(&state, &queue).await, [2, 3, 4]);

    // One that fills it alone would wait for itself, and is told at once; what it takes back makes room.
    let mut tx = state.begin();
    queue.enqueue(&mut tx, 1).await.unwrap();
    queue.enqueue(&mut tx, 2).await.unwrap();
    let error = queue.enqueue(&mut tx, 3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().starts_with(r#"one transaction would fill concurrent queue "jobs""#), "{error}");
    assert_eq!(dequeue(&mut tx, &queue).await, Some(1));
    queue.enqueue(&mut tx, 3).await.unwrap();
    // So does a clear, once: what was taken before it is gone with the rest.
    drop(tx);
    enqueue(&state, &queue, [1]).await;
    let mut tx = state.begin();
    assert_eq!(dequeue(&mut tx, &queue).await, Some(1));
    queue.clear(&mut tx).await.unwrap();
    queue.enqueue(&mut tx, 4).await.unwrap();
    queue.enqueue(&mut tx, 5).await.unwrap();
    assert_eq!(queue.enqueue(&mut tx, 6).await.unwrap_err().kind(), ErrorKind::TooLarge);
    tx.commit().await.unwrap();
    let mut tx = state.begin();
    let error = queue.enqueue(tx.within(Duration::ZERO), 6).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    drop(tx);
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(drain(&state, &queue).await, [4, 5]);
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_clear_is_part_of_its_transaction_and_reaches_those_who_wait() {
    on_every_level(async |state| {
        let queue = jobs(&state).await.with_capacity(3);
        enqueue(&state, &queue, [1, 2, 3]).await;
        // Undone, with one item taken before.
        let mut tx = state.begin();
        assert_eq!(dequeue(&mut tx, &queue).await, Some(1));
        queue.clear(&mut tx).await.unwrap();
        assert_eq!(dequeue(&mut tx, &queue).await, None);
        assert!(queue.is_empty(&mut tx).await.unwrap());
        drop(tx);
        let mut tx = state.begin();
        assert_eq!(dequeue(&mut tx, &queue).await, Some(1));
        drop(tx);

        // Who waits for room holds no lock that a clear would wait for, and gets the room.
        let mut producer = state.begin();
        let mut waiting = Box::pin(queue.enqueue(&mut producer, 4));
        assert!(poll!(&mut waiting).is_pending());
        let mut tx = state.begin();
        queue.clear(tx.within(Duration::ZERO)).await.unwrap();
        queue.enqueue(&mut tx, 5).await.unwrap();
        // An item that was granted before the clear and is fetched after it is gone.
        let mut late = state.begin();
        let mut fetching = Box::pin(queue.dequeue(&mut late));
        assert!(poll!(&mut fetching).is_pending());
        tx.commit().await.unwrap();
        assert_eq!(ready(poll!(&mut fetching)), Some(5));
        drop(fetching);
        assert!(matches!(poll!(&mut waiting), Poll::Ready(Ok(()))));
        drop(waiting);
        producer.commit().await.unwrap();
        late.commit().await.unwrap();
        assert_eq!(drain(&state, &queue).await, [4]);

        // Nobody waits for a queue that is dropped.
        let mut consumer = state.begin();
        let mut waiting = Box::pin(queue.dequeue(&mut consumer));
        assert!(poll!(&mut waiting).is_pending());
        let mut tx = state.begin();
        state.drop_collection(&mut tx, "jobs").await.unwrap();
        tx.commit().await.unwrap();
        let Poll::Ready(Err(error)) = poll!(&mut waiting) else { panic!("still waits") };
        assert_eq!(error.kind(), ErrorKind::NotFound);
        drop(waiting);
        assert_eq!(queue.enqueue(&mut consumer, 1).await.unwrap_err().kind(), ErrorKind::NotFound);
    })
    .await;
}

#[tokio::test]
async fn a_restart_keeps_what_is_persisted() {
    let node = TestNode::start().await;
    let state = node.state(Level::Persisted).await;
    let queue = jobs(&state).await;
    enqueue(&state, &queue, 0..700).await;
    let mut tx = state.begin();
    for item in 0..300 {
        assert_eq!(dequeue(&mut tx, &queue).await, Some(item));
    }
    tx.commit().await.unwrap();
    let mut tx = state.begin();
    assert_eq!(dequeue(&mut tx, &queue).await, Some(300));
    drop((tx, queue, state));
    let node = node.restart().await;
    let state = node.state(Level::Persisted).await;
    let queue = jobs(&state).await.with_capacity(400);
    assert_eq!(queue.len(&mut state.begin()).await.unwrap(), 400);
    let mut tx = state.begin();
    assert_eq!(queue.enqueue(tx.within(Duration::ZERO), 1).await.unwrap_err().kind(), ErrorKind::Overloaded);
    drop(tx);
    assert_eq!(drain(&state, &queue).await, (300..700).collect::<Vec<_>>());
    node.replicas.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_producers_and_consumers_lose_and_double_nothing() {
    const PRODUCERS: u64 = 8;
    const CONSUMERS: u64 = 8;
    const EACH: u64 = 60;
    const CAPACITY: u64 = 20;
    let node = TestNode::start().await;
    for level in LEVELS {
        let state = node.state(level).await;
        let queue = jobs(&state).await.with_capacity(CAPACITY);
        let limit = Duration::from_secs(3600);
        let produce = |producer: u64| {
            let (state, queue) = (state.clone(), queue.clone());
            task::spawn(async move {
                for item in 0..EACH {
                    // Every third is undone once.
                    if item % 3 == 0 {
                        let mut tx = state.begin();
                        queue.enqueue(tx.within(limit), u64::MAX).await.unwrap();
                        tx.abort();
                    }
                    let mut tx = state.begin();
                    queue.enqueue(tx.within(limit), producer * EACH + item).await.unwrap();
                    tx.commit().await.unwrap();
                    let len = queue.len(&mut state.begin()).await.unwrap();
                    assert!(len <= CAPACITY, "{len} items");
                }
            })
        };
        let consume = |_| {
            let (state, queue) = (state.clone(), queue.clone());
            task::spawn(async move {
                let mut got = Vec::new();
                let mut tries = 0;
                while (got.len() as u64) < PRODUCERS * EACH / CONSUMERS {
                    let mut tx = state.begin();
                    let item = *queue.dequeue(tx.within(limit)).await.unwrap();
                    tries += 1;
                    if tries % 4 == 0 {
                        tx.abort();
                        continue;
                    }
                    tx.commit().await.unwrap();
                    got.push(item);
                }
                got
            })
        };
        let consumers: Vec<_> = (0..CONSUMERS).map(consume).collect();
        let producers: Vec<_> = (0..PRODUCERS).map(produce).collect();
        let mut got = Vec::new();
        for consumer in consumers {
            got.extend(consumer.await.unwrap());
        }
        for producer in producers {
            producer.await.unwrap();
        }
        assert_eq!(got.len() as u64, PRODUCERS * EACH);
        assert_eq!(got.iter().copied().collect::<BTreeSet<_>>(), (0..PRODUCERS * EACH).collect());
        assert!(queue.is_empty(&mut state.begin()).await.unwrap());
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn bad_input_is_refused_and_changes_nothing() {
    let node = TestNode::start().await;
    for level in LEVELS {
        let state = node.state(level).await;
        let queue: ConcurrentQueue<String> = state.collection("texts").await.unwrap();
        let queue = queue.with_capacity(1);
        let error = state.collection::<ConcurrentQueue<u64>>("texts").await.unwrap_err();
        assert!(error.to_string().contains(r#"collection "texts" is a concurrent queue of"#), "{error}");
        let mut tx = state.begin();
        let error = queue.enqueue(&mut tx, "x".repeat(VALUE_BYTES_MAX)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.to_string().starts_with(r#"concurrent queue "texts": "#), "{error}");
        // It has taken no room.
        queue.enqueue(&mut tx, "good".into()).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(queue.clone().with_capacity(0).capacity(), 0);
        let error = queue.clone().with_capacity(0).enqueue(&mut state.begin(), "x".into()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);

        let there = StateManager::open(node.partition(level, 8).await).await.unwrap();
        let mut tx = there.begin();
        for error in [
            queue.dequeue(&mut tx).await.unwrap_err(),
            queue.try_dequeue(&mut tx).await.unwrap_err(),
            queue.enqueue(&mut tx, "elsewhere".into()).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("partition p8"), "{error}");
        }
        let mut tx = state.begin();
        assert!(queue.discard(&mut tx).await.unwrap());
        assert!(!queue.discard(&mut tx).await.unwrap());
        tx.commit().await.unwrap();
        assert!(queue.is_empty(&mut state.begin()).await.unwrap());
    }
    node.replicas.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_uses_a_queue_that_another_drops_waits_and_is_told() {
    let node = TestNode::start_small().await;
    let state = node.state(Level::None).await;
    for is_dropped in [false, true] {
        let queue: ConcurrentQueue<u64> = state.collection("jobs").await.unwrap();
        let mut tx = state.begin();
        queue.enqueue(&mut tx, 1).await.unwrap();
        tx.commit().await.unwrap();
        let mut dropper = state.begin();
        state.drop_collection(&mut dropper, "jobs").await.unwrap();

        let limit = Duration::from_secs(1);
        let mut tx = state.begin();
        assert_eq!(queue.enqueue(tx.within(limit), 2).await.unwrap_err().kind(), ErrorKind::Timeout);
        assert_eq!(queue.dequeue(tx.within(limit)).await.unwrap_err().kind(), ErrorKind::Timeout);
        assert_eq!(queue.try_dequeue(tx.within(limit)).await.unwrap_err().kind(), ErrorKind::Timeout);

        // They hear of it as soon as it is certain.
        let (mut one, mut two) = (state.begin(), state.begin());
        let (mut enqueue, mut dequeue) = (Box::pin(queue.enqueue(&mut one, 2)), Box::pin(queue.dequeue(&mut two)));
        assert!(poll!(&mut enqueue).is_pending());
        assert!(poll!(&mut dequeue).is_pending());
        if is_dropped {
            dropper.commit().await.unwrap();
            assert_eq!(enqueue.await.unwrap_err().kind(), ErrorKind::NotFound);
            assert_eq!(dequeue.await.unwrap_err().kind(), ErrorKind::NotFound);
        } else {
            drop(dropper);
            enqueue.await.unwrap();
            assert_eq!(*dequeue.await.unwrap(), 1);
        }
    }
    node.replicas.stop().await;
}
