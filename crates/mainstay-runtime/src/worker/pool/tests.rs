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

/// A pool, and how many instances of it are alive.
fn pool(min: usize, max: usize, waiting_max: usize) -> (Arc<Pool<Counted>>, Arc<AtomicUsize>) {
    let (alive, made) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let counted = alive.clone();
    let make = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Counted { number: made.fetch_add(1, Ordering::SeqCst), alive: counted.clone() }
    };
    let options = PoolOptions { min, max, waiting_max, idle_time: IDLE };
    (Pool::start("Tester", options, make).unwrap(), alive)
}

type Taking = Pin<Box<dyn Future<Output = Result<Place<Counted>>> + Send>>;

fn taking(pool: &Arc<Pool<Counted>>) -> Taking {
    let pool = pool.clone();
    Box::pin(async move { claimed(&pool).await })
}

async fn claimed<T: Send + 'static>(pool: &Arc<Pool<T>>) -> Result<Place<T>> {
    match pool.claim()? {
        Claim::Place(place) => Ok(place),
        Claim::Waiter(waiter) => waiter.wait().await,
    }
}

fn poll(taking: &mut Taking) -> Poll<Result<Place<Counted>>> {
    taking.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// A place that is to be had at once, with the number of its instance.
fn take(pool: &Arc<Pool<Counted>>) -> (Place<Counted>, usize) {
    let Poll::Ready(place) = poll(&mut taking(pool)) else { panic!("no place is free") };
    let mut place = place.unwrap();
    let number = place.begin().unwrap().number;
    (place, number)
}

fn headcount(pool: &Pool<Counted>) -> (usize, usize, usize) {
    let Headcount { idle, working, waiting } = pool.headcount();
    (idle, working, waiting)
}

#[tokio::test]
async fn it_starts_with_the_minimum_and_grows_to_the_maximum_under_load_and_not_beyond() {
    let (pool, alive) = pool(2, 4, 8);
    assert_eq!((headcount(&pool), alive.load(Ordering::SeqCst)), ((2, 0, 0), 2));
    let places: Vec<_> = (0..4).map(|_| take(&pool)).collect();
    let mut numbers: Vec<_> = places.iter().map(|(_, number)| *number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3]);
    let mut waits = taking(&pool);
    assert!(poll(&mut waits).is_pending());
    assert_eq!((headcount(&pool), alive.load(Ordering::SeqCst)), ((0, 4, 1), 4));
}

#[tokio::test]
async fn an_instance_is_used_again_rather_than_a_new_one_made() {
    let (pool, alive) = pool(0, 4, 8);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    for _ in 0..3 {
        let (place, number) = take(&pool);
        assert_eq!(number, 0);
        place.end();
    }
    assert_eq!((headcount(&pool), alive.load(Ordering::SeqCst)), ((1, 0, 0), 1));
}

