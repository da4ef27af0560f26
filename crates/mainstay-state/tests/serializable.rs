//! Random transactions at the same time are as if they had run one after the other, in the order of their numbers.
//!
//! A failing seed is replayed with `MAINSTAY_SEED=17 cargo test -p mainstay-state --test serializable`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;
mod workload;

use mainstay_core::Level;
use support::LEVELS;
use workload::{Event, Recorded, Seen, check, run, run_on_threads, seeds};

const SEEDS: u64 = 150;
const SEEDS_ON_THREADS: u64 = 20;
const TRANSACTIONS_ON_THREADS: u32 = 40;

fn expect_serializable(seed: u64, level: Level, history: &[Recorded]) {
    if let Err(why) = check(history) {
        panic!("seed {seed} on level {level}: {why}\n{history:#?}");
    }
}

#[test]
fn transactions_on_one_thread_are_serializable_in_the_order_of_their_numbers() {
    let (mut committed, mut unknown) = (0, 0);
    for seed in seeds(SEEDS) {
        for level in [Level::None, Level::Volatile] {
            let history = run(seed, level);
            expect_serializable(seed, level, &history);
            committed += history.len();
            unknown += history.iter().filter(|transaction| transaction.sequence_number.is_none()).count();
        }
    }
    println!("{committed} transactions were committed, {unknown} of them unheard");
    // Or the test would show nothing.
    assert!(committed > seeds(SEEDS).len() * 2 * 10, "{committed}");
}

#[test]
fn transactions_on_the_persisted_level_are_serializable() {
    for seed in seeds(SEEDS / 3) {
        expect_serializable(seed, Level::Persisted, &run(seed, Level::Persisted));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn transactions_on_many_threads_are_serializable_in_the_order_of_their_numbers() {
    for seed in seeds(SEEDS_ON_THREADS) {
        // Where a commit takes no time, threads meet at other places in each run.
        let levels: &[Level] = if seed <= 2 { &LEVELS } else { &[Level::None] };
        for &level in levels {
            expect_serializable(seed, level, &run_on_threads(seed, level, TRANSACTIONS_ON_THREADS).await);
        }
    }
}

#[test]
fn a_seed_replays() {
    for level in [Level::None, Level::Volatile] {
        for seed in 1..=3 {
            assert_eq!(run(seed, level), run(seed, level), "seed {seed} on level {level}");
        }
    }
}

const PLACE: (usize, u8) = (0, 1);

fn transaction(name: &str, number: u64, when: (u64, u64), events: &[Event]) -> Recorded {
    let (begun, ended) = when;
    let sequence_number = (number != 0).then_some(number);
    Recorded { name: name.into(), events: events.to_vec(), begun, ended, sequence_number }
}

fn read(value: u64) -> Event {
    Event::Read(PLACE, Seen::Is((value != 0).then_some(value)))
}

fn write(value: u64) -> Event {
    Event::Write(PLACE, (value != 0).then_some(value))
}

#[test]
fn the_checker_takes_what_is_serial_and_refuses_what_is_not() {
    let first = transaction("first", 1, (0, 9), &[read(0), write(1), read(1)]);
    let second = transaction("second", 2, (0, 9), &[read(1), write(2)]);
    check(&[second.clone(), first.clone()]).unwrap();

    let lost = transaction("lost update", 2, (0, 9), &[read(0), write(2)]);
    assert!(check(&[first.clone(), lost]).unwrap_err().contains("lost update saw Is(None)"));
    let stale = transaction("stale reader", 2, (0, 9), &[read(1)]);
    check(&[first.clone(), transaction("reader", 1, (0, 9), &[read(1)])]).unwrap();
    assert!(check(&[first.clone(), second.clone(), stale]).unwrap_err().contains("stale reader"));
    let same = transaction("same", 1, (0, 9), &[write(7)]);
    assert!(check(&[first.clone(), same]).unwrap_err().contains("the same number"));
    let late = transaction("late", 1, (5, 6), &[write(1)]);
    let early = transaction("early", 2, (0, 1), &[write(2)]);
    assert!(check(&[late, early]).unwrap_err().contains("early had ended when late began"));
    let unrepeatable = transaction("unrepeatable", 2, (0, 9), &[read(1), read(0)]);
    assert!(check(&[first, unrepeatable]).unwrap_err().contains("unrepeatable"));
}

#[test]
fn the_checker_finds_a_place_for_those_whose_number_nobody_knows() {
    let unknown = transaction("unknown", 0, (0, 9), &[read(1), write(2)]);
    let first = transaction("first", 1, (0, 9), &[write(1)]);
    check(&[first.clone(), unknown.clone(), transaction("reader", 5, (0, 9), &[read(1)])]).unwrap();
    check(&[first.clone(), unknown.clone(), transaction("reader", 5, (0, 9), &[read(2)])]).unwrap();
    let between = transaction("between", 4, (0, 9), &[write(4)]);
    let history = [first.clone(), unknown.clone(), between, transaction("reader", 5, (0, 9), &[read(2)])];
    assert!(check(&history).unwrap_err().contains("reader saw Is(Some(2))"));
    let half = transaction("half", 0, (0, 9), &[write(2), Event::Write((1, 1), Some(3))]);
    let other = Event::Read((1, 1), Seen::Is(None));
    let reader = transaction("reader", 5, (0, 9), &[read(2), other]);
    assert!(check(&[first, half, reader]).unwrap_err().contains("reader saw"));
}
