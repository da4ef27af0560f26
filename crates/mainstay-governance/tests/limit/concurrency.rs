use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::limit::{ConcurrencyLimiter, LEASE, LimiterSettings, Permit};
use tokio::time::Instant;

use super::start;

const LIMIT: u64 = 10;

async fn open(node: &TestNode) -> ConcurrencyLimiter {
    ConcurrencyLimiter::open(&**node, "queries", LIMIT).await.unwrap()
}

/// How many are at it, and the most that were.
#[derive(Default)]
struct Gauge {
    now: AtomicU64,
    most: AtomicU64,
    done: AtomicU64,
}

impl Gauge {
    async fn work(&self, permits: u64, time: Duration) {
        let now = self.now.fetch_add(permits, Ordering::SeqCst) + permits;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(time).await;
        self.now.fetch_sub(permits, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn the_cap_holds_for_all_processes_together_and_all_are_served() {
    let node = start().await;
    let gauge = Arc::new(Gauge::default());
    let mut tasks = Vec::new();
    for process in 0..3_u64 {
        let limiter = open(&node).await;
        for number in 0..100_u64 {
            let (limiter, gauge) = (limiter.clone(), gauge.clone());
            let (permits, time) = (1 + number % 4, Duration::from_millis(5 + (number * 7 + process) % 40));
            tasks.push(tokio::spawn(async move {
                let _permit = limiter.acquire(permits).await.unwrap();
                gauge.work(permits, time).await;
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(gauge.done.load(Ordering::SeqCst), 300);
    let most = gauge.most.load(Ordering::SeqCst);
    assert!((LIMIT - 2..=LIMIT).contains(&most), "{most}");
}

#[tokio::test]
async fn a_process_that_is_busy_for_ever_does_not_keep_others_out() {
    let node = start().await;
    let (busy, late) = (open(&node).await, open(&node).await);
    let (gauge, late_gauge) = (Arc::new(Gauge::default()), Arc::new(Gauge::default()));
    let work = |limiter: &ConcurrencyLimiter, gauge: &Arc<Gauge>| {
        let (limiter, gauge) = (limiter.clone(), gauge.clone());
        tokio::spawn(async move {
            loop {
                let _permit = limiter.acquire(1).await.unwrap();
                gauge.work(1, Duration::from_millis(10)).await;
            }
        })
    };
    let mut tasks: Vec<_> = (0..40).map(|_| work(&busy, &gauge)).collect();
    node.advance(Duration::from_secs(1)).await;
    tasks.extend((0..40).map(|_| work(&late, &late_gauge)));
    node.advance(Duration::from_millis(500)).await;
    let before = (gauge.done.load(Ordering::SeqCst), late_gauge.done.load(Ordering::SeqCst));
    node.advance(Duration::from_secs(2)).await;
    let served = [gauge.done.load(Ordering::SeqCst) - before.0, late_gauge.done.load(Ordering::SeqCst) - before.1];
    assert!(served.iter().all(|it| (700..=1300).contains(it)), "{served:?}");
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn what_is_idle_in_one_process_is_there_for_another_and_many_at_once_are_not_passed_over() {
    let node = start().await;
    let (first, second) = (open(&node).await, open(&node).await);
    drop(first.acquire(LIMIT).await.unwrap());
    let begun = Instant::now();
    let all = second.acquire(LIMIT).await.unwrap();
    assert!(begun.elapsed() < LEASE, "{:?}", begun.elapsed());
    assert_eq!(all.permits(), LIMIT);
    assert!(first.try_acquire(1).is_none());
    let waiting = {
        let first = first.clone();
        tokio::spawn(async move { first.acquire(1).await })
    };
    node.advance(10 * LEASE).await;
    assert!(!waiting.is_finished());
    drop(all);
    let begun = Instant::now();
    drop(waiting.await.unwrap().unwrap());
    assert!(begun.elapsed() < LEASE / 2, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn what_was_out_before_a_kill_is_given_again_only_when_its_lease_has_run_out() {
    let mut node = start().await;
    let limiter = open(&node).await;
    let permit = limiter.acquire(1).await.unwrap();
    node.kill().await.unwrap();
    let begun = Instant::now();
    let fresh = open(&node).await;
    let again = fresh.acquire(LIMIT).await.unwrap();
    assert!(begun.elapsed() >= LEASE && begun.elapsed() < 2 * LEASE, "{:?}", begun.elapsed());
    assert!(permit.is_lost());
    assert!(!again.is_lost());
}

#[tokio::test]
async fn whoever_holds_a_permit_is_told_when_its_process_was_cut_off() {
    let node = start().await;
    let limiter = open(&node).await;
    let permit = limiter.acquire(1).await.unwrap();
    node.advance(10 * LEASE).await;
    assert!(!permit.is_lost());
    node.stop().await;
    let begun = Instant::now();
    permit.lost().await;
    assert!(begun.elapsed() <= LEASE);
    drop(permit);
    assert_eq!(limiter.acquire(1).await.unwrap_err().kind(), ErrorKind::Fatal);
}

/// By the clock alone: no timer comes while the process is stopped.
async fn stand_still() {
    tokio::time::advance(Duration::from_millis(2500)).await;
}

#[tokio::test]
async fn a_process_that_stood_still_gives_out_no_more_than_the_limit() {
    let node = start().await;
    let limiters = [open(&node).await, open(&node).await];
    let held = [limiters[0].acquire(5).await.unwrap(), limiters[1].acquire(5).await.unwrap()];
    stand_still().await;
    assert!(held.iter().all(Permit::is_lost), "before a timer has told anybody");
    assert!(limiters.iter().all(|limiter| limiter.try_acquire(1).is_none()));
    let more: Vec<_> = limiters
        .iter()
        .map(|limiter| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire_within(5, 10 * LEASE).await })
        })
        .collect();
    for one in more {
        assert_eq!(one.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout, "15 of 10");
    }
    assert!(held.iter().all(Permit::is_lost), "what was lost stays lost");
    drop(held);
    assert!(!limiters[1].acquire(LIMIT).await.unwrap().is_lost());
}

#[tokio::test]
async fn the_lease_is_a_setting() {
    let mut node = start().await;
    let settings = LimiterSettings { lease: 10 * LEASE, ..LimiterSettings::default() };
    let limiter = ConcurrencyLimiter::open_with(&*node, "queries", LIMIT, settings).await.unwrap();
    let permit = limiter.acquire(LIMIT).await.unwrap();
    stand_still().await;
    assert!(!permit.is_lost());
    node.advance(30 * LEASE).await;
    assert!(!permit.is_lost());
    node.kill().await.unwrap();
    let begun = Instant::now();
    let fresh = open(&node).await;
    drop(fresh.acquire(1).await.unwrap());
    assert!((10 * LEASE..14 * LEASE).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    for lease in [Duration::ZERO, Duration::MAX] {
        let settings = LimiterSettings { lease, ..LimiterSettings::default() };
        let error = ConcurrencyLimiter::open_with(&*node, "queries", LIMIT, settings).await.unwrap_err();
        assert!(error.to_string().contains("the lease of limit \"queries\" is"), "{error}");
    }
}

#[tokio::test]
async fn a_limiter_that_is_opened_again_goes_on_with_what_is_out() {
    let node = start().await;
    for _ in 0..3 {
        let limiter = open(&node).await;
        let permit = limiter.acquire(LIMIT).await.unwrap();
        drop(limiter);
        node.advance(5 * LEASE).await;
        assert!(!permit.is_lost());
        let again = open(&node).await;
        assert!(again.try_acquire(1).is_none());
        drop(permit);
        drop(again.acquire(LIMIT).await.unwrap());
        drop(again);
        node.advance(5 * LEASE).await;
    }
}

#[tokio::test]
async fn a_limit_is_changed_while_it_is_used() {
    let mut node = start().await;
    let limiter = open(&node).await;
    let permits: Vec<_> = [limiter.acquire(5).await.unwrap(), limiter.acquire(5).await.unwrap()].into();
    let waiting = {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire(5).await.unwrap() })
    };
    node.advance(LEASE).await;
    assert!(!waiting.is_finished());
    limiter.set_limit(15).await.unwrap();
    let third = waiting.await.unwrap();
    limiter.set_limit(4).await.unwrap();
    assert_eq!(limiter.acquire(5).await.unwrap_err().kind(), ErrorKind::Invalid);
    drop((permits, third));
    let four = limiter.acquire(4).await.unwrap();
    assert_eq!(limiter.acquire_within(1, 3 * LEASE).await.unwrap_err().kind(), ErrorKind::Timeout);
    drop(four);
    node.restart().await.unwrap();
    assert_eq!(open(&node).await.limit(), 4);
}

#[tokio::test]
async fn who_goes_away_while_waiting_leaves_nothing_behind_and_bounds_hold() {
    let node = start().await;
    let settings = LimiterSettings { waiting_max: 1, ..LimiterSettings::default() };
    let limiter = ConcurrencyLimiter::open_with(&*node, "queries", LIMIT, settings).await.unwrap();
    let all = limiter.acquire(LIMIT).await.unwrap();
    limiter.acquire_within(1, Duration::from_millis(5)).await.unwrap_err();
    let waiting = {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire(1).await })
    };
    tokio::task::yield_now().await;
    assert_eq!(limiter.acquire(1).await.unwrap_err().kind(), ErrorKind::Overloaded);
    waiting.abort();
    node.advance(Duration::from_millis(1)).await;
    drop(all);
    let all = limiter.acquire(LIMIT).await.unwrap();
    drop(all);
    let other = open(&node).await;
    drop(limiter);
    drop(other.acquire(LIMIT).await.unwrap());
    assert_eq!(ConcurrencyLimiter::open(&*node, "none", 0).await.unwrap_err().kind(), ErrorKind::Invalid);
}
