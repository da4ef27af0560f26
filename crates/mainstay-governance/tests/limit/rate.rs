use std::sync::Arc;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::limit::{LEASE, LimiterSettings, RateLimit, RateLimiter};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::start;

const LIMIT: RateLimit = RateLimit { permits: 100, per: Duration::from_secs(1), burst: 20 };

async fn open(node: &TestNode) -> RateLimiter {
    RateLimiter::open(&**node, "mails", LIMIT).await.unwrap()
}

/// When how many permits were used, by whom.
type Log = Arc<Mutex<Vec<(Instant, u64, usize)>>>;

/// Takes permits for as long as it is let.
async fn use_up(limiter: RateLimiter, permits: u64, who: usize, log: Log) {
    while limiter.acquire(permits).await.is_ok() {
        log.lock().push((Instant::now(), permits, who));
    }
}

/// Refuses a log in which any window has more than it may.
fn check_bound(log: &Log, limit: RateLimit) {
    let log = log.lock();
    for (index, (from, ..)) in log.iter().enumerate() {
        let mut sum = 0;
        for (at, permits, _) in &log[index..] {
            sum += permits;
            let bound = limit.burst as f64 + limit.permits as f64 * at.duration_since(*from).as_secs_f64();
            assert!(sum as f64 <= bound + 1e-6, "{sum} in {:?}", at.duration_since(*from));
        }
    }
}

fn used(log: &Log, who: usize) -> u64 {
    log.lock().iter().filter(|(.., it)| *it == who).map(|(_, permits, _)| permits).sum()
}

#[tokio::test]
async fn the_bound_holds_over_every_window_and_what_there_is_gets_used() {
    let node = start().await;
    let log = Log::default();
    let mut tasks = Vec::new();
    for who in 0..3 {
        let limiter = open(&node).await;
        for permits in [1, 1, 2, 5] {
            tasks.push(tokio::spawn(use_up(limiter.clone(), permits, who, log.clone())));
        }
    }
    node.advance(Duration::from_secs(10)).await;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    check_bound(&log, LIMIT);
    let all: Vec<u64> = (0..3).map(|who| used(&log, who)).collect();
    assert!(all.iter().sum::<u64>() >= 850, "{all:?}");
    assert!(all.iter().all(|it| (200..=450).contains(it)), "shared fairly: {all:?}");
}

#[tokio::test]
async fn the_bound_holds_across_a_kill() {
    let mut node = start().await;
    let log = Log::default();
    for round in 0..3 {
        let limiter = open(&node).await;
        let task = tokio::spawn(use_up(limiter, 1, round, log.clone()));
        node.advance(Duration::from_secs(3)).await;
        node.kill().await.unwrap();
        task.abort();
    }
    check_bound(&log, LIMIT);
    assert!((0..3).all(|round| used(&log, round) > 100), "and it goes on each time");
}

/// A process that outlives the one with the actor goes on using its share, of which the actor that comes back has to know.
#[tokio::test]
async fn what_is_still_out_after_a_kill_is_not_given_once_more() {
    let mut node = start().await;
    let (log, outliving) = (Log::default(), open(&node).await);
    let note = |permits, who| log.lock().push((Instant::now(), permits, who));
    // It looks like somebody who will want many.
    assert!(!outliving.try_acquire(10), "nothing was fetched yet");
    node.advance(Duration::from_millis(20)).await;
    node.kill().await.unwrap();
    assert!(outliving.try_acquire(1), "its share is good beyond the kill");
    note(1, 0);
    let fresh = open(&node).await;
    fresh.acquire(LIMIT.burst).await.unwrap();
    note(LIMIT.burst, 1);
    if outliving.try_acquire(5) {
        note(5, 0);
    }
    check_bound(&log, LIMIT);
}

/// By then all shares are back that nobody uses, and that is stored.
const SETTLED: Duration = Duration::from_secs(4 * LEASE.as_secs());

/// How long it takes to get a permit from an actor that was killed.
async fn time_after_kill(node: &mut TestNode, name: &str, limit: RateLimit) -> Duration {
    node.kill().await.unwrap();
    let limiter = RateLimiter::open(&**node, name, limit).await.unwrap();
    let begun = Instant::now();
    limiter.acquire(1).await.unwrap();
    begun.elapsed()
}

#[tokio::test]
async fn after_a_kill_nobody_waits_for_shares_that_had_come_back_before() {
    let mut node = start().await;
    let limiter = open(&node).await;
    limiter.acquire(5).await.unwrap();
    node.advance(SETTLED).await;
    let time = time_after_kill(&mut node, "mails", LIMIT).await;
    assert!(time < LEASE / 2, "all that was out is back: {time:?}");
    drop(limiter);

    // Also if it was out at a kill.
    let time = time_after_kill(&mut node, "mails", LIMIT).await;
    assert!(time > LEASE, "somebody may have had a share: {time:?}");
    node.kill().await.unwrap();
    let _watching = open(&node).await;
    node.advance(SETTLED).await;
    let time = time_after_kill(&mut node, "mails", LIMIT).await;
    assert!(time < LEASE / 2, "{time:?}");
}

