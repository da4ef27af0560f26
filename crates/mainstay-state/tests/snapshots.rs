//! Enumerations and counts: one moment of all collections, which nobody waits for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mainstay_core::time::Duration;
use mainstay_core::{Level, random, task};
use mainstay_replica::{DiskStoreOptions, ReplicaOptions, UniformSetsOptions};
use mainstay_state::{Dictionary, StateManager, StateOptions, Transaction};
use rand::RngExt as _;
use support::{LEVELS, NODE, TestNode, on_every_level};

type Accounts = Dictionary<u32, i64>;

const ACCOUNTS: u32 = 20;
const BALANCE: i64 = 100;
const ENUMERATIONS_MIN: u32 = 30;
const MOVES_MIN: u64 = 50;

async fn accounts(state: &StateManager) -> [Accounts; 2] {
    let both: [Accounts; 2] = [state.collection("left").await.unwrap(), state.collection("right").await.unwrap()];
    let mut tx = state.begin();
    for accounts in &both {
        for number in 0..ACCOUNTS {
            accounts.set(&mut tx, number, BALANCE).await.unwrap();
        }
    }
    tx.commit().await.unwrap();
    both
}

async fn all(accounts: &Accounts, tx: &mut Transaction) -> BTreeMap<u32, i64> {
    let mut found = BTreeMap::new();
    let mut entries = accounts.all().entries(tx).await.unwrap();
    while let Some((number, balance)) = entries.next().await.unwrap() {
        assert!(found.insert(number, *balance).is_none(), "each key once");
        // Others run while this one enumerates.
        tokio::task::yield_now().await;
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn every_enumeration_is_of_one_moment_of_all_collections() {
    for level in LEVELS {
        let node = TestNode::start_small().await;
        let state = node.state(level).await;
        let both = accounts(&state).await;
        let (stop, moves) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writer = || {
            let (state, both, stop, moves) = (state.clone(), both.clone(), stop.clone(), moves.clone());
            task::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let [from, to] = std::array::from_fn(|_| random::rng().random_range(0..ACCOUNTS));
                    // Accounts come and go, and what they hold moves to the other side.
                    let moved = state.transact(async |mut tx| {
                        let taken = both[0].try_remove(&mut tx, &from).await?.map_or(0, |balance| *balance);
                        both[1].add_or_update(&mut tx, to, taken, |balance| *balance += taken).await?;
                        let back = both[1].get_for_update(&mut tx, &from).await?.map_or(0, |balance| *balance);
                        if both[1].try_remove(&mut tx, &from).await?.is_some() {
                            both[0].add_or_update(&mut tx, to, back, |balance| *balance += back).await?;
                        }
                        Ok(())
                    });
                    match moved.await {
                        Ok(()) => _ = moves.fetch_add(1, Ordering::Relaxed),
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                    }
                }
            })
        };
        let writers = [writer(), writer()];
        // If nobody writes in the meantime this shows nothing.
        let mut enumerations = 0;
        while enumerations < ENUMERATIONS_MIN || moves.load(Ordering::Relaxed) < MOVES_MIN {
            enumerations += 1;
            let mut tx = state.begin();
            let lengths = [both[0].len(&mut tx).await.unwrap(), both[1].len(&mut tx).await.unwrap()];
            let found = [all(&both[0], &mut tx).await, all(&both[1], &mut tx).await];
            let sum: i64 = found.iter().flat_map(BTreeMap::values).sum();
            assert_eq!(sum, 2 * i64::from(ACCOUNTS) * BALANCE, "on level {level}: {found:?}");
            assert_eq!(lengths, [found[0].len() as u64, found[1].len() as u64], "on level {level}");
            let backwards: Vec<u32> = both[1].all().reversed().keys(&mut tx).await.unwrap().collect().await.unwrap();
            assert!(backwards.iter().eq(found[1].keys().rev()), "on level {level}");
        }
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.await.unwrap();
        }
        node.replicas.stop().await;
    }
}

