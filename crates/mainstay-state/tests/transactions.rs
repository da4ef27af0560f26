//! What a transaction promises: all or nothing, isolation, clear ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Error, ErrorKind, Level, Result, task};
use mainstay_state::{
    Attempt, Collection, Deadlock, Dictionary, LockTimeout, Queue, StateManager, StateOptions, TRANSACTION_BYTES_MAX,
};
use support::{LEVELS, TestNode, on_every_level};

type Counts = Dictionary<String, u64>;

async fn counts(state: &StateManager) -> Counts {
    state.collection("counts").await.unwrap()
}

async fn value(state: &StateManager, counts: &Counts, key: &str) -> Option<u64> {
    counts.get(&mut state.begin(), key).await.unwrap().as_deref().copied()
}

#[tokio::test]
async fn what_is_dropped_or_aborted_never_happened() {
    on_every_level(async |state| {
        let counts = counts(&state).await;
        let mut tx = state.begin();
        counts.set(&mut tx, "a".into(), 1).await.unwrap();
        drop(tx);
        let mut tx = state.begin();
        counts.set(&mut tx, "a".into(), 2).await.unwrap();
        tx.abort();
        assert_eq!(value(&state, &counts, "a").await, None);
    })
    .await;
}

#[tokio::test]
async fn a_commit_has_a_place_in_the_order() {
    on_every_level(async |state| {
        let counts = counts(&state).await;
        let mut last = None;
        for number in 0..5 {
            let mut tx = state.begin();
            counts.set(&mut tx, "a".into(), number).await.unwrap();
            let place = tx.commit().await.unwrap();
            assert!(last.is_none_or(|last| last < place));
            last = Some(place);
        }
        // Who only reads is told how far it has seen.
        let mut tx = state.begin();
        counts.get(&mut tx, "a").await.unwrap();
        assert!(tx.commit().await.unwrap() >= last.unwrap());
    })
    .await;
}