#[tokio::test]
async fn after_a_kill_nobody_waits_for_who_has_got_nothing() {
    let mut node = start().await;
    let slow = RateLimit { permits: 2, per: Duration::from_secs(1), burst: 20 };
    let limiter = RateLimiter::open(&*node, "slow", slow).await.unwrap();
    node.kill().await.unwrap();
    drop(limiter);
    let limiter = RateLimiter::open(&*node, "slow", slow).await.unwrap();
    let error = limiter.acquire_within(1, Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "the bucket comes back empty");
    let time = time_after_kill(&mut node, "slow", slow).await;
    assert!(time < LEASE, "as long as a permit takes to come: {time:?}");
}

#[tokio::test]
async fn callers_are_served_in_their_order_though_the_first_wants_more() {
    let node = start().await;
    let limiter = open(&node).await;
    limiter.acquire(20).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let tasks: Vec<_> = [10, 1, 1, 5]
        .into_iter()
        .enumerate()
        .map(|(number, permits)| {
            let (limiter, order) = (limiter.clone(), order.clone());
            tokio::spawn(async move {
                limiter.acquire(permits).await.unwrap();
                order.lock().push(number);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock(), [0, 1, 2, 3]);
}

#[tokio::test]
async fn who_cannot_be_served_is_told_why() {
    let node = start().await;
    let settings = LimiterSettings { waiting_max: 2, ..LimiterSettings::default() };
    let limiter = RateLimiter::open_with(&*node, "mails", LIMIT, settings).await.unwrap();
    let error = limiter.acquire(21).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("at most 20"), "{error}");
    limiter.acquire(20).await.unwrap();
    let error = limiter.acquire_within(20, Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);

    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire(20).await })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(limiter.acquire(1).await.unwrap_err().kind(), ErrorKind::Overloaded);
    assert!(!limiter.try_acquire(1), "others are before");
    node.stop().await;
    for task in waiting {
        task.await.unwrap().unwrap_err();
    }
    assert_eq!(limiter.acquire(1).await.unwrap_err().kind(), ErrorKind::Fatal);
    for bad in
        [RateLimit { permits: 0, ..LIMIT }, RateLimit { burst: 0, ..LIMIT }, RateLimit { per: Duration::ZERO, ..LIMIT }]
    {
        let node = start().await;
        assert_eq!(RateLimiter::open(&*node, "x", bad).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn a_limit_is_changed_while_it_is_used_and_stays_after_a_kill() {
    let mut node = start().await;
    let (limiter, other) = (open(&node).await, open(&node).await);
    let log = Log::default();
    let task = tokio::spawn(use_up(other.clone(), 1, 0, log.clone()));
    node.advance(Duration::from_secs(2)).await;
    let faster = RateLimit::per_second(500).with_burst(40);
    limiter.set_limit(faster).await.unwrap();
    let before = used(&log, 0);
    node.advance(Duration::from_secs(2)).await;
    let gained = used(&log, 0) - before;
    assert!((850..=1040).contains(&gained), "{gained}");
    assert_eq!(other.limit(), faster);
    task.abort();

    // Who waits for more than there can be now is told.
    let waiting = {
        let other = other.clone();
        tokio::spawn(async move { other.acquire(40).await })
    };
    tokio::task::yield_now().await;
    limiter.set_limit(LIMIT).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Invalid);
    limiter.set_limit(faster).await.unwrap();
    node.kill().await.unwrap();
    assert_eq!(open(&node).await.limit(), faster, "what it is opened with is for one that does not exist");
}

#[tokio::test]
async fn what_a_process_does_not_use_comes_back_to_the_others() {
    let node = start().await;
    let (idle, busy) = (open(&node).await, open(&node).await);
    // It looks like somebody who will want many.
    for _ in 0..10 {
        idle.try_acquire(1);
    }
    node.advance(Duration::from_millis(10)).await;
    drop(idle);
    busy.acquire_within(20, LEASE).await.unwrap();
}

#[tokio::test]
async fn permits_that_are_there_are_taken_without_waiting() {
    let node = start().await;
    let limiter = open(&node).await;
    assert!(!limiter.try_acquire(1), "nothing was fetched yet");
    node.advance(Duration::from_millis(20)).await;
    assert!(limiter.try_acquire(1));
    assert!(!limiter.try_acquire(20));
}
