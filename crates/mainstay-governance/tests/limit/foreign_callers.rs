//! Callers on other runtimes and on none, and callers that never have to wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mainstay::prelude::*;
use mainstay_governance::limit::{self, ConcurrencyLimiter, RateLimit, RateLimiter};

use crate::foreign::Caller;
use crate::start;

/// Longer than anything here takes on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);

const LIMIT: u64 = 5;

async fn node(folder: &tempfile::TempDir) -> Node {
    limit::serve(Node::builder().isolated().data_dir(folder.path())).start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_concurrency_limit_that_a_foreign_caller_has_opened_serves_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(&folder).await;
    for caller in Caller::ALL {
        let (there, name) = (node.clone(), format!("{caller:?}"));
        let _opened = caller.run(async move {
            let limiter = ConcurrencyLimiter::open(&there, &name, LIMIT).await.unwrap();
            drop(limiter.acquire(1).await.unwrap());
            let refused = limiter.acquire_within(LIMIT + 1, PATIENCE).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid);
            let all = limiter.acquire(LIMIT).await.unwrap();
            let late = limiter.acquire_within(1, Duration::from_millis(10)).await.unwrap_err();
            assert_eq!(late.kind(), ErrorKind::Timeout);
            drop(all);
            limiter
        });
        let limiter = ConcurrencyLimiter::open(&node, &format!("{caller:?}"), LIMIT).await.unwrap();
        for _ in 0..3 {
            // Longer than a lease, so that the share has to be renewed.
            tokio::time::sleep(limit::LEASE / 2).await;
            let permit = limiter.acquire_within(LIMIT, PATIENCE).await;
            drop(permit.unwrap_or_else(|error| panic!("opened by a caller {caller:?}: {error}")));
        }
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_that_a_foreign_caller_has_opened_is_given_on() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(&folder).await;
    for caller in Caller::ALL {
        let (there, name) = (node.clone(), format!("{caller:?}"));
        let limiter = caller.run(async move {
            let limiter = RateLimiter::open(&there, &name, RateLimit::per_second(100).with_burst(1)).await.unwrap();
            limiter.acquire(1).await.unwrap();
            limiter
        });
        for _ in 0..3 {
            let acquired = limiter.acquire_within(1, PATIENCE).await;
            acquired.unwrap_or_else(|error| panic!("opened by a caller {caller:?}: {error}"));
        }
        // Where there is no runtime either.
        std::thread::spawn(move || drop(limiter)).join().unwrap();
    }
    node.stop().await;
}

/// How often the other task wants to run.
const TURNS_MAX: u64 = 1000;

/// Counts how often another task has its turn meanwhile, on one thread: so many times at most, because virtual time does not pass
/// while there is something to do.
async fn turns_of_others(work: impl AsyncFn()) -> u64 {
    let turns = Arc::new(AtomicU64::new(0));
    let others = tokio::spawn({
        let turns = turns.clone();
        async move {
            for _ in 0..TURNS_MAX {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    for _ in 0..10_000 {
        work().await;
    }
    others.abort();
    turns.load(Ordering::Relaxed)
}

#[tokio::test]
async fn callers_that_never_have_to_wait_let_others_run() {
    let node = start().await;
    let limiter = ConcurrencyLimiter::open(&*node, "q", LIMIT).await.unwrap();
    drop(limiter.acquire(LIMIT).await.unwrap());
    let turns = turns_of_others(async || drop(limiter.acquire(1).await.unwrap())).await;
    assert!(turns > 10, "{turns}");
    let limiter = RateLimiter::open(&*node, "r", RateLimit::per_second(1_000_000)).await.unwrap();
    limiter.acquire(1).await.unwrap();
    let turns = turns_of_others(async || limiter.acquire(1).await.unwrap()).await;
    assert!(turns > 10, "{turns}");
}
