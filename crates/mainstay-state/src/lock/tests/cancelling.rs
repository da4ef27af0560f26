//! Futures that are dropped: before they are polled, while they wait, and when they were granted and have not heard.

use std::task::{Context, Waker};

use super::driver::{LONG, Owner, actors, key, table};
use crate::lock::LockMode::{Exclusive, Shared, Update};
use crate::lock::TransactionId;

#[tokio::test]
async fn a_future_that_was_never_polled_has_done_nothing() {
    let table = table();
    let [mut a, b] = actors(&table);
    a.start("apple", Exclusive, LONG);
    assert!(b.try_acquire("apple", Exclusive));
    a.cancel();
    assert_eq!(table.len(), 1);
}

#[tokio::test]
async fn who_leaves_the_queue_lets_those_behind_go() {
    let table = table();
    let [mut a, mut b, mut c, mut d] = actors(&table);
    a.gets("apple", Shared);
    b.waits("apple", Exclusive);
    c.waits("apple", Shared);
    d.waits("apple", Update);
    b.cancel();
    c.was_granted();
    d.was_granted();
    assert_eq!(b.holds("apple"), None);
}

#[tokio::test]
async fn a_grant_that_nobody_heard_of_goes_to_the_next() {
    let table = table();
    let [mut a, mut b, mut c] = actors(&table);
    a.gets("apple", Exclusive);
    b.waits("apple", Exclusive);
    c.waits("apple", Exclusive);
    a.release();
    assert!(b.is_woken() && !c.is_woken());
    b.cancel();
    c.was_granted();
    assert_eq!(b.holds("apple"), None);
    c.release();
    assert_eq!(table.len(), 0);
}

#[tokio::test]
async fn a_conversion_that_nobody_heard_of_falls_back_to_the_former_mode() {
    for (former, wanted) in [(Shared, Update), (Shared, Exclusive), (Update, Exclusive)] {
        let table = table();
        let [mut a, mut b, mut c, mut d] = actors(&table);
        // Keeps b from converting, whatever it has: an update beside a sharer, a sharer beside an update.
        a.gets("apple", Shared);
        b.gets("apple", former);
        if former == Shared {
            a.gets("apple", Update);
        }
        b.waits("apple", wanted);
        c.waits("apple", Shared);
        a.release();
        assert!(b.is_woken() && !c.is_woken());
        b.cancel();
        assert_eq!(b.holds("apple"), Some(former));
        if former == Shared {
            c.was_granted();
            assert!(d.try_acquire("apple", Update));
            d.release();
        } else {
            assert!(!c.is_woken(), "the update still keeps readers out");
        }
        b.release();
        if c.is_waiting() {
            c.was_granted();
        }
        c.release();
        assert_eq!(table.len(), 0);
    }
}

#[tokio::test]
async fn a_conversion_that_leaves_the_queue_keeps_the_former_mode() {
    let table = table();
    let [mut a, mut b, mut c] = actors(&table);
    a.gets("apple", Shared);
    b.gets("apple", Shared);
    b.waits("apple", Exclusive);
    c.waits("apple", Shared);
    b.cancel();
    c.was_granted();
    assert_eq!(b.holds("apple"), Some(Shared));
    a.release();
    c.release();
    b.gets("apple", Exclusive);
}

#[tokio::test]
async fn a_poll_that_nobody_asked_for_changes_nothing() {
    let table = table();
    let [mut a, mut b] = actors(&table);
    a.gets("apple", Exclusive);
    b.waits("apple", Exclusive);
    for _ in 0..5 {
        assert!(b.poll().is_pending() && !b.is_woken());
    }
    a.release();
    b.was_granted();
}

#[tokio::test]
async fn the_last_waker_is_woken() {
    let table = table();
    let [mut a, mut b] = actors(&table);
    a.gets("apple", Exclusive);
    b.waits("apple", Exclusive);
    b.change_waker();
    assert!(b.poll().is_pending());
    a.release();
    b.was_granted();
}

#[tokio::test]
async fn an_owner_takes_back_what_a_forgotten_future_wanted() {
    // Safe code can leak a future, which ends its borrow of the owner.
    let table = table();
    let [mut a, mut c] = actors(&table);
    let mut b = Owner::new(table.clone(), TransactionId(9));
    let leak = |b: &mut Owner| {
        let apple = key("apple");
        let mut future = Box::pin(b.acquire(&apple, Exclusive, LONG, String::new));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        std::mem::forget(future);
    };
    // While it waits: by the end of the owner.
    a.gets("apple", Exclusive);
    leak(&mut b);
    c.waits("apple", Shared);
    b.release_all();
    a.release();
    c.was_granted();
    c.release();
    // After it was granted: by the next request that cannot be granted at once.
    a.gets("apple", Exclusive);
    leak(&mut b);
    a.release();
    assert_eq!(b.holds(&key("apple")), None);
    b.acquire(&key("apple"), Shared, LONG, String::new).await.unwrap();
    c.gets("apple", Shared);
    drop(b);
    c.release();
    assert_eq!(table.len(), 0);
}

#[tokio::test]
async fn who_gives_up_a_collection_lets_those_behind_share_it() {
    let table = table();
    let [mut a, mut b, mut c, mut d] = actors(&table);
    a.shares("stock");
    b.bars();
    b.waits("stock", Exclusive);
    assert!(!c.try_share("stock"), "it would overtake");
    c.waits("stock", Shared);
    b.cancel();
    c.was_granted();
    // It is barred until the one who has barred it lets go of all.
    d.shares("stock");
    assert_eq!((table.listed(), table.len()), (0, 1));
    b.release();
    for actor in [&mut a, &mut c, &mut d] {
        actor.release();
    }
    a.shares("stock");
    assert_eq!((table.listed(), table.len()), (1, 0));
}

#[tokio::test]
async fn who_was_granted_a_collection_and_did_not_hear_of_it_keeps_nobody_out() {
    let table = table();
    let [mut a, mut b, mut c] = actors(&table);
    a.shares("stock");
    b.bars();
    b.waits("stock", Exclusive);
    a.release();
    assert!(b.is_woken() && !c.try_share("stock"));
    b.cancel();
    c.shares("stock");
    b.release();
    c.release();
    assert_eq!((table.listed(), table.len()), (0, 0));
}
