//! What the way without waiting costs. Run by hand, and prints:
//! `cargo test --release -p mainstay-state --lib measure -- --ignored --nocapture --test-threads 1`.

use std::hint::black_box;

use mainstay_core::time;
use mainstay_replica::Key;

use super::driver::{Owner, table};
use crate::lock::{LockMode, TransactionId};

/// Short enough that some of the repetitions are not interrupted.
const ROUNDS: u32 = 20_000;
const REPETITIONS: u32 = 200;

fn measure(title: &str, per_round: u32, mut round: impl FnMut(u64)) {
    let mut best = f64::MAX;
    for _ in 0..REPETITIONS {
        let start = time::now();
        for n in 0..ROUNDS {
            round(u64::from(n));
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS * per_round));
    }
    println!("{title:55} {best:6.1} ns");
}

#[test]
#[ignore = "a measurement, not a test"]
fn measure_locks_that_nobody_contends_for() {
    let table = table();
    let keys: Vec<Key> = (0..1024_u64).map(|n| Key::concat(&[&7_u64.to_be_bytes(), &n.to_be_bytes()])).collect();
    let long: Vec<Key> = (0..1024_u64).map(|n| Key::concat(&[&[7; 92], &n.to_be_bytes()])).collect();
    measure("an owner without locks", 1, |n| {
        black_box(Owner::new(table.clone(), TransactionId(n)));
    });
    let mut owner = Owner::new(table.clone(), TransactionId(1));
    measure("acquire and release a short key, exclusive", 1, |n| {
        assert!(owner.try_acquire(&keys[n as usize % 1024], LockMode::Exclusive));
        owner.release_all();
    });
    measure("acquire and release a short key, shared", 1, |n| {
        assert!(owner.try_acquire(&keys[n as usize % 1024], LockMode::Shared));
        owner.release_all();
    });
    measure("acquire and release a long key, exclusive", 1, |n| {
        assert!(owner.try_acquire(&long[n as usize % 1024], LockMode::Exclusive));
        owner.release_all();
    });
    measure("a lock of a transaction with two, owner included", 2, |n| {
        let mut owner = Owner::new(table.clone(), TransactionId(n));
        assert!(owner.try_acquire(&keys[0], LockMode::Shared));
        assert!(owner.try_acquire(&keys[1 + n as usize % 1023], LockMode::Exclusive));
    });
    let mut sharers = Vec::new();
    for n in 0..10_000 {
        let mut sharer = Owner::new(table.clone(), TransactionId(10_000_000 + n));
        assert!(sharer.try_acquire(&keys[0], LockMode::Shared));
        sharers.push(sharer);
    }
    measure("acquire and release beside 10,000 sharers", 1, |_| {
        assert!(owner.try_acquire(&keys[0], LockMode::Shared));
        owner.release_all();
    });
    assert!(owner.try_acquire(&keys[1], LockMode::Exclusive));
    measure("acquire what is held", 1, |_| assert!(owner.try_acquire(&keys[1], LockMode::Shared)));
}
