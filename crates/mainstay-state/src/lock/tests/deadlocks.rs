//! Circles of waiting transactions, found at the moment when they close.

use std::error::Error as _;

use mainstay_core::ErrorKind;

use super::driver::{Actor, actors, table};
use crate::lock::LockMode::{self, Exclusive, Shared, Update};
use crate::lock::{Deadlock, TransactionId, WaitsFor};

/// Checks that the request of `victim` is refused, and returns the ids of the circle.
fn refused(victim: &mut Actor, name: &str, mode: LockMode) -> Vec<u64> {
    let error = victim.is_refused(name, mode);
    assert_eq!(error.kind(), ErrorKind::Retry);
    let deadlock = error.source().unwrap().downcast_ref::<Deadlock>().unwrap();
    assert_eq!(deadlock.cycle[0].transaction, deadlock.victim, "the circle begins with the victim");
    for (n, wait) in deadlock.cycle.iter().enumerate() {
        let next = &deadlock.cycle[(n + 1) % deadlock.cycle.len()];
        assert_eq!(wait.waits_for.len(), 1);
        assert_eq!(wait.waits_for[0].transaction(), next.transaction, "each waits for the next");
        assert!(error.to_string().contains(&wait.to_string()), "{error} has no word of {wait}");
    }
    deadlock.cycle.iter().map(|wait| wait.transaction.0).collect()
}

/// A circle of `size` transactions, each of which holds one key and wants that of the next.
async fn circle(size: usize, held: LockMode, wanted: LockMode) {
    let table = table();
    let name = |n: usize| format!("key {}", n % size);
    let mut actors: Vec<Actor> = (0..size).map(|n| Actor::new(&table, n as u64)).collect();
    for (n, actor) in actors.iter_mut().enumerate() {
        actor.gets(&name(n), held);
    }
    for (n, actor) in actors.iter_mut().enumerate().take(size - 1) {
        actor.waits(&name(n + 1), wanted);
    }
    let last = size - 1;
    let mut expected: Vec<u64> = vec![last as u64];
    expected.extend(0..last as u64);
    assert_eq!(refused(&mut actors[last], &name(0), wanted), expected);
    assert!(actors.iter().all(|actor| !actor.is_woken()), "the victim still holds its locks");
    assert_eq!(actors[last].holds(&name(0)), None);
    assert_eq!(actors[last].holds(&name(last)), Some(held));
    // Once the victim gives way, all others get what they wait for, one after the other.
    actors[last].release();
    for n in (0..last).rev() {
        actors[n].was_granted();
        actors[n].release();
    }
    assert_eq!(table.len(), 0);
}

#[tokio::test]
async fn circles_of_two_three_and_five_are_refused_when_they_close() {
    for size in [2, 3, 5, 50] {
        for (held, wanted) in [(Exclusive, Exclusive), (Exclusive, Shared), (Shared, Exclusive), (Update, Update)] {
            circle(size, held, wanted).await;
        }
    }
}

#[tokio::test]
async fn the_error_names_the_circle_and_the_remedy() {
    let table = table();
    let [mut a, mut b, mut c] = actors(&table);
    a.gets("apple", Exclusive);
    b.gets("pear", Shared);
    c.gets("plum", Update);
    a.waits("pear", Exclusive);
    b.waits("plum", Shared);
    let error = c.is_refused("apple", Update);
    assert_eq!(
        error.to_string(),
        "deadlock: \
         transaction 3 waits for dictionary stock, key \"apple\" in update mode, but transaction 1 holds it in \
         exclusive mode; \
         transaction 1 waits for dictionary stock, key \"pear\" in exclusive mode, but transaction 2 holds it in \
         shared mode; \
         transaction 2 waits for dictionary stock, key \"plum\" in shared mode, but transaction 3 holds it in \
         update mode; \
         transaction 3 closed the circle and is the victim: abort it and run it again"
    );
    assert!(error.is_retryable());
    let deadlock = error.source().unwrap().downcast_ref::<Deadlock>().unwrap();
    assert_eq!(deadlock.victim, TransactionId(3));
    assert_eq!(deadlock.cycle[2].resource, "dictionary stock, key \"plum\"");
    assert_eq!(deadlock.cycle[2].mode, Shared);
    assert_eq!(deadlock.to_string(), "a circle of 3 waiting transactions", "the cause does not say it all again");
}

#[tokio::test]
async fn two_sharers_that_both_convert_are_a_circle() {
    for (mode, bystanders) in [(Update, 0), (Exclusive, 0), (Update, 5), (Exclusive, 5)] {
        let table = table();
        let mut others: Vec<Actor> = (0..bystanders).map(|n| Actor::new(&table, 10 + n)).collect();
        others.iter_mut().for_each(|other| other.gets("apple", Shared));
        let [mut a, mut b] = actors(&table);
        a.gets("apple", Shared);
        b.gets("apple", Shared);
        a.waits("apple", Exclusive);
        assert_eq!(refused(&mut b, "apple", mode), [2, 1]);
        assert_eq!(b.holds("apple"), Some(Shared), "the victim keeps what it had");
        b.release();
        others.clear();
        a.was_granted();
    }
}

