use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use mainstay_core::task;
use mainstay_core::time::Duration;
use tokio::task::yield_now;

use super::*;

mod property;

const IDLE: Duration = Duration::from_secs(10);

/// An instance that is counted while it lives.
struct Counted {
    number: usize,
    alive: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A pool, and the count of its live instances.
fn pool(min: usize, max: usize, waiting_max: usize) -> (Arc<InstancePool<Counted>>, Arc<AtomicUsize>) {
    let (alive, made) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let counted = alive.clone();
    let make = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Counted { number: made.fetch_add(1, Ordering::SeqCst), alive: counted.clone() }
    };
    let options = PoolOptions { min, max, waiting_max, idle_time: IDLE };
    (InstancePool::start("Tester", options, make).unwrap(), alive)
}

type Acquiring = Pin<Box<dyn Future<Output = Result<WorkerLease<Counted>>> + Send>>;

fn acquiring(pool: &Arc<InstancePool<Counted>>) -> Acquiring {
    let pool = pool.clone();
    Box::pin(async move { acquired(&pool).await })
}

async fn acquired<T: Send + 'static>(pool: &Arc<InstancePool<T>>) -> Result<WorkerLease<T>> {
    match pool.acquire()? {
        LeaseAttempt::Leased(lease) => Ok(lease),
        LeaseAttempt::Queued(waiter) => waiter.wait().await,
    }
}

fn poll(acquiring: &mut Acquiring) -> Poll<Result<WorkerLease<Counted>>> {
    acquiring.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// A lease that is free at once, with the number of its instance.
fn take(pool: &Arc<InstancePool<Counted>>) -> (WorkerLease<Counted>, usize) {
    let Poll::Ready(lease) = poll(&mut acquiring(pool)) else { panic!("no lease is free") };
    let mut lease = lease.unwrap();
    let number = lease.begin().unwrap().number;
    (lease, number)
}

fn counts(pool: &InstancePool<Counted>) -> (usize, usize, usize) {
    let PoolCounts { idle, working, waiting } = pool.counts();
    (idle, working, waiting)
}

#[tokio::test]
async fn the_pool_grows_from_min_to_max_and_not_beyond() {
    let (pool, alive) = pool(2, 4, 8);
    assert_eq!((counts(&pool), alive.load(Ordering::SeqCst)), ((2, 0, 0), 2));
    let leases: Vec<_> = (0..4).map(|_| take(&pool)).collect();
    let mut numbers: Vec<_> = leases.iter().map(|(_, number)| *number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3]);
    let mut waits = acquiring(&pool);
    assert!(poll(&mut waits).is_pending());
    assert_eq!((counts(&pool), alive.load(Ordering::SeqCst)), ((0, 4, 1), 4));
}

#[tokio::test]
async fn idle_instances_are_reused() {
    let (pool, alive) = pool(0, 4, 8);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    for _ in 0..3 {
        let (lease, number) = take(&pool);
        assert_eq!(number, 0);
        lease.end();
    }
    assert_eq!((counts(&pool), alive.load(Ordering::SeqCst)), ((1, 0, 0), 1));
}

