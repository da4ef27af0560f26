//! Sharing what nearly everybody shares, and taking it away from them.

use std::sync::atomic::{AtomicI64, Ordering};

use mainstay_core::ErrorKind;

use super::driver::{Actor, LONG, Owner, actors, collection, key, table};
use crate::lock::LockMode::{Exclusive, Shared};
use crate::lock::TransactionId;

#[tokio::test]
async fn who_shares_is_not_in_the_table_before_somebody_bars() {
    let table = table();
    let [mut a, mut b, mut c, mut d] = actors(&table);
    a.shares("stock");
    a.shares("stock");
    b.shares("stock");
    assert_eq!((table.listed(), table.len()), (2, 0));
    c.bars();
    assert_eq!((table.listed(), table.len()), (0, 1));
    c.waits("stock", Exclusive);
    // Behind the one who waits.
    d.bars();
    d.waits("stock", Shared);
    assert_eq!((a.holds("stock"), b.holds("stock")), (Some(Shared), Some(Shared)));
    a.release();
    assert!(!c.is_woken());
    b.release();
    c.was_granted();
    assert!(!d.is_woken());
    c.release();
    d.was_granted();
    a.shares("stock");
    assert_eq!((table.listed(), table.len()), (0, 1), "somebody bars");
    a.release();
    d.release();
    a.shares("stock");
    assert_eq!((table.listed(), table.len()), (1, 0));
    a.release();
    assert_eq!((table.listed(), table.len()), (0, 0));
}

#[tokio::test]
async fn a_sole_sharer_gets_it_alone_and_of_two_one_is_refused() {
    let table = table();
    let [mut a, mut b, mut c] = actors(&table);
    a.shares("stock");
    c.bars();
    c.waits("stock", Exclusive);
    a.bars();
    a.gets("stock", Exclusive);
    a.release();
    c.was_granted();
    c.release();

    a.shares("stock");
    b.shares("stock");
    a.bars();
    a.waits("stock", Exclusive);
    b.bars();
    assert_eq!(b.is_refused("stock", Exclusive).kind(), ErrorKind::Retry);
    b.release();
    a.was_granted();
    a.release();
    assert_eq!((table.listed(), table.len()), (0, 0));
}

#[tokio::test]
async fn a_circle_through_what_is_shared_is_found_whoever_closes_it() {
    for sharer_waits_first in [true, false] {
        let table = table();
        let [mut sharer, mut other] = actors(&table);
        sharer.shares("stock");
        other.gets("apple", Exclusive);
        let refused = if sharer_waits_first {
            sharer.waits("apple", Shared);
            assert_eq!(table.listed(), 0, "who waits is in the table");
            other.bars();
            other.is_refused("stock", Exclusive)
        } else {
            other.bars();
            other.waits("stock", Exclusive);
            sharer.is_refused("apple", Shared)
        };
        assert_eq!(refused.kind(), ErrorKind::Retry);
        sharer.release();
        other.release();
        assert_eq!((table.listed(), table.len()), (0, 0));
    }
}

#[tokio::test]
async fn any_number_share_and_each_is_waited_for() {
    let table = table();
    let mut sharers: Vec<Actor> = (10..110).map(|id| Actor::new(&table, id)).collect();
    sharers.iter().for_each(|sharer| sharer.shares("stock"));
    sharers.iter().for_each(|sharer| sharer.shares("orders"));
    let mut alone = Actor::new(&table, 1);
    alone.bars();
    alone.waits("stock", Exclusive);
    while let Some(mut sharer) = sharers.pop() {
        assert!(!alone.is_woken(), "{} share it", sharers.len() + 1);
        sharer.release();
    }
    alone.was_granted();
    alone.gets("orders", Exclusive);
    alone.release();
    assert_eq!((table.listed(), table.len()), (0, 0));
}

/// Positive while it is shared, negative while somebody has it alone.
#[test]
fn nobody_shares_what_somebody_has_alone() {
    const ROUNDS: u64 = 2000;
    let (table, used) = (table(), AtomicI64::new(0));
    let worker = |number: u64, table: &std::sync::Arc<crate::lock::LockTable>, used: &AtomicI64| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for round in 0..ROUNDS {
            let mut owner = Owner::new(table.clone(), TransactionId(number * ROUNDS + round + 1));
            let is_alone = round % 16 == number;
            let mode = if is_alone { Exclusive } else { Shared };
            if is_alone {
                owner.bar();
            }
            if is_alone || !owner.try_share(collection("stock").unwrap()) {
                runtime.block_on(owner.acquire(&key("stock"), mode, LONG, || "stock".into())).unwrap();
            }
            if is_alone {
                assert_eq!(used.fetch_sub(1, Ordering::SeqCst), 0);
                std::thread::yield_now();
                assert_eq!(used.fetch_add(1, Ordering::SeqCst), -1);
            } else {
                assert!(used.fetch_add(1, Ordering::SeqCst) >= 0);
                std::thread::yield_now();
                assert!(used.fetch_sub(1, Ordering::SeqCst) > 0);
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (table, used) = (&table, &used);
            scope.spawn(move || worker(number, table, used));
        }
    });
    assert_eq!((table.listed(), table.len()), (0, 0));
}
