//! On several threads and in real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mainstay::prelude::*;
use mainstay_governance::limit::{self, ConcurrencyLimiter, RateLimit, RateLimiter};
use parking_lot::Mutex;
use tokio::time::Instant;

const LIMIT: u64 = 5;

async fn start(folder: &tempfile::TempDir) -> Node {
    limit::serve(Node::builder().isolated().data_dir(folder.path())).start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_cap_holds_on_several_threads_and_everybody_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(&folder).await;
    let out = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let limiter = ConcurrencyLimiter::open(&node, "q", LIMIT).await.unwrap();
        for number in 0..300 {
            let (limiter, out) = (limiter.clone(), out.clone());
            tasks.push(tokio::spawn(async move {
                let permits = 1 + number % 3;
                let permit = limiter.acquire(permits).await.unwrap();
                let now = out.fetch_add(permits, Ordering::SeqCst) + permits;
                assert!(now <= LIMIT, "{now}");
                tokio::task::yield_now().await;
                out.fetch_sub(permits, Ordering::SeqCst);
                drop(permit);
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_rate_holds_on_several_threads() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(&folder).await;
    let limit = RateLimit::per_second(2000).with_burst(100);
    let used = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let limiter = RateLimiter::open(&node, "r", limit).await.unwrap();
        for _ in 0..10 {
            let (limiter, used) = (limiter.clone(), used.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..40 {
                    // Taken before the permit is asked for and after it is had: it was used in between.
                    let before = Instant::now();
                    limiter.acquire(1).await.unwrap();
                    used.lock().push((before, Instant::now()));
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut used = used.lock().clone();
    used.sort_by_key(|(_, after)| *after);
    // Those that were surely used within a window are not more than it may have.
    for (from, _) in &used {
        let mut count = 0;
        for (_, after) in used.iter().filter(|(before, _)| before >= from) {
            count += 1;
            let bound = limit.burst as f64 + limit.permits as f64 * after.duration_since(*from).as_secs_f64();
            assert!(f64::from(count) <= bound + 1e-6, "{count} in {:?}", after.duration_since(*from));
        }
    }
    node.stop().await;
}
