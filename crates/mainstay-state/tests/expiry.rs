//! Entries that are there for a length of time only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "versions of a type look as they do in a program")]

mod support;

use std::sync::Arc;

use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, Level};
use mainstay_replica::Partition;
use mainstay_state::{Change, Dictionary, StateManager, TRANSACTION_BYTES_MAX, VALUE_BYTES_MAX};
use serde::{Deserialize, Serialize};
use support::{TestNode, stored_keys};

type Ages = Dictionary<String, u32>;

const SECOND: Duration = Duration::from_secs(1);
/// Longer than whoever removes what has expired waits before it looks again.
const SWEEP: Duration = Duration::from_millis(500);

/// The first byte of the keys of entries, and of the places of those that expire.
const ENTRIES: u8 = 0x10;
const EXPIRIES: u8 = 0x12;

/// How many entries are stored, and how many places of those that expire.
fn stored(partition: &Partition) -> (usize, usize) {
    let keys = stored_keys(partition);
    let count = |first| keys.iter().filter(|key| key[0] == first).count();
    (count(ENTRIES), count(EXPIRIES))
}

/// The levels on which nothing waits for a disk: a paused clock goes on while anybody does.
const IN_MEMORY: [Level; 2] = [Level::Volatile, Level::None];

/// Runs a test with a dictionary of ages, with a clock that the test moves.
async fn with_ages<F: Future<Output = ()>>(test: impl Fn(StateManager, Ages, Partition) -> F) {
    for level in IN_MEMORY {
        let node = TestNode::start_small().await;
        let state = node.state(level).await;
        let ages: Ages = state.collection("ages").await.unwrap();
        test(state, ages, node.partition(level, 7).await).await;
        node.replicas.stop().await;
    }
}

async fn set(state: &StateManager, ages: &Ages, key: &str, value: u32, ttl: Option<Duration>) {
    let mut tx = state.begin();
    match ttl {
        Some(ttl) => ages.set_with_ttl(&mut tx, key.into(), value, ttl).await.unwrap(),
        None => ages.set(&mut tx, key.into(), value).await.unwrap(),
    }
    tx.commit().await.unwrap();
}