#[tokio::test(start_paused = true)]
async fn it_shrinks_to_the_minimum_when_instances_have_been_idle_for_too_long() {
    let (pool, alive) = pool(1, 4, 8);
    let tender = task::spawn(pool.clone().tend());
    yield_now().await;
    let places: Vec<_> = (0..4).map(|_| take(&pool).0).collect();
    for place in places {
        place.end();
        time::sleep(IDLE / 10).await;
    }
    time::sleep(IDLE / 2).await;
    assert_eq!(headcount(&pool), (4, 0, 0), "nothing was idle for so long");
    // The same one works again and again, and the others get old.
    let (place, _) = take(&pool);
    time::sleep(IDLE).await;
    assert_eq!((headcount(&pool), alive.load(Ordering::SeqCst)), ((0, 1, 0), 1));
    let (second, _) = take(&pool);
    place.end();
    second.end();
    time::sleep(IDLE * 2).await;
    assert_eq!((headcount(&pool), alive.load(Ordering::SeqCst)), ((1, 0, 0), 1), "and after it has grown again");
    time::sleep(IDLE * 10).await;
    assert_eq!(headcount(&pool), (1, 0, 0), "the minimum stays");
    pool.close();
    tender.await.unwrap();
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn who_waits_is_served_in_the_order_of_arrival_and_is_not_overtaken() {
    let (pool, _) = pool(0, 1, 8);
    let (mut place, _) = take(&pool);
    let mut waiting: Vec<_> = (0..5).map(|_| taking(&pool)).collect();
    waiting.iter_mut().for_each(|waiting| assert!(poll(waiting).is_pending()));
    while !waiting.is_empty() {
        place.end();
        let mut late = taking(&pool);
        assert!(poll(&mut late).is_pending(), "it came last");
        drop(late);
        for later in waiting.iter_mut().skip(1) {
            assert!(poll(later).is_pending());
        }
        let Poll::Ready(Ok(next)) = poll(&mut waiting.remove(0)) else { panic!("it was its turn") };
        place = next;
        assert_eq!(place.begin().unwrap().number, 0);
    }
}

#[tokio::test]
async fn beyond_the_bound_calls_are_refused_and_a_caller_that_goes_away_makes_room() {
    let (pool, _) = pool(0, 1, 2);
    let (_place, _) = take(&pool);
    let (mut first, mut second) = (taking(&pool), taking(&pool));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    let error = claimed(&pool).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    assert!(error.to_string().contains("worker Tester has 1 instances (`max`)"), "{error}");
    drop(first);
    assert!(poll(&mut taking(&pool)).is_pending());
    assert_eq!(headcount(&pool), (0, 1, 1));
}

#[tokio::test]
async fn an_instance_that_a_call_did_not_finish_with_is_lost_and_its_place_is_not() {
    let (pool, alive) = pool(0, 1, 8);
    let (place, _) = take(&pool);
    let mut waiting = taking(&pool);
    assert!(poll(&mut waiting).is_pending());
    drop(place);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    let Poll::Ready(Ok(mut place)) = poll(&mut waiting) else { panic!("the place is free") };
    assert_eq!(place.begin().unwrap().number, 1, "a new one");
    drop(place);
    assert_eq!((headcount(&pool), alive.load(Ordering::SeqCst)), ((0, 0, 0), 0));
    drop(poll(&mut taking(&pool)));
    assert_eq!(headcount(&pool), (0, 0, 0), "a place that was not used either");
}

#[tokio::test]
async fn a_place_that_comes_when_its_caller_has_gone_goes_to_the_next() {
    let (pool, _) = pool(0, 1, 8);
    let (place, _) = take(&pool);
    let (mut first, mut second) = (taking(&pool), taking(&pool));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    place.end();
    drop(first);
    let Poll::Ready(Ok(mut place)) = poll(&mut second) else { panic!("the place is free") };
    assert_eq!(place.begin().unwrap().number, 0);
}

#[tokio::test]
async fn closing_refuses_who_waits_and_who_comes_and_drops_what_is_idle() {
    let (pool, alive) = pool(2, 2, 8);
    let ((one, _), (two, _)) = (take(&pool), take(&pool));
    let mut waiting = taking(&pool);
    assert!(poll(&mut waiting).is_pending());
    two.end();
    let Poll::Ready(Ok(two)) = poll(&mut waiting) else { panic!("the place is free") };
    let mut waiting = taking(&pool);
    assert!(poll(&mut waiting).is_pending());
    drop(two);
    let Poll::Ready(Ok(two)) = poll(&mut waiting) else { panic!("the place is free") };
    drop(two);
    let mut waiting: Vec<_> = (0..2).map(|_| taking(&pool)).collect();
    let _ready: Vec<_> = waiting.iter_mut().map(poll).collect();
    pool.close();
    for refused in [claimed(&pool).await, waiting.remove(1).await] {
        assert_eq!(refused.map(|_| ()).unwrap_err().kind(), ErrorKind::Fatal);
    }
    one.end();
    drop(_ready);
    assert_eq!((headcount(&pool), alive.load(Ordering::SeqCst)), ((0, 0, 0), 0));
    pool.tend().await;
}

#[test]
fn bounds_that_cannot_be_and_a_worker_that_cannot_be_made_are_refused() {
    let start = |min, max| Pool::start("Tester", PoolOptions { min, max, ..PoolOptions::default() }, || ()).map(|_| ());
    assert_eq!(start(0, 0).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(start(3, 2).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(start(2, 2).is_ok());
    let error = Pool::<()>::start("Tester", PoolOptions::default(), || panic!("no room")).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
}

/// Says how many calls are in it at once.
struct Alone(AtomicUsize);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_instance_has_two_calls_at_once_while_callers_come_and_go() {
    let pool =
        Pool::start("Tester", PoolOptions { min: 0, max: 3, ..PoolOptions::default() }, || Alone(AtomicUsize::new(0)));
    let pool = pool.unwrap();
    let callers = (0..8).map(|caller| {
        let pool = pool.clone();
        task::spawn(async move {
            for round in 0..200 {
                let mut taking = Box::pin(claimed(&pool));
                // Some ask and go away, some go away when they have a place, some in the middle of the work.
                let polled = std::future::poll_fn(|cx| Poll::Ready(taking.as_mut().poll(cx))).await;
                if (caller + round) % 3 == 0 {
                    continue;
                }
                let mut place = match polled {
                    Poll::Ready(place) => place.unwrap(),
                    Poll::Pending => taking.await.unwrap(),
                };
                if (caller + round) % 5 == 0 {
                    continue;
                }
                let instance = place.begin().unwrap();
                assert_eq!(instance.0.fetch_add(1, Ordering::SeqCst), 0);
                yield_now().await;
                assert_eq!(instance.0.fetch_sub(1, Ordering::SeqCst), 1);
                if (caller + round) % 7 != 0 {
                    place.end();
                }
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let Headcount { idle, working, waiting } = pool.headcount();
    assert!(idle <= 3 && (working, waiting) == (0, 0), "{idle} {working} {waiting}");
}
