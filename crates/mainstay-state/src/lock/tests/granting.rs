//! Who is granted what, and in which order.

use super::driver::{Actor, actors, table};
use crate::lock::LockMode::{self, Exclusive, Shared, Update};

const MODES: [LockMode; 3] = [Shared, Update, Exclusive];

#[tokio::test]
async fn the_table_of_modes_is_that_of_the_original() {
    // Rows: what is wanted. Columns: what another transaction holds.
    #[rustfmt::skip]
    let compatible = [
        /*              shared  update exclusive */
        /* shared    */ [true,  false, false],
        /* update    */ [true,  false, false],
        /* exclusive */ [false, false, false],
    ];
    for (wanted, row) in MODES.into_iter().zip(compatible) {
        for (granted, compatible) in MODES.into_iter().zip(row) {
            let table = table();
            let [mut first, mut second] = actors(&table);
            first.gets("apple", granted);
            assert_eq!(second.try_acquire("apple", wanted), compatible, "{wanted} beside {granted}");
            assert_eq!(second.holds("apple"), compatible.then_some(wanted));
            second.gets("pear", wanted);
        }
    }
}

#[tokio::test]
async fn a_key_is_free_for_every_mode_once_it_is_released() {
    let table = table();
    for held in MODES {
        for wanted in MODES {
            let [mut first, mut second] = actors(&table);
            first.gets("apple", held);
            first.release();
            second.gets("apple", wanted);
            drop(second);
            first.gets("apple", wanted);
        }
    }
    assert_eq!(table.len(), 0, "a key that nobody holds has no entry");
}

#[tokio::test]
async fn what_is_covered_is_held_already() {
    let table = table();
    let [mut first, second, mut waiter] = actors(&table);
    for (n, held) in MODES.into_iter().enumerate() {
        for wanted in &MODES[..=n] {
            first.gets("apple", held);
            waiter.waits("apple", Exclusive);
            first.gets("apple", *wanted);
            assert_eq!(first.holds("apple"), Some(held), "a weaker request takes nothing away");
            assert!(!second.try_acquire("apple", Shared));
            first.release();
            waiter.was_granted();
            waiter.release();
        }
    }
}

#[tokio::test]
async fn requests_are_granted_in_the_order_of_their_arrival() {
    let table = table();
    let [mut a, mut b, mut c, mut d, mut e] = actors(&table);
    a.gets("apple", Shared);
    b.waits("apple", Exclusive);
    c.waits("apple", Shared);
    d.waits("apple", Shared);
    e.waits("apple", Exclusive);
    a.release();
    b.was_granted();
    assert!(!c.is_woken() && !d.is_woken() && !e.is_woken());
    b.release();
    c.was_granted();
    d.was_granted();
    assert!(!e.is_woken(), "sharers are granted together, and no further");
    c.release();
    assert!(!e.is_woken());
    d.release();
    e.was_granted();
}

#[tokio::test]
async fn nobody_overtakes_those_who_wait_even_if_compatible() {
    let table = table();
    let [mut a, mut b, mut c, d] = actors(&table);
    a.gets("apple", Shared);
    b.waits("apple", Exclusive);
    assert!(!d.try_acquire("apple", Shared), "overtakes b");
    assert!(!d.try_acquire("apple", Update), "overtakes b");
    c.waits("apple", Shared);
    b.cancel();
    c.was_granted();
    assert!(d.try_acquire("apple", Update));
}

#[tokio::test]
async fn a_sole_holder_converts_at_once_whoever_waits() {
    let table = table();
    for (from, to) in [(Shared, Update), (Shared, Exclusive), (Update, Exclusive)] {
        let [mut a, mut b, mut c] = actors(&table);
        a.gets("apple", from);
        b.waits("apple", Exclusive);
        c.waits("apple", Shared);
        a.gets("apple", to);
        assert_eq!(a.holds("apple"), Some(to));
        a.release();
        b.was_granted();
        b.release();
        c.was_granted();
    }
}

#[tokio::test]
async fn a_conversion_that_must_wait_goes_before_plain_requests() {
    let table = table();
    for to in [Update, Exclusive] {
        let [mut a, mut b, mut c, mut d] = actors(&table);
        a.gets("apple", Shared);
        b.gets("apple", Shared);
        // Keeps b from converting, whichever mode it wants.
        d.gets("apple", Update);
        c.waits("apple", Shared);
        b.waits("apple", to);
        d.release();
        if to == Exclusive {
            assert!(!b.is_woken() && !c.is_woken());
            a.release();
        }
        b.was_granted();
        assert_eq!(b.holds("apple"), Some(to));
        assert!(!c.is_woken());
        b.release();
        c.was_granted();
    }
}

#[tokio::test]
async fn an_update_that_converts_waits_for_the_sharers_alone() {
    let table = table();
    let [mut reader, mut writer, mut late] = actors(&table);
    reader.gets("apple", Shared);
    writer.gets("apple", Update);
    late.waits("apple", Shared);
    writer.waits("apple", Exclusive);
    reader.release();
    writer.was_granted();
    assert!(!late.is_woken());
    writer.release();
    late.was_granted();
}

#[tokio::test]
async fn conversions_are_granted_in_the_order_of_their_arrival() {
    let table = table();
    let [mut a, mut b, mut c] = actors(&table);
    a.gets("apple", Shared);
    b.gets("apple", Shared);
    c.gets("apple", Update);
    // a and b want to be the one that updates next.
    a.waits("apple", Update);
    b.waits("apple", Update);
    c.release();
    a.was_granted();
    assert!(!b.is_woken());
    a.release();
    b.was_granted();
}

#[tokio::test]
async fn keys_are_told_apart_exactly() {
    let table = table();
    let [mut a, mut b] = actors(&table);
    let long = "x".repeat(5000);
    for (one, other) in [("apple", "apples"), ("", "a"), (&*long, &long[1..]), (&long[..38], &long[..39])] {
        a.gets(one, Exclusive);
        b.gets(other, Exclusive);
        assert!(!b.try_acquire(one, Shared) && !a.try_acquire(other, Shared));
        a.release();
        b.release();
    }
    assert_eq!(table.len(), 0);
}

#[tokio::test]
async fn an_owner_that_ends_releases_everything() {
    let table = table();
    let names: Vec<String> = (0..100).map(|n| format!("key {n}")).collect();
    let mut a = Actor::new(&table, 1);
    for name in &names {
        a.gets(name, Exclusive);
    }
    let mut b = Actor::new(&table, 2);
    b.waits(&names[99], Shared);
    assert_eq!(table.len(), 100);
    drop(a);
    b.was_granted();
    assert_eq!(table.len(), 1);
}
