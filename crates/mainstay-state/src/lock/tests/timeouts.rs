//! Requests whose time is over, and what they say about it.

use std::error::Error as _;
use std::task::Poll;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Error, ErrorKind};

use super::driver::{Actor, Owner, actors, key, table};
use crate::lock::LockMode::{Exclusive, Shared, Update};
use crate::lock::{LockTimeout, TransactionId, WaitsFor};

const LIMIT: Duration = Duration::from_secs(4);

fn error(poll: Poll<Result<(), Error>>) -> Error {
    match poll {
        Poll::Ready(Err(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn cause(error: &Error) -> &LockTimeout {
    error.source().unwrap().downcast_ref().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_time_out_names_the_key_the_mode_the_holders_and_the_remedy() {
    let table = table();
    let [mut a, mut b] = actors(&table);
    a.gets("apple", Exclusive);
    assert!(b.acquire_within("apple", Shared, LIMIT).is_pending());
    time::sleep(LIMIT - Duration::from_millis(1)).await;
    assert!(!b.is_woken() && b.poll().is_pending());
    time::sleep(Duration::from_millis(2)).await;
    assert!(b.is_woken());
    let error = error(b.poll());
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(
        error.to_string(),
        "transaction 2 did not get dictionary stock, key \"apple\" in shared mode within 4s; \
         held by transaction 1 (exclusive, for 4.001s): \
         abort it and run it again, let transactions end sooner, or set a longer time limit"
    );
    let cause = cause(&error);
    assert_eq!((cause.wait.transaction, cause.wait.mode), (TransactionId(2), Shared));
    assert_eq!(cause.wait.resource, "dictionary stock, key \"apple\"");
    assert_eq!((cause.limit, cause.holders.len(), cause.ahead_total), (LIMIT, 1, 0));
    assert_eq!(cause.to_string(), "1 others hold the lock, 0 wait ahead", "the cause does not say it all again");
    a.release();
    assert_eq!(table.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_names_those_who_were_ahead() {
    let table = table();
    let [mut a, mut b, mut c, mut d, mut e] = actors(&table);
    a.gets("apple", Exclusive);
    b.waits("apple", Shared);
    time::sleep(Duration::from_secs(1)).await;
    a.release();
    b.was_granted();
    time::sleep(Duration::from_secs(1)).await;
    c.waits("apple", Exclusive);
    d.waits("apple", Update);
    // Compatible with who holds it, and behind two who are not, or not with each other.
    assert!(e.acquire_within("apple", Shared, Duration::from_millis(500)).is_pending());
    time::sleep(Duration::from_millis(500)).await;
    let error = error(e.poll());
    assert_eq!(
        error.to_string(),
        "transaction 5 did not get dictionary stock, key \"apple\" in shared mode within 500ms; \
         held by transaction 2 (shared, for 1.5s); \
         waiting behind transaction 3 (exclusive), transaction 4 (update): \
         abort it and run it again, let transactions end sooner, or set a longer time limit"
    );
    assert_eq!(
        cause(&error).wait.waits_for,
        [
            WaitsFor::Ahead { transaction: TransactionId(3), mode: Exclusive },
            WaitsFor::Ahead { transaction: TransactionId(4), mode: Update },
        ]
    );
    // Who gave up is in nobody's way.
    b.release();
    c.was_granted();
    c.release();
    d.was_granted();
    d.release();
    assert_eq!(table.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_names_a_few_of_many_and_counts_the_rest() {
    let table = table();
    let mut sharers: Vec<Actor> = (1..=20).map(|id| Actor::new(&table, id)).collect();
    for sharer in &mut sharers {
        sharer.gets("apple", Shared);
    }
    let mut writers: Vec<Actor> = (21..=40).map(|id| Actor::new(&table, id)).collect();
    for writer in &mut writers {
        writer.waits("apple", Exclusive);
    }
    let mut late = Actor::new(&table, 41);
    let error = error(late.acquire_within("apple", Update, Duration::ZERO));
    let text = error.to_string();
    assert!(text.contains(" and 12 more; waiting behind transaction 21 (exclusive), "), "{text}");
    assert!(text.contains("transaction 28 (exclusive) and 12 more: abort"), "{text}");
    assert_eq!((cause(&error).holders.len(), cause(&error).holders_total, cause(&error).ahead_total), (8, 20, 20));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_waits_for_nothing() {
    let table = table();
    let [mut a, mut b, mut c] = actors(&table);
    b.gets("pear", Exclusive);
    assert!(matches!(a.acquire_within("apple", Exclusive, Duration::ZERO), Poll::Ready(Ok(()))));
    a.waits("pear", Shared);
    // Not a deadlock: it would not wait.
    let error = error(b.acquire_within("apple", Shared, Duration::ZERO));
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(
        error.to_string(),
        "transaction 2 cannot have dictionary stock, key \"apple\" in shared mode without waiting; \
         held by transaction 1 (exclusive, for less than 1ms): \
         abort it and run it again, let transactions end sooner, or set a longer time limit"
    );
    b.release();
    a.was_granted();
    a.release();
    c.gets("apple", Exclusive);
}

#[tokio::test(start_paused = true)]
async fn a_conversion_that_times_out_keeps_the_former_mode() {
    let table = table();
    let [mut a, mut b, mut c] = actors(&table);
    a.gets("apple", Shared);
    b.gets("apple", Shared);
    assert!(b.acquire_within("apple", Exclusive, LIMIT).is_pending());
    c.waits("apple", Shared);
    time::sleep(LIMIT).await;
    let error = error(b.poll());
    assert!(error.to_string().contains("held by transaction 1 (shared, for 4s): "), "{error}");
    assert_eq!(b.holds("apple"), Some(Shared));
    c.was_granted();
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_with_the_end_of_the_time_counts() {
    let table = table();
    let [mut a, mut b] = actors(&table);
    a.gets("apple", Exclusive);
    assert!(b.acquire_within("apple", Exclusive, LIMIT).is_pending());
    time::sleep(LIMIT * 2).await;
    a.release();
    b.was_granted();
    assert_eq!(b.holds("apple"), Some(Exclusive));
}

#[tokio::test(start_paused = true)]
async fn the_longest_wait_ends_too() {
    let table = table();
    let [mut a] = actors(&table);
    a.gets("apple", Exclusive);
    let mut b = Owner::new(table.clone(), TransactionId(2));
    let error = b.acquire(&key("apple"), Shared, Duration::MAX, || "it".to_owned()).await.unwrap_err();
    assert!(error.to_string().contains("did not get it in shared mode within 3600s; "), "{error}");
}