#[tokio::test]
async fn reads_are_repeatable_and_writers_wait_for_them() {
    on_every_level(async |state| {
        let counts = counts(&state).await;
        let mut reader = state.begin();
        assert_eq!(counts.get(&mut reader, "a").await.unwrap(), None);
        let mut writer = state.begin();
        let error = counts.set(writer.within(Duration::ZERO), "a".into(), 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert_eq!(counts.get(&mut reader, "a").await.unwrap(), None);
        drop(reader);
        counts.set(&mut writer, "a".into(), 1).await.unwrap();
        writer.commit().await.unwrap();
        assert_eq!(value(&state, &counts, "a").await, Some(1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_time_out_names_the_key_and_who_holds_it() {
    let node = TestNode::start().await;
    let state = node.state(Level::None).await;
    let counts = counts(&state).await;
    let mut holder = state.begin();
    counts.set(&mut holder, "a".into(), 1).await.unwrap();
    tokio::time::advance(Duration::from_secs(3)).await;
    let mut waiter = state.begin();
    let start = mainstay_core::time::now();
    let error = counts.get(&mut waiter, "a").await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(4), "the time limit unless told otherwise");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let text = error.to_string();
    assert!(text.contains(r#"dictionary "counts", key "a""#), "{text}");
    assert!(text.contains(&holder.id().to_string()) && text.contains("for 7s"), "{text}");
    let cause = std::error::Error::source(&error).unwrap().downcast_ref::<LockTimeout>().unwrap();
    assert_eq!(cause.holders.len(), 1);

    let error = counts.get(waiter.within(Duration::from_secs(1)), "a").await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(5), "another limit for one operation");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    counts.get(&mut waiter, "a").await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(9), "and only for that");
    node.replicas.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_lock_of_a_transaction_is_held_since_its_own_operation() {
    let node = TestNode::start().await;
    let state = node.state(Level::None).await;
    let counts = counts(&state).await;
    let mut holder = state.begin();
    counts.set(&mut holder, "early".into(), 1).await.unwrap();
    tokio::time::advance(Duration::from_secs(3)).await;
    counts.set(&mut holder, "late".into(), 1).await.unwrap();
    // The stronger mode does not make it a new lock.
    counts.get_for_update(&mut holder, "early").await.unwrap();
    for (key, held) in [("early", "for 4s"), ("late", "for 2s")] {
        let error = counts.get(state.begin().within(Duration::from_secs(1)), key).await.unwrap_err();
        assert!(error.to_string().contains(held), "{error}");
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_deadlock_has_one_victim_at_once_which_cannot_go_on() {
    on_every_level(async |state| {
        let counts = counts(&state).await;
        let (mut one, mut two) = (state.begin(), state.begin());
        counts.set(&mut one, "a".into(), 1).await.unwrap();
        counts.set(&mut two, "b".into(), 2).await.unwrap();
        let one_id = one.id();
        let mut waiting = Box::pin(counts.set(&mut one, "b".into(), 1));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        let error = counts.set(&mut two, "a".into(), 2).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retry);
        let cause = std::error::Error::source(&error).unwrap().downcast_ref::<Deadlock>().unwrap();
        assert_eq!((cause.victim, cause.cycle.len()), (two.id(), 2));
        let text = error.to_string();
        for part in [&one_id.to_string(), &two.id().to_string(), r#"key "a""#, r#"key "b""#, "counts"] {
            assert!(text.contains(part), "{text}");
        }
        // The other goes on although the victim has not been dropped.
        assert!(matches!(futures_util::poll!(&mut waiting), Poll::Ready(Ok(()))));
        drop(waiting);
        let error = counts.get(&mut two, "c").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retry);
        assert!(error.to_string().contains("victim of a deadlock; begin a new one"), "{error}");
        assert_eq!(two.commit().await.unwrap_err().kind(), ErrorKind::Retry);
        one.commit().await.unwrap();
        assert_eq!((value(&state, &counts, "a").await, value(&state, &counts, "b").await), (Some(1), Some(1)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_add_to_one_value_lose_nothing() {
    let node = TestNode::start().await;
    for level in LEVELS {
        let state = node.state(level).await;
        let counts = counts(&state).await;
        let add = |_| {
            let (state, counts) = (state.clone(), counts.clone());
            task::spawn(async move {
                for _ in 0..20 {
                    state
                        .transact(async |mut tx| {
                            let now = counts.get_for_update(&mut tx, "sum").await?.map_or(0, |now| *now);
                            counts.set(&mut tx, "sum".into(), now + 1).await
                        })
                        .await
                        .unwrap();
                }
            })
        };
        let tasks: Vec<_> = (0..16).map(add).collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(value(&state, &counts, "sum").await, Some(320));
    }
    node.replicas.stop().await;
}

#[tokio::test(start_paused = true)]
async fn transact_tries_again_what_may_pass_and_gives_up_in_the_end() {
    let node = TestNode::start().await;
    let mut options = StateOptions::default();
    options.retry.tries_max = 4;
    let state = node.state_with(Level::None, options).await;
    let tries = AtomicU32::new(0);
    let fail_until = async |good: u32, kind: ErrorKind| {
        tries.store(0, Ordering::Relaxed);
        let body = async |_: Attempt| match tries.fetch_add(1, Ordering::Relaxed) + 1 {
            tries if tries < good => Err(Error::new(kind, "not now")),
            tries => Ok(tries),
        };
        let outcome: Result<u32> = state.transact(body).await;
        (outcome, tries.load(Ordering::Relaxed))
    };
    for passing in [ErrorKind::Timeout, ErrorKind::Retry, ErrorKind::Overloaded] {
        assert_eq!(fail_until(4, passing).await.0.unwrap(), 4);
        let (outcome, tries) = fail_until(9, passing).await;
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), tries), (passing, 4));
        assert!(error.to_string().contains("tried 4 times"), "{error}");
        assert!(error.to_string().ends_with("the last error was: not now"), "{error}");
    }
    for lasting in [ErrorKind::Invalid, ErrorKind::NotFound, ErrorKind::OutcomeUnknown, ErrorKind::Conflict] {
        let (outcome, tries) = fail_until(9, lasting).await;
        assert_eq!((outcome.unwrap_err().kind(), tries), (lasting, 1));
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn transact_can_run_on_any_task() {
    let node = TestNode::start().await;
    let state = node.state(Level::None).await;
    let counts = counts(&state).await;
    // That this compiles is the test: the future can go from thread to thread.
    let sum = task::spawn(async move {
        state
            .transact(async |mut tx| {
                counts.set(&mut tx, "a".into(), 3).await?;
                counts.get(&mut tx, "a").await
            })
            .await
    });
    assert_eq!(sum.await.unwrap().unwrap().as_deref(), Some(&3));
    node.replicas.stop().await;
}

#[tokio::test]
async fn snapshots_are_consistent_across_collections_and_nobody_waits_for_them() {
    on_every_level(async |state| {
        let left = counts(&state).await;
        let right: Counts = state.collection("others").await.unwrap();
        let mut tx = state.begin();
        left.set(&mut tx, "a".into(), 1).await.unwrap();
        right.set(&mut tx, "a".into(), 1).await.unwrap();
        tx.commit().await.unwrap();

        let mut reader = state.begin();
        assert_eq!(left.len(&mut reader).await.unwrap(), 1);
        let mut writer = state.begin();
        for dictionary in [&left, &right] {
            dictionary.set(&mut writer, "a".into(), 2).await.unwrap();
            dictionary.set(&mut writer, "b".into(), 2).await.unwrap();
        }
        writer.commit().await.unwrap();
        // The same moment for all that this transaction counts and enumerates, with what it changes itself.
        right.set(&mut reader, "c".into(), 3).await.unwrap();
        assert_eq!(right.len(&mut reader).await.unwrap(), 2);
        let all: Vec<(String, Arc<u64>)> = right.all().entries(&mut reader).await.unwrap().collect().await.unwrap();
        assert_eq!(all, [("a".into(), 1.into()), ("c".into(), 3.into())]);
        drop(reader);
        assert_eq!(right.len(&mut state.begin()).await.unwrap(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_commit_that_nobody_waits_for_keeps_its_locks_until_it_is_done() {
    let node = TestNode::start().await;
    for level in [Level::Persisted, Level::Volatile] {
        let state = node.state(level).await;
        let counts = counts(&state).await;
        for round in 0..20 {
            let mut tx = state.begin();
            counts.set(&mut tx, "a".into(), round).await.unwrap();
            {
                let commit = tx.commit();
                let mut commit = std::pin::pin!(commit);
                _ = futures_util::poll!(&mut commit);
            }
            // If the lock were free already, this could read what was there before, and overwrite what it has not seen.
            let mut tx = state.begin();
            let seen = counts.get_for_update(&mut tx, "a").await.unwrap();
            assert_eq!(seen.as_deref(), Some(&round));
        }
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_transaction_is_of_one_partition() {
    let node = TestNode::start().await;
    for level in LEVELS {
        let here = node.state(level).await;
        let there = StateManager::open(node.partition(level, 8).await).await.unwrap();
        let counts = counts(&here).await;
        let mut tx = there.begin();
        let error = counts.set(&mut tx, "a".into(), 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(text.contains("partition p8") && text.contains("partition p7"), "{text}");
        let error = Counts::open(&here, &mut tx, "counts").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    node.replicas.stop().await;
}

#[tokio::test]
async fn a_partitions_state_is_open_once() {
    let node = TestNode::start().await;
    for level in LEVELS {
        let state = node.state(level).await;
        let again = StateManager::open(node.partition(level, 7).await).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Conflict);
        assert!(again.to_string().contains("partition p7 is open already"), "{again}");
        drop(state);
        node.state(level).await;
    }
    node.replicas.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_operation_has_one_time_limit_however_many_locks_it_takes() {
    const LIMIT: Duration = Duration::from_secs(2);
    let node = TestNode::start_small().await;
    let state = node.state(Level::None).await;
    let counts = counts(&state).await;
    let mut tx = state.begin();
    counts.add(&mut tx, "there".into(), 1).await.unwrap();
    tx.commit().await.unwrap();
    for (operation, key) in [("add", "new"), ("try_add", "new"), ("get_or_add", "new"), ("compare_and_set", "there")] {
        let (mut reader, mut writer, mut tx) = (state.begin(), state.begin(), state.begin());
        counts.get(&mut reader, key).await.unwrap();
        counts.get_for_update(&mut writer, key).await.unwrap();
        let begun = time::now();
        // It waits for the writer first, for a part of its time, and then for the reader.
        let operate = async {
            let tx = tx.within(LIMIT);
            match operation {
                "add" => counts.add(tx, key.into(), 2).await,
                "try_add" => counts.try_add(tx, key.into(), 2).await.map(drop),
                "get_or_add" => counts.get_or_add(tx, key.into(), || 2).await.map(drop),
                _ => counts.compare_and_set(tx, key.into(), &1, 2).await.map(drop),
            }
        };
        let let_go = async {
            time::sleep(LIMIT / 2).await;
            drop(writer);
        };
        let (outcome, ()) = tokio::join!(operate, let_go);
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Timeout, "{operation}");
        let spent = time::now() - begun;
        assert!(spent >= LIMIT && spent < LIMIT + LIMIT / 4, "{operation}: {spent:?}");
    }
}

#[tokio::test]
async fn a_body_that_swallows_a_deadlock_is_tried_again() {
    let node = TestNode::start_small().await;
    let state = node.state(Level::None).await;
    let counts = counts(&state).await;
    let mut other = state.begin();
    counts.set(&mut other, "a".into(), 1).await.unwrap();
    let (tries, other) = (AtomicU32::new(0), std::cell::RefCell::new(Some(other)));
    let waiting: std::cell::RefCell<Option<std::pin::Pin<Box<dyn Future<Output = ()>>>>> =
        std::cell::RefCell::default();
    state
        .transact(async |mut tx| {
            tries.fetch_add(1, Ordering::Relaxed);
            counts.set(&mut tx, "b".into(), 2).await?;
            let other = other.take();
            if let Some(mut other) = other {
                let counts = counts.clone();
                let mut wait = Box::pin(async move {
                    counts.set(&mut other, "b".into(), 1).await.unwrap();
                    other.commit().await.unwrap();
                });
                assert!(futures_util::poll!(&mut wait).is_pending());
                *waiting.borrow_mut() = Some(wait);
            }
            // Closes the circle the first time.
            let refused = counts.set(&mut tx, "a".into(), 2).await;
            let wait = waiting.take();
            if let Some(wait) = wait {
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::Retry);
                wait.await;
            }
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(tries.into_inner(), 2);
    assert_eq!((value(&state, &counts, "a").await, value(&state, &counts, "b").await), (Some(2), Some(2)));
}

#[tokio::test]
async fn what_a_transaction_writes_counts_and_not_how_often() {
    on_every_level(async |state| {
        let texts: Dictionary<u32, String> = state.collection("texts").await.unwrap();
        let jobs: Queue<String> = state.collection("jobs").await.unwrap();
        let long = || "x".repeat(16 << 10);
        // More of it than a transaction may write, if each were counted.
        let times = TRANSACTION_BYTES_MAX / long().len() + 10;
        let mut tx = state.begin();
        texts.set(&mut tx, 0, long()).await.unwrap();
        for _ in 0..times {
            texts.update(&mut tx, &0, |text| text.replace_range(..1, "y")).await.unwrap();
            texts.add(&mut tx, 1, long()).await.unwrap();
            texts.remove(&mut tx, &1).await.unwrap();
            jobs.enqueue(&mut tx, long()).await.unwrap();
            jobs.try_dequeue(&mut tx).await.unwrap().unwrap();
        }
        for round in 0..3 {
            for key in 0..times as u32 / 2 {
                texts.set(&mut tx, key, long()).await.unwrap();
            }
            if round < 2 {
                texts.clear(&mut tx).await.unwrap();
            }
        }
        tx.commit().await.unwrap();
        assert_eq!(texts.len(&mut state.begin()).await.unwrap(), times as u64 / 2);
    })
    .await;
}

#[tokio::test]
async fn what_an_operation_admits_can_be_committed() {
    on_every_level(async |state| {
        let texts: Dictionary<String, u8> = state.collection("texts").await.unwrap();
        let key = |number: usize| format!("{number:04000}");
        let ttl = Duration::from_secs(3600);
        let mut tx = state.begin();
        let mut count = 0;
        // With a time to live, a key is stored twice, and removed once where it had one before.
        for round in 0..2 {
            for number in 0..4000 {
                match texts.set_with_ttl(&mut tx, key(number), round, ttl * u32::from(round + 1)).await {
                    Ok(()) => {}
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::TooLarge);
                        assert!(error.to_string().contains("TRANSACTION_BYTES_MAX"), "{error}");
                        tx.commit().await.unwrap();
                        tx = state.begin();
                        texts.set_with_ttl(&mut tx, key(number), round, ttl * u32::from(round + 1)).await.unwrap();
                        count += 1;
                    }
                }
            }
        }
        tx.commit().await.unwrap();
        assert!(count >= 3, "{count}");
    })
    .await;
}