/// All that can be seen of a dictionary, which every way to look at it must agree about.
async fn seen(state: &StateManager, ages: &Ages, keys: &[&str]) -> Vec<String> {
    let mut tx = state.begin();
    let entries: Vec<(String, Arc<u32>)> = ages.all().entries(&mut tx).await.unwrap().collect().await.unwrap();
    let names: Vec<String> = entries.into_iter().map(|(key, _)| key).collect();
    let only: Vec<String> = ages.all().keys(&mut tx).await.unwrap().collect().await.unwrap();
    assert_eq!(only, names);
    let mut backwards: Vec<String> = ages.all().reversed().keys(&mut tx).await.unwrap().collect().await.unwrap();
    backwards.reverse();
    assert_eq!(backwards, names);
    assert_eq!(ages.len(&mut tx).await.unwrap(), names.len() as u64);
    let values = ages.multi_get(&mut tx, keys.iter().copied()).await.unwrap();
    for (key, value) in keys.iter().zip(values) {
        let there = names.contains(&(*key).to_owned());
        assert_eq!(value.is_some(), there, "{key}");
        assert_eq!(ages.get(&mut tx, *key).await.unwrap().is_some(), there, "{key}");
        assert_eq!(ages.contains(&mut tx, *key).await.unwrap(), there, "{key}");
    }
    names
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_is_not_seen_by_anyone_and_then_removed() {
    with_ages(async |state, ages, partition| {
        set(&state, &ages, "always", 1, None).await;
        let due = time::wall().saturating_add(10 * SECOND);
        set(&state, &ages, "soon", 2, Some(10 * SECOND)).await;
        set(&state, &ages, "later", 3, Some(20 * SECOND)).await;
        let keys = ["always", "later", "soon"];
        assert_eq!(seen(&state, &ages, &keys).await, keys);
        assert_eq!(stored(&partition), (3, 2));
        let left = due.saturating_duration_since(time::wall());
        tokio::time::advance(left - Duration::from_millis(1)).await;
        assert_eq!(seen(&state, &ages, &keys).await, keys);
        // Nobody else has run since: what is still stored is not seen.
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(seen(&state, &ages, &keys).await, ["always", "later"]);
        time::sleep(SWEEP).await;
        assert_eq!(stored(&partition), (2, 1));
        assert_eq!(seen(&state, &ages, &keys).await, ["always", "later"]);
        time::sleep(20 * SECOND).await;
        assert_eq!(stored(&partition), (1, 0));
        assert_eq!(seen(&state, &ages, &keys).await, ["always"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_is_as_if_it_were_not_there() {
    with_ages(async |state, ages, _| {
        let mut holder = state.begin();
        for key in ["a", "b", "c", "d", "e", "f", "g"] {
            set(&state, &ages, key, 1, Some(SECOND)).await;
            // Nobody removes what is locked.
            ages.get(&mut holder, key).await.unwrap().unwrap();
        }
        tokio::time::advance(SECOND).await;
        drop(holder);
        let mut tx = state.begin();
        ages.add(&mut tx, "a".into(), 2).await.unwrap();
        assert!(ages.try_add(&mut tx, "b".into(), 2).await.unwrap());
        assert_eq!(*ages.get_or_add(&mut tx, "c".into(), || 2).await.unwrap(), 2);
        assert_eq!(*ages.add_or_update(&mut tx, "d".into(), 2, |_| panic!("it is not there")).await.unwrap(), 2);
        assert_eq!(ages.update(&mut tx, "e", |_| panic!("it is not there")).await.unwrap(), None);
        assert!(!ages.compare_and_set(&mut tx, "e".into(), &1, 2).await.unwrap());
        assert_eq!(ages.remove(&mut tx, "f").await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(ages.try_remove(&mut tx, "g").await.unwrap(), None);
        assert_eq!(ages.get_for_update(&mut tx, "e").await.unwrap(), None);
        assert_eq!(ages.len(&mut tx).await.unwrap(), 4);
        tx.commit().await.unwrap();
        time::sleep(SWEEP).await;
        // What took the place of something that expired does not.
        time::sleep(100 * SECOND).await;
        assert_eq!(seen(&state, &ages, &["a", "b", "c", "d", "e", "f", "g"]).await, ["a", "b", "c", "d"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_a_transaction_has_seen_does_not_expire_before_it_has_ended() {
    with_ages(async |state, ages, _| {
        let keys = ["compared", "counted", "read", "updated"];
        // Nobody removes what is locked.
        let mut holder = state.begin();
        for key in keys {
            set(&state, &ages, key, 1, Some(SECOND)).await;
            ages.get(&mut holder, key).await.unwrap().unwrap();
        }
        let mut tx = state.begin();
        assert_eq!(ages.get(&mut tx, "read").await.unwrap().as_deref(), Some(&1));
        tokio::time::advance(2 * SECOND).await;
        // All of it is as it was when the first was read.
        assert_eq!(ages.get(&mut tx, "read").await.unwrap().as_deref(), Some(&1));
        assert!(ages.contains(&mut tx, "read").await.unwrap());
        assert_eq!(ages.len(&mut tx).await.unwrap(), 4);
        assert_eq!(ages.all().keys(&mut tx).await.unwrap().collect::<Vec<_>>().await.unwrap().len(), 4);
        drop(holder);
        assert!(!ages.try_add(&mut tx, "counted".into(), 2).await.unwrap());
        assert_eq!(ages.update(&mut tx, "updated", |age| *age += 1).await.unwrap().as_deref(), Some(&2));
        assert!(ages.compare_and_set(&mut tx, "compared".into(), &1, 2).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(seen(&state, &ages, &keys).await, ["compared"]);

        // A count or an enumeration is a look as well.
        set(&state, &ages, "counted", 1, Some(SECOND)).await;
        let (mut holder, mut tx) = (state.begin(), state.begin());
        ages.get(&mut holder, "counted").await.unwrap().unwrap();
        assert_eq!(ages.len(&mut tx).await.unwrap(), 2);
        tokio::time::advance(2 * SECOND).await;
        assert_eq!(ages.get(&mut tx, "counted").await.unwrap().as_deref(), Some(&1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_expires_is_removed_when_whoever_has_set_it_was_stopped() {
    with_ages(async |state, ages, partition| {
        let scope = Scope::new();
        scope.enter(set(&state, &ages, "short", 1, Some(SECOND))).await;
        scope.stop();
        scope.ended().await;
        time::sleep(SECOND + SWEEP).await;
        assert_eq!(stored(&partition), (0, 0));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_set_takes_the_time_away_and_an_update_keeps_it() {
    with_ages(async |state, ages, partition| {
        for key in ["alone", "compared", "kept", "replaced", "set", "undone"] {
            set(&state, &ages, key, 1, Some(10 * SECOND)).await;
        }
        let mut tx = state.begin();
        ages.set(&mut tx, "set".into(), 2).await.unwrap();
        ages.update(&mut tx, "kept", |age| *age = 2).await.unwrap();
        ages.set_with_ttl(&mut tx, "replaced".into(), 2, 30 * SECOND).await.unwrap();
        assert!(ages.compare_and_set(&mut tx, "compared".into(), &1, 2).await.unwrap());
        tx.commit().await.unwrap();
        // By itself a change of one entry takes a way of its own where all is in memory.
        set(&state, &ages, "alone", 2, None).await;
        let mut tx = state.begin();
        ages.set(&mut tx, "undone".into(), 2).await.unwrap();
        tx.abort();
        assert_eq!(stored(&partition), (6, 3));
        time::sleep(10 * SECOND + SWEEP).await;
        assert_eq!(seen(&state, &ages, &["kept", "undone"]).await, ["alone", "compared", "replaced", "set"]);
        assert_eq!(stored(&partition), (4, 1));
        time::sleep(20 * SECOND + SWEEP).await;
        assert_eq!(seen(&state, &ages, &["replaced"]).await, ["alone", "compared", "set"]);
        assert_eq!(stored(&partition), (3, 0));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_locked_is_removed_later() {
    with_ages(async |state, ages, partition| {
        set(&state, &ages, "locked", 1, Some(SECOND)).await;
        set(&state, &ages, "free", 1, Some(SECOND)).await;
        let mut holder = state.begin();
        ages.get(&mut holder, "locked").await.unwrap().unwrap();
        time::sleep(SECOND + SWEEP).await;
        assert_eq!(stored(&partition), (1, 1));
        assert!(ages.get(&mut holder, "locked").await.unwrap().is_some(), "who has seen it goes on seeing it");
        assert_eq!(ages.len(&mut state.begin()).await.unwrap(), 0);
        drop(holder);
        time::sleep(SWEEP).await;
        assert_eq!(stored(&partition), (0, 0));
        assert_eq!(ages.len(&mut state.begin()).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_time_to_live_is_part_of_its_transaction() {
    with_ages(async |state, ages, partition| {
        let mut tx = state.begin();
        ages.set_with_ttl(&mut tx, "a".into(), 1, SECOND).await.unwrap();
        assert_eq!(ages.get(&mut tx, "a").await.unwrap().as_deref(), Some(&1));
        assert_eq!(ages.len(&mut tx).await.unwrap(), 1);
        drop(tx);
        assert_eq!(stored(&partition), (0, 0));
        // It counts from when it was written, not from the commit.
        let mut tx = state.begin();
        ages.set_with_ttl(&mut tx, "a".into(), 1, SECOND).await.unwrap();
        tokio::time::advance(2 * SECOND).await;
        assert_eq!(ages.get(&mut tx, "a").await.unwrap(), None);
        assert_eq!(ages.len(&mut tx).await.unwrap(), 0);
        tx.commit().await.unwrap();
        assert_eq!(seen(&state, &ages, &["a"]).await, Vec::<String>::new());
        time::sleep(SWEEP).await;
        assert_eq!(stored(&partition), (0, 0));
        let error = ages.set_with_ttl(&mut state.begin(), "a".into(), 1, Duration::MAX).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        ages.set_with_ttl(&mut state.begin(), "a".into(), 1, Duration::ZERO).await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn many_that_expire_in_several_collections_are_all_removed() {
    with_ages(async |state, ages, partition| {
        let others: Ages = state.collection("others").await.unwrap();
        let mut tx = state.begin();
        for number in 0..700u32 {
            let ttl = Duration::from_secs(1 + u64::from(number % 3));
            ages.set_with_ttl(&mut tx, number.to_string(), number, ttl).await.unwrap();
            others.set_with_ttl(&mut tx, number.to_string(), number, ttl).await.unwrap();
        }
        others.set(&mut tx, "stays".into(), 1).await.unwrap();
        tx.commit().await.unwrap();
        for second in 1..=3u32 {
            time::sleep(SECOND).await;
            let left = (0..700).filter(|number| number % 3 >= second).count() as u64;
            assert_eq!(ages.len(&mut state.begin()).await.unwrap(), left);
            assert_eq!(others.len(&mut state.begin()).await.unwrap(), left + 1);
        }
        time::sleep(SWEEP).await;
        assert_eq!(stored(&partition), (1, 0));
    })
    .await;
}

#[tokio::test]
async fn what_expires_while_nobody_runs_is_removed_after_the_restart() {
    let mut node = TestNode::start().await;
    let state = node.state(Level::Persisted).await;
    let ages: Ages = state.collection("ages").await.unwrap();
    let mut tx = state.begin();
    ages.set_with_ttl(&mut tx, "soon".into(), 1, Duration::ZERO).await.unwrap();
    ages.set_with_ttl(&mut tx, "later".into(), 2, 10_000 * SECOND).await.unwrap();
    ages.set(&mut tx, "always".into(), 3).await.unwrap();
    tx.commit().await.unwrap();
    drop((state, ages));
    node = node.restart().await;
    let state = node.state(Level::Persisted).await;
    let partition = node.partition(Level::Persisted, 7).await;
    let ages: Ages = state.collection("ages").await.unwrap();
    assert_eq!(seen(&state, &ages, &["soon"]).await, ["always", "later"]);
    // No transaction of this time has written anything that expires, and it is removed all the same.
    while stored(&partition) != (2, 1) {
        time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(seen(&state, &ages, &["soon"]).await, ["always", "later"]);
    drop((state, ages));
    node.replicas.stop().await;
}

#[tokio::test]
async fn on_the_persisted_level_it_is_the_same() {
    let node = TestNode::start_small().await;
    let state = node.state(Level::Persisted).await;
    let partition = node.partition(Level::Persisted, 7).await;
    let ages: Ages = state.collection("ages").await.unwrap();
    let mut tx = state.begin();
    for number in 0..50 {
        ages.set_with_ttl(&mut tx, format!("now {number}"), number, Duration::ZERO).await.unwrap();
        ages.set_with_ttl(&mut tx, format!("later {number}"), number, 10_000 * SECOND).await.unwrap();
    }
    ages.set(&mut tx, "always".into(), 1).await.unwrap();
    assert_eq!(ages.len(&mut tx).await.unwrap(), 51);
    tx.commit().await.unwrap();
    assert_eq!(ages.len(&mut state.begin()).await.unwrap(), 51);
    assert_eq!(ages.get(&mut state.begin(), "now 7").await.unwrap(), None);
    while stored(&partition) != (51, 50) {
        assert_eq!(ages.len(&mut state.begin()).await.unwrap(), 51);
        time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(seen(&state, &ages, &["now 1", "always"]).await.len(), 51);
    node.replicas.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_older_than_the_removal_counts_right() {
    with_ages(async |state, ages, partition| {
        set(&state, &ages, "a", 1, Some(SECOND)).await;
        set(&state, &ages, "b", 1, None).await;
        let mut tx = state.begin();
        assert_eq!(ages.len(&mut tx).await.unwrap(), 2);
        time::sleep(SECOND + SWEEP).await;
        assert_eq!(stored(&partition), (1, 0));
        // The snapshot is of a time when it was there; what is written now takes its place in it.
        ages.add(&mut tx, "a".into(), 2).await.unwrap();
        assert_eq!(ages.len(&mut tx).await.unwrap(), 2);
        let keys: Vec<String> = ages.all().keys(&mut tx).await.unwrap().collect().await.unwrap();
        assert_eq!(keys, ["a", "b"]);
        tx.commit().await.unwrap();
        assert_eq!(ages.len(&mut state.begin()).await.unwrap(), 2);
    })
    .await;
}

/// A later version of what is stored, and an earlier one.
mod later {
    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    pub struct Session {
        pub user: String,
        #[serde(default)]
        pub secret: Option<String>,
    }
}

/// One that cannot read what the others write.
mod strict {
    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    pub struct Session {
        pub user: String,
        pub age: u32,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Session {
    user: String,
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_leaves_nothing_to_what_takes_its_place() {
    for level in IN_MEMORY {
        let node = TestNode::start_small().await;
        let state = node.state(level).await;
        let sessions: Dictionary<u8, later::Session> = state.collection("sessions").await.unwrap();
        let mut holder = state.begin();
        let mut tx = state.begin();
        for key in 0..4 {
            let session = later::Session { user: "anna".into(), secret: Some("of anna".into()) };
            sessions.set_with_ttl(&mut tx, key, session, SECOND).await.unwrap();
        }
        tx.commit().await.unwrap();
        for key in 0..4 {
            sessions.get(&mut holder, &key).await.unwrap().unwrap();
        }
        tokio::time::advance(SECOND).await;
        drop(holder);
        let earlier: Dictionary<u8, Session> = state.collection("sessions").await.unwrap();
        let mut tx = state.begin();
        let bert = || Session { user: "bert".into() };
        earlier.add(&mut tx, 0, bert()).await.unwrap();
        earlier.set(&mut tx, 1, bert()).await.unwrap();
        earlier.set_with_ttl(&mut tx, 2, bert(), SECOND).await.unwrap();
        earlier.add_or_update(&mut tx, 3, bert(), |_| panic!("it is not there")).await.unwrap();
        tx.commit().await.unwrap();
        for key in 0..4 {
            let session = sessions.get(&mut state.begin(), &key).await.unwrap().unwrap();
            assert_eq!(*session, later::Session { user: "bert".into(), secret: None }, "{key}");
        }
        node.replicas.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_one_transaction_can_take_is_removed_with_several() {
    for level in IN_MEMORY {
        let node = TestNode::start_small().await;
        let state = node.state(level).await;
        let partition = node.partition(level, 7).await;
        let texts: Dictionary<u8, String> = state.collection("texts").await.unwrap();
        let large = "x".repeat(VALUE_BYTES_MAX - 16);
        assert!(5 * large.len() > TRANSACTION_BYTES_MAX);
        for key in 0..5 {
            let mut tx = state.begin();
            texts.set_with_ttl(&mut tx, key, large.clone(), SECOND).await.unwrap();
            tx.commit().await.unwrap();
        }
        let ages: Ages = state.collection("ages").await.unwrap();
        set(&state, &ages, "behind them", 1, Some(SECOND)).await;
        time::sleep(SECOND + SWEEP).await;
        assert_eq!(stored(&partition), (0, 0), "{level:?}");
        node.replicas.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_removed_is_in_nobodys_way() {
    with_ages(async |state, ages, partition| {
        // So many that they are looked at first, each time.
        let others: Ages = state.collection("others").await.unwrap();
        let (mut tx, mut holder) = (state.begin(), state.begin());
        for number in 0..300u32 {
            ages.set_with_ttl(&mut tx, format!("locked {number}"), 1, SECOND).await.unwrap();
        }
        tx.commit().await.unwrap();
        for number in 0..300u32 {
            ages.get(&mut holder, &format!("locked {number}")).await.unwrap().unwrap();
        }
        // As a later build may write one.
        let mut batch = partition.batch();
        let (unknown, place) =
            ([&[ENTRIES, 0, 0, 0, 1][..], b"key"].concat(), [&[EXPIRIES, 0, 0, 0, 1][..], &[0; 8], b"key"].concat());
        batch.put(&unknown, &[0x77]).put(&place, &[]);
        partition.commit(batch).await.unwrap();
        set(&state, &others, "free", 1, Some(SECOND)).await;
        time::sleep(SECOND + SWEEP).await;
        assert_eq!(stored(&partition), (301, 301));
        assert!(!stored_keys(&partition).iter().any(|key| key.ends_with(b"free")));
        drop(holder);
        time::sleep(SWEEP).await;
        assert_eq!(stored(&partition), (1, 1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_is_no_old_value_for_those_who_watch() {
    with_ages(async |state, ages, _| {
        let mut watch = ages.watch().await.unwrap();
        let mut holder = state.begin();
        set(&state, &ages, "added", 1, Some(SECOND)).await;
        set(&state, &ages, "swept", 1, Some(SECOND)).await;
        for key in ["added", "swept"] {
            ages.get(&mut holder, key).await.unwrap().unwrap();
            watch.next().await.unwrap();
        }
        tokio::time::advance(SECOND).await;
        drop(holder);
        let mut tx = state.begin();
        ages.add(&mut tx, "added".into(), 2).await.unwrap();
        tx.commit().await.unwrap();
        let added = Change::Set { key: "added".to_owned(), old: None, new: Arc::new(2) };
        assert_eq!(watch.next().await.unwrap().changes, [added]);
        // Whoever keeps a copy hears of the one whose time has come, and of what value that was.
        let swept = Change::Removed { key: "swept".to_owned(), old: Some(Arc::new(1)) };
        assert_eq!(watch.next().await.unwrap().changes, [swept]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_need_not_be_readable() {
    for level in IN_MEMORY {
        let node = TestNode::start_small().await;
        let state = node.state(level).await;
        let sessions: Dictionary<u8, Session> = state.collection("sessions").await.unwrap();
        let mut tx = state.begin();
        for key in 0..6 {
            sessions.set_with_ttl(&mut tx, key, Session { user: "anna".into() }, SECOND).await.unwrap();
        }
        tx.commit().await.unwrap();
        drop((sessions, state));
        // What is opened again knows nothing of what was read before.
        let state = node.state(level).await;
        let strict: Dictionary<u8, strict::Session> = state.collection("sessions").await.unwrap();
        let mut holder = state.begin();
        for key in 0..6 {
            // Nobody removes what is locked.
            assert_eq!(strict.get(&mut holder, &key).await.unwrap_err().kind(), ErrorKind::Invalid);
        }
        tokio::time::advance(SECOND).await;
        drop(holder);
        let bert = || strict::Session { user: "bert".into(), age: 1 };
        let mut tx = state.begin();
        assert_eq!(strict.get(&mut tx, &0).await.unwrap(), None);
        assert_eq!(strict.multi_get(&mut tx, [&0, &1]).await.unwrap(), [None, None]);
        assert!(!strict.contains(&mut tx, &1).await.unwrap());
        strict.add(&mut tx, 2, bert()).await.unwrap();
        strict.set(&mut tx, 3, bert()).await.unwrap();
        assert_eq!(strict.update(&mut tx, &4, |_| panic!("it is not there")).await.unwrap(), None);
        assert!(!strict.compare_and_set(&mut tx, 5, &bert(), bert()).await.unwrap());
        tx.commit().await.unwrap();
        for key in [2, 3] {
            assert_eq!(strict.get(&mut state.begin(), &key).await.unwrap().as_deref(), Some(&bert()));
        }
        drop((strict, state));
        node.replicas.stop().await;
    }
}