#[tokio::test]
async fn circles_of_three_and_five_through_conversions() {
    for size in [3, 5] {
        let table = table();
        let name = |n: usize| format!("key {}", n % size);
        let mut actors: Vec<Actor> = (0..size).map(|n| Actor::new(&table, n as u64)).collect();
        for (n, actor) in actors.iter_mut().enumerate() {
            // Each shares a key with the one before it, and wants the one it shares with the next for itself.
            actor.gets(&name(n), Shared);
            actor.gets(&name(n + 1), Shared);
        }
        for (n, actor) in actors.iter_mut().enumerate().take(size - 1) {
            actor.waits(&name(n + 1), Exclusive);
        }
        let last = size - 1;
        assert_eq!(refused(&mut actors[last], &name(0), Exclusive).len(), size);
        actors[last].release();
        actors[last - 1].was_granted();
    }
}

#[tokio::test]
async fn a_conversion_closes_a_circle_with_those_that_it_overtakes() {
    let table = table();
    let [mut first, mut second, mut strong, mut plain] = actors(&table);
    first.gets("apple", Shared);
    second.gets("apple", Shared);
    strong.gets("apple", Update);
    plain.gets("pear", Exclusive);
    plain.waits("apple", Shared);
    second.waits("pear", Shared);
    // The plain request is not in the way of the sharers, nor they in its, until one of them goes before it.
    let error = first.is_refused("apple", Exclusive);
    let deadlock = error.source().unwrap().downcast_ref::<Deadlock>().unwrap();
    let edges: Vec<WaitsFor> = deadlock.cycle.iter().map(|wait| wait.waits_for[0]).collect();
    assert_eq!(
        edges,
        [
            WaitsFor::Holder { transaction: TransactionId(2), mode: Shared },
            WaitsFor::Holder { transaction: TransactionId(4), mode: Exclusive },
            WaitsFor::Ahead { transaction: TransactionId(1), mode: Exclusive },
        ]
    );
    assert!(error.to_string().contains("but transaction 1 is ahead in the queue for it in exclusive mode"), "{error}");
    strong.release();
    plain.was_granted();
    plain.release();
    second.was_granted();
}

#[tokio::test]
async fn the_order_of_the_queue_closes_a_circle() {
    // The reader that waits is compatible with the holder, but the writer between them is not.
    let table = table();
    let [mut holder, mut writer, mut reader, mut another] = actors(&table);
    holder.gets("apple", Shared);
    writer.waits("apple", Exclusive);
    another.waits("apple", Exclusive);
    reader.gets("pear", Exclusive);
    reader.waits("apple", Shared);
    assert_eq!(refused(&mut holder, "pear", Shared), [1, 3, 2]);
    // The writer stood for all who want the key for themselves: when it leaves, the next one does.
    writer.cancel();
    assert_eq!(refused(&mut holder, "pear", Shared), [1, 3, 4]);
    another.cancel();
    reader.was_granted();
    holder.waits("pear", Shared);
    reader.release();
    holder.was_granted();
}

#[tokio::test]
async fn a_circle_of_five_through_holders_queues_and_conversions() {
    let table = table();
    let [mut a, mut b, mut c, mut d, mut e] = actors(&table);
    a.gets("apple", Shared);
    b.gets("apple", Shared);
    c.gets("pear", Shared);
    d.gets("plum", Exclusive);
    b.waits("apple", Exclusive); // for a, which shares it
    c.waits("apple", Shared); // for b, which is ahead
    d.waits("pear", Exclusive); // for c, which shares it
    e.gets("fig", Update);
    e.waits("plum", Update); // for d, which holds it
    assert_eq!(refused(&mut a, "fig", Update), [1, 5, 4, 3, 2]);
}

#[tokio::test]
async fn what_looks_like_a_circle_and_is_none_is_not_refused() {
    let table = table();
    let [mut sharer, mut strong, mut reader] = actors(&table);
    sharer.gets("apple", Shared);
    strong.gets("apple", Update);
    reader.gets("pear", Exclusive);
    // It waits for the update alone, not for the sharer.
    reader.waits("apple", Shared);
    sharer.waits("pear", Shared);
    strong.release();
    reader.was_granted();
    reader.release();
    sharer.was_granted();
}

#[tokio::test]
async fn a_transaction_that_was_granted_its_wish_waits_no_more_even_if_it_has_not_heard_of_it() {
    let table = table();
    let [mut a, mut b, mut c] = actors(&table);
    c.gets("apple", Exclusive);
    a.gets("pear", Exclusive);
    a.waits("apple", Shared);
    c.release();
    // a shares apple and does not know it. As a wish, its lock would be excluded by that of b.
    assert!(a.is_woken());
    b.gets("apple", Update);
    c.waits("apple", Shared);
    b.waits("pear", Exclusive);
    a.was_granted();
    a.release();
    b.was_granted();
    b.release();
    c.was_granted();
}

#[tokio::test]
async fn a_victim_with_many_locks_is_found_too() {
    let table = table();
    let [mut a, mut b] = actors(&table);
    for n in 0..1000 {
        a.gets(&format!("key {n}"), Exclusive);
    }
    b.gets("apple", Exclusive);
    b.waits("key 999", Shared);
    assert_eq!(refused(&mut a, "apple", Shared), [1, 2]);
}

#[tokio::test]
async fn a_refused_request_wakes_those_whom_it_kept_waiting() {
    // Between the request and its refusal it stands before the plain ones; nothing of that is left.
    let table = table();
    let [mut a, mut b, mut c] = actors(&table);
    a.gets("apple", Shared);
    b.gets("apple", Shared);
    a.waits("apple", Exclusive);
    refused(&mut b, "apple", Exclusive);
    a.cancel();
    assert!(c.try_acquire("apple", Shared), "nobody waits any more");
    c.release();
}