#[tokio::test]
async fn nobody_waits_for_an_enumeration_and_it_sees_nothing_of_them() {
    on_every_level(async |state| {
        let both = accounts(&state).await;
        let mut reader = state.begin();
        let mut entries = both[0].all().entries(&mut reader).await.unwrap();
        assert_eq!(entries.next().await.unwrap().unwrap().0, 0);
        for number in 0..2 * ACCOUNTS {
            let mut writer = state.begin();
            both[0].set(writer.within(Duration::ZERO), number, 0).await.unwrap();
            both[1].try_remove(writer.within(Duration::ZERO), &number).await.unwrap();
            writer.commit().await.unwrap();
        }
        let mut count = 1;
        while let Some((number, balance)) = entries.next().await.unwrap() {
            assert_eq!((number, *balance), (count, BALANCE));
            count += 1;
        }
        assert_eq!(count, ACCOUNTS);
        assert_eq!(
            all(&both[1], &mut reader).await.len() as u32,
            ACCOUNTS,
            "the other collection is of the same moment"
        );
        assert_eq!(both[1].len(&mut reader).await.unwrap(), u64::from(ACCOUNTS));
        drop(reader);
        assert_eq!(both[1].len(&mut state.begin()).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn an_enumeration_has_what_its_own_transaction_wrote_before_it() {
    on_every_level(async |state| {
        let [left, _] = accounts(&state).await;
        let mut tx = state.begin();
        left.set(&mut tx, 3, -3).await.unwrap();
        left.remove(&mut tx, &4).await.unwrap();
        left.set(&mut tx, 1000, -1).await.unwrap();
        left.update(&mut tx, &5, |balance| *balance = -5).await.unwrap();
        let mut entries = left.range(2..=6).entries(&mut tx).await.unwrap();
        // What comes later is not in it.
        left.set(&mut tx, 6, -6).await.unwrap();
        let mut found = Vec::new();
        while let Some((number, balance)) = entries.next().await.unwrap() {
            found.push((number, *balance));
        }
        assert_eq!(found, [(2, BALANCE), (3, -3), (5, -5), (6, BALANCE)]);
        let found = all(&left, &mut tx).await;
        assert_eq!((found[&6], found[&1000], found.get(&4)), (-6, -1, None));
        assert_eq!(left.len(&mut tx).await.unwrap(), found.len() as u64);
        left.clear(&mut tx).await.unwrap();
        left.set(&mut tx, 9, -9).await.unwrap();
        assert_eq!(all(&left, &mut tx).await, BTreeMap::from([(9, -9)]));
        assert_eq!(left.len(&mut tx).await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_count_agrees_with_the_enumeration_whatever_others_did_since() {
    on_every_level(async |state| {
        let [left, _] = accounts(&state).await;
        let mut tx = state.begin();
        assert_eq!(left.len(&mut tx).await.unwrap(), u64::from(ACCOUNTS));
        // Others add and remove after the snapshot of this one, which then changes the same keys.
        let mut other = state.begin();
        left.set(&mut other, 100, 1).await.unwrap();
        left.set(&mut other, 101, 1).await.unwrap();
        left.remove(&mut other, &0).await.unwrap();
        left.remove(&mut other, &1).await.unwrap();
        other.commit().await.unwrap();
        left.set(&mut tx, 100, 2).await.unwrap();
        left.remove(&mut tx, &101).await.unwrap();
        left.add(&mut tx, 0, 2).await.unwrap();
        assert_eq!(left.try_remove(&mut tx, &1).await.unwrap(), None);
        let found = all(&left, &mut tx).await;
        assert_eq!(left.len(&mut tx).await.unwrap(), found.len() as u64, "{found:?}");
        tx.commit().await.unwrap();
        let mut tx = state.begin();
        let found = all(&left, &mut tx).await;
        assert_eq!(left.len(&mut tx).await.unwrap(), found.len() as u64);
        assert_eq!(found.len() as u32, ACCOUNTS, "one more, one fewer");
    })
    .await;
}

#[tokio::test]
async fn what_only_others_have_added_can_be_removed_after_a_count() {
    on_every_level(async |state| {
        let left: Accounts = state.collection("left").await.unwrap();
        let mut tx = state.begin();
        assert!(left.is_empty(&mut tx).await.unwrap());
        let mut other = state.begin();
        left.set(&mut other, 1, 1).await.unwrap();
        other.commit().await.unwrap();
        left.remove(&mut tx, &1).await.unwrap();
        assert_eq!(left.len(&mut tx).await.unwrap(), 0);
        tx.commit().await.unwrap();
        assert_eq!(left.len(&mut state.begin()).await.unwrap(), 0);
    })
    .await;
}

/// What the store and the values may take in memory, and a state that is many times larger.
const CACHE_BYTES: usize = 512 << 10;
const VALUE_BYTES: usize = 4000;
const VALUES: u32 = 4000;

#[tokio::test]
async fn state_many_times_larger_than_the_caches_is_read_and_changed_on_the_persisted_level() {
    let mut replica = ReplicaOptions::default();
    replica.checkpoint.bytes = CACHE_BYTES as u64;
    let options = UniformSetsOptions {
        sets_per_level: 1,
        store: DiskStoreOptions { cache_bytes_max: CACHE_BYTES, ..DiskStoreOptions::default() },
        replica,
        ..UniformSetsOptions::new(NODE)
    };
    let mut small = StateOptions::default();
    small.cache_bytes = CACHE_BYTES as u64;
    let folder = tempfile::tempdir().unwrap();
    let node = TestNode::open_with(folder.path(), options.clone()).await;
    let state = node.state_with(Level::Persisted, small.clone()).await;
    let texts: Dictionary<u32, String> = state.collection("texts").await.unwrap();
    let text = |number: u32, letter: &str| format!("{number:08}{}", letter.repeat(VALUE_BYTES));
    for start in (0..VALUES).step_by(200) {
        let mut tx = state.begin();
        for number in start..start + 200 {
            texts.set(&mut tx, number.wrapping_mul(2_654_435_761), text(number, "a")).await.unwrap();
        }
        tx.commit().await.unwrap();
    }
    let mut tx = state.begin();
    for number in (0..VALUES).step_by(7) {
        let key = number.wrapping_mul(2_654_435_761);
        texts.update(&mut tx, &key, |text| *text = text.replace('a', "b")).await.unwrap().unwrap();
    }
    tx.commit().await.unwrap();
    drop((texts, state));
    node.replicas.stop().await;
    drop(node);

    // And all of it is there after a restart, with the same little memory.
    let node = TestNode::open_with(folder.path(), options).await;
    let state = node.state_with(Level::Persisted, small).await;
    let texts: Dictionary<u32, String> = state.collection("texts").await.unwrap();
    let mut tx = state.begin();
    assert_eq!(texts.len(&mut tx).await.unwrap(), u64::from(VALUES));
    let mut entries = texts.all().entries(&mut tx).await.unwrap();
    let (mut count, mut last) = (0, None);
    while let Some((key, _)) = entries.next().await.unwrap() {
        assert!(last.replace(key).is_none_or(|last| last < key));
        count += 1;
    }
    assert_eq!(count, VALUES);
    drop(entries);
    for number in 0..VALUES {
        let letter = if number % 7 == 0 { "b" } else { "a" };
        let found = texts.get(&mut state.begin(), &number.wrapping_mul(2_654_435_761)).await.unwrap().unwrap();
        assert!(*found == text(number, letter), "{number}");
    }
    drop((texts, tx, state));
    node.replicas.stop().await;
}