#[tokio::test(start_paused = true)]
async fn idle_instances_above_min_are_dropped_after_idle_time() {
    let (pool, alive) = pool(1, 4, 8);
    let reaper = task::spawn(pool.clone().run_reaper());
    yield_now().await;
    let leases: Vec<_> = (0..4).map(|_| take(&pool).0).collect();
    for lease in leases {
        lease.end();
        time::sleep(IDLE / 10).await;
    }
    time::sleep(IDLE / 2).await;
    assert_eq!(counts(&pool), (4, 0, 0), "nothing was idle for so long");
    // The instance at the back is reused, so that the others expire.
    let (lease, _) = take(&pool);
    time::sleep(IDLE).await;
    assert_eq!((counts(&pool), alive.load(Ordering::SeqCst)), ((0, 1, 0), 1));
    let (second, _) = take(&pool);
    lease.end();
    second.end();
    time::sleep(IDLE * 2).await;
    assert_eq!((counts(&pool), alive.load(Ordering::SeqCst)), ((1, 0, 0), 1), "and after it has grown again");
    time::sleep(IDLE * 10).await;
    assert_eq!(counts(&pool), (1, 0, 0), "the minimum stays");
    pool.close();
    reaper.await.unwrap();
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn queued_calls_are_served_first_come_first_served() {
    let (pool, _) = pool(0, 1, 8);
    let (mut lease, _) = take(&pool);
    let mut waiting: Vec<_> = (0..5).map(|_| acquiring(&pool)).collect();
    waiting.iter_mut().for_each(|waiting| assert!(poll(waiting).is_pending()));
    while !waiting.is_empty() {
        lease.end();
        let mut late = acquiring(&pool);
        assert!(poll(&mut late).is_pending(), "it came last");
        drop(late);
        for later in waiting.iter_mut().skip(1) {
            assert!(poll(later).is_pending());
        }
        let Poll::Ready(Ok(next)) = poll(&mut waiting.remove(0)) else { panic!("it was its turn") };
        lease = next;
        assert_eq!(lease.begin().unwrap().number, 0);
    }
}

#[tokio::test]
async fn a_full_queue_refuses_calls_until_a_waiter_is_dropped() {
    let (pool, _) = pool(0, 1, 2);
    let (_lease, _) = take(&pool);
    let (mut first, mut second) = (acquiring(&pool), acquiring(&pool));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    let error = acquired(&pool).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    assert!(error.to_string().contains("worker Tester has 1 instances (`max`)"), "{error}");
    drop(first);
    assert!(poll(&mut acquiring(&pool)).is_pending());
    assert_eq!(counts(&pool), (0, 1, 1));
}

#[tokio::test]
async fn an_unfinished_call_loses_its_instance_and_not_its_lease() {
    let (pool, alive) = pool(0, 1, 8);
    let (lease, _) = take(&pool);
    let mut waiting = acquiring(&pool);
    assert!(poll(&mut waiting).is_pending());
    drop(lease);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    let Poll::Ready(Ok(mut lease)) = poll(&mut waiting) else { panic!("the lease is free") };
    assert_eq!(lease.begin().unwrap().number, 1, "a new one");
    drop(lease);
    assert_eq!((counts(&pool), alive.load(Ordering::SeqCst)), ((0, 0, 0), 0));
    drop(poll(&mut acquiring(&pool)));
    assert_eq!(counts(&pool), (0, 0, 0), "a lease that was not used either");
}

#[tokio::test]
async fn a_lease_for_a_dropped_waiter_goes_to_the_next() {
    let (pool, _) = pool(0, 1, 8);
    let (lease, _) = take(&pool);
    let (mut first, mut second) = (acquiring(&pool), acquiring(&pool));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    lease.end();
    drop(first);
    let Poll::Ready(Ok(mut lease)) = poll(&mut second) else { panic!("the lease is free") };
    assert_eq!(lease.begin().unwrap().number, 0);
}

#[tokio::test]
async fn closing_refuses_queued_and_new_calls_and_drops_idle_instances() {
    let (pool, alive) = pool(2, 2, 8);
    let ((one, _), (two, _)) = (take(&pool), take(&pool));
    let mut waiting = acquiring(&pool);
    assert!(poll(&mut waiting).is_pending());
    two.end();
    let Poll::Ready(Ok(two)) = poll(&mut waiting) else { panic!("the lease is free") };
    let mut waiting = acquiring(&pool);
    assert!(poll(&mut waiting).is_pending());
    drop(two);
    let Poll::Ready(Ok(two)) = poll(&mut waiting) else { panic!("the lease is free") };
    drop(two);
    let mut waiting: Vec<_> = (0..2).map(|_| acquiring(&pool)).collect();
    let _ready: Vec<_> = waiting.iter_mut().map(poll).collect();
    pool.close();
    for refused in [acquired(&pool).await, waiting.remove(1).await] {
        assert_eq!(refused.map(|_| ()).unwrap_err().kind(), ErrorKind::Fatal);
    }
    one.end();
    drop(_ready);
    assert_eq!((counts(&pool), alive.load(Ordering::SeqCst)), ((0, 0, 0), 0));
    pool.run_reaper().await;
}

#[test]
fn invalid_bounds_and_panicking_constructors_are_refused() {
    let start =
        |min, max| InstancePool::start("Tester", PoolOptions { min, max, ..PoolOptions::default() }, || ()).map(|_| ());
    assert_eq!(start(0, 0).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(start(3, 2).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(start(2, 2).is_ok());
    let error =
        InstancePool::<()>::start("Tester", PoolOptions::default(), || panic!("no room")).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
}

/// Counts the calls that hold the instance at the same time.
struct Reentrancy(AtomicUsize);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_instance_has_two_calls_at_once() {
    let pool = InstancePool::start("Tester", PoolOptions { min: 0, max: 3, ..PoolOptions::default() }, || {
        Reentrancy(AtomicUsize::new(0))
    });
    let pool = pool.unwrap();
    let callers = (0..8).map(|caller| {
        let pool = pool.clone();
        task::spawn(async move {
            for round in 0..200 {
                let mut acquiring = Box::pin(acquired(&pool));
                // Some callers give up in the queue, some once they have a lease, some in the middle of the call.
                let polled = std::future::poll_fn(|cx| Poll::Ready(acquiring.as_mut().poll(cx))).await;
                if (caller + round) % 3 == 0 {
                    continue;
                }
                let mut lease = match polled {
                    Poll::Ready(lease) => lease.unwrap(),
                    Poll::Pending => acquiring.await.unwrap(),
                };
                if (caller + round) % 5 == 0 {
                    continue;
                }
                let instance = lease.begin().unwrap();
                assert_eq!(instance.0.fetch_add(1, Ordering::SeqCst), 0);
                yield_now().await;
                assert_eq!(instance.0.fetch_sub(1, Ordering::SeqCst), 1);
                if (caller + round) % 7 != 0 {
                    lease.end();
                }
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let PoolCounts { idle, working, waiting } = pool.counts();
    assert!(idle <= 3 && (working, waiting) == (0, 0), "{idle} {working} {waiting}");
}
