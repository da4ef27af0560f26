use std::sync::Arc;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay_governance::pool::{
    Coordination, LeaseSettings, PoolCoordinator, PoolMember, PoolSettings, PoolStatus, Priority,
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::fake::{Fake, Job, World, until};
use crate::{Pool, of_size, open, start_pool};

/// More than a lease lasts.
const LONG: Duration = Duration::from_secs(15);

fn leased(size: u32) -> PoolSettings {
    let leases = LeaseSettings { waiting_max: 50, ..LeaseSettings::default() };
    PoolSettings { coordination: Coordination::Server, leases, ..of_size(size) }
}

/// Waits until a pool is as it should be.
async fn until_status(pool: &Pool, is_so: impl Fn(&PoolStatus) -> bool) {
    for _ in 0..100_000 {
        if is_so(&pool.status().await.unwrap()) {
            return;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("it was never so: {:?}", pool.status().await);
}

/// A caller that takes a lease, notes its name, and gives it back. Has asked by the time that this returns.
async fn ask(pool: &Pool, name: &'static str, order: &Arc<Mutex<Vec<&'static str>>>) -> JoinHandle<()> {
    let (asking, order) = (pool.clone(), order.clone());
    let before = pool.status().await.unwrap().waiting;
    let caller = tokio::spawn(async move {
        let lease = asking.lease().await.unwrap();
        order.lock().push(name);
        lease.run(Job::Note(0)).await.unwrap();
    });
    until_status(pool, |status| status.waiting != before).await;
    caller
}

#[tokio::test]
async fn jobs_of_many_callers_share_the_members_and_each_is_done_once() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, leased(3)).await;
    world.cap(3);
    let jobs: Vec<_> = (0..40)
        .map(|number| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.run(Job::Slowly(number, Duration::from_millis(5))).await })
        })
        .collect();
    for (number, job) in (0..40).zip(jobs) {
        assert_eq!(job.await.unwrap().unwrap(), number);
    }
    assert_eq!((world.peak(), world.done().len()), (3, 40));
    until_status(&pool, |status| status.leased == 0).await;
    let error = pool.run_by_key("alice", Job::Note(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    world.assert_sane();
}

#[tokio::test]
async fn a_lease_is_for_one_alone_and_lasts_as_long_as_it_is_held() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, leased(1)).await;
    let lease = pool.lease().await.unwrap();
    lease.run(Job::Note(1)).await.unwrap();
    let error = pool.with_timeout(LONG * 10).run(Job::Note(2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(lease.is_held());
    lease.run(Job::Note(3)).await.unwrap();
    assert_eq!((lease.index(), pool.status().await.unwrap().leased), (0, 1));
    drop(lease);
    pool.run(Job::Note(4)).await.unwrap();
    assert_eq!(world.numbers(), [1, 3, 4]);
}

#[tokio::test]
async fn who_asks_first_is_served_first() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, leased(1)).await;
    let (lease, order) = (pool.lease().await.unwrap(), Arc::default());
    let mut callers = Vec::new();
    for name in ["a", "b", "c", "d"] {
        callers.push(ask(&pool, name, &order).await);
    }
    drop(lease);
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(*order.lock(), ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn the_more_urgent_are_served_first_but_not_for_ever() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, leased(1)).await;
    let (lease, order) = (pool.lease().await.unwrap(), Arc::default());
    let (low, high) = (pool.with_priority(Priority::LOW), pool.with_priority(Priority::HIGH));
    let mut callers = vec![ask(&low, "low", &order).await, ask(&pool, "normal", &order).await];
    callers.push(ask(&high, "high", &order).await);
    // Two levels of priority are worth two ageings, of 5 s each.
    sleep(Duration::from_secs(11)).await;
    callers.push(ask(&high, "high, but late", &order).await);
    drop(lease);
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(*order.lock(), ["high", "normal", "low", "high, but late"]);
}

#[tokio::test]
async fn a_line_that_is_full_refuses_and_who_has_left_it_makes_room() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, leased(1)).await;
    let lease = pool.lease().await.unwrap();
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let pool = pool.with_timeout(LONG);
            tokio::spawn(async move { pool.run(Job::Note(1)).await })
        })
        .collect();
    until_status(&pool, |status| status.waiting >= 50).await;
    let error = pool.lease().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    assert!(error.to_string().contains("waiting_max of 50 callers wait"), "{error}");
    for caller in waiting {
        assert_eq!(caller.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    }
    assert_eq!(pool.status().await.unwrap().waiting, 0);
    drop(lease);
    pool.run(Job::Note(2)).await.unwrap();
    assert_eq!(world.numbers(), [2]);
}

#[tokio::test]
async fn who_stops_waiting_gives_up_the_place_in_line_at_once() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, leased(1)).await;
    let (lease, order) = (pool.lease().await.unwrap(), Arc::default());
    let patient = pool.with_timeout(LONG * 100);
    let mut callers = Vec::new();
    for _ in 0..49 {
        callers.push(ask(&patient, "gone", &order).await);
    }
    let last = ask(&patient, "last", &order).await;
    let begun = Instant::now();
    callers.iter().for_each(JoinHandle::abort);
    while pool.status().await.unwrap().waiting > 1 {
        assert!(begun.elapsed() < LONG, "their places are taken until their deadline");
        sleep(Duration::from_millis(1)).await;
    }
    drop(lease);
    last.await.unwrap();
    assert_eq!(*order.lock(), ["last"]);
}

#[tokio::test]
async fn a_lease_that_was_granted_to_one_who_has_gone_away_is_given_back() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, leased(1)).await;
    let lease = pool.lease().await.unwrap();
    let gone = tokio::spawn({
        let pool = pool.clone();
        async move { pool.lease().await.map(drop) }
    });
    until_status(&pool, |status| status.waiting > 0).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    drop(lease);
    pool.with_timeout(Duration::from_secs(1)).run(Job::Note(1)).await.unwrap();
}

#[tokio::test]
async fn a_lease_goes_on_when_the_coordinator_was_restarted() {
    let world = World::default();
    let (node, pool) = start_pool(&world, leased(1)).await;
    let lease = pool.lease().await.unwrap();
    lease.run(Job::Begin).await.unwrap();
    lease.run(Job::Note(1)).await.unwrap();
    for _ in 0..3 {
        node.deactivate_actor::<PoolCoordinator<Fake>>("db").await.unwrap();
        let error = pool.with_timeout(LONG * 3).run(Job::Note(2)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
        assert!(lease.is_held());
        lease.run(Job::Note(3)).await.unwrap();
    }
    lease.run(Job::Commit).await.unwrap();
    drop(lease);
    pool.run(Job::Note(4)).await.unwrap();
    assert_eq!(world.numbers(), [1, 3, 3, 3, 4]);
    world.assert_sane();
}

#[tokio::test]
async fn what_a_holder_has_begun_is_not_found_by_the_next() {
    let world = World::default();
    let (node, pool) = start_pool(&world, leased(1)).await;
    for (round, is_restarted) in [(0, false), (10, true)] {
        let first = pool.lease().await.unwrap();
        first.run(Job::Begin).await.unwrap();
        first.run(Job::Note(round + 1)).await.unwrap();
        if is_restarted {
            node.deactivate_actor::<PoolCoordinator<Fake>>("db").await.unwrap();
        }
        drop(first);
        let second = pool.lease().await.unwrap();
        second.run(Job::Note(round + 2)).await.unwrap();
        // Whatever comes later, it is not undone with what the first has left.
        second.run(Job::Break).await.unwrap_err();
        drop(second);
        pool.run(Job::Note(round + 3)).await.unwrap();
    }
    assert_eq!(world.numbers(), [2, 3, 12, 13]);
    world.assert_sane();
}

#[tokio::test]
async fn a_resource_that_can_be_reset_stays_open_from_lease_to_lease() {
    let world = World::default();
    world.set_resettable();
    let (_node, pool) = start_pool(&world, leased(1)).await;
    for number in 0..5 {
        let lease = pool.lease().await.unwrap();
        lease.run(Job::Begin).await.unwrap();
        lease.run(Job::Note(100 + number)).await.unwrap();
        drop(lease);
        pool.run(Job::Note(number)).await.unwrap();
    }
    assert_eq!(world.tokens("db/0").len(), 1);
    assert_eq!(world.numbers(), [0, 1, 2, 3, 4]);
    world.assert_sane();
}

#[tokio::test]
async fn a_member_that_was_restarted_asks_whose_lease_it_is() {
    let world = World::default();
    let (node, pool) = start_pool(&world, leased(1)).await;
    let lease = pool.lease().await.unwrap();
    node.deactivate_actor::<PoolMember<Fake>>("db/0").await.unwrap();
    lease.run(Job::Note(1)).await.unwrap();
    assert_eq!(world.numbers(), [1]);
    world.assert_sane();
}

#[tokio::test]
async fn a_lease_whose_resource_was_closed_in_between_says_so_instead_of_going_on_elsewhere() {
    let world = World::default();
    let (node, pool) = start_pool(&world, leased(1)).await;
    let lease = pool.lease().await.unwrap();
    lease.run(Job::Begin).await.unwrap();
    lease.run(Job::Note(1)).await.unwrap();
    node.deactivate_actor::<PoolMember<Fake>>("db/0").await.unwrap();
    for job in [Job::Note(2), Job::Commit] {
        let error = lease.run(job).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retry);
        assert!(error.to_string().contains("was closed since the last job of this lease"), "{error}");
    }
    drop(lease);
    pool.run(Job::Note(3)).await.unwrap();
    assert_eq!(world.numbers(), [3]);
}

#[tokio::test]
async fn a_member_that_is_to_go_is_left_to_its_holder_until_the_lease_ends() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, leased(2)).await;
    let leases = [pool.lease().await.unwrap(), pool.lease().await.unwrap()];
    for lease in &leases {
        lease.run(Job::Note(1)).await.unwrap();
    }
    let resizing = tokio::spawn({
        let pool = pool.clone();
        async move { pool.resize(1).await }
    });
    sleep(Duration::from_secs(1)).await;
    assert!(!resizing.is_finished());
    let last = leases.into_iter().find(|lease| lease.index() == 1).unwrap();
    last.run(Job::Note(2)).await.unwrap();
    drop(last);
    resizing.await.unwrap().unwrap();
    world.cap(1);
    pool.run(Job::Note(3)).await.unwrap();
    assert_eq!(world.open(), ["db/0"]);
    world.assert_sane();
}

#[tokio::test]
async fn a_holder_that_does_not_let_go_cannot_keep_a_member_from_going() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, leased(2)).await;
    let leases = [pool.lease().await.unwrap(), pool.lease().await.unwrap()];
    pool.resize(1).await.unwrap();
    let held: Vec<_> = leases.iter().map(|lease| (lease.index(), lease.is_held())).collect();
    assert!(held.contains(&(0, true)), "{held:?}");
    let gone = leases.iter().find(|lease| lease.index() == 1).unwrap();
    assert_eq!(gone.run(Job::Note(1)).await.unwrap_err().kind(), ErrorKind::Retry);
    assert!(world.open().iter().all(|key| key == "db/0"));
}

#[tokio::test]
async fn leases_go_to_members_that_work() {
    let world = World::default();
    world.set_resettable();
    let (node, pool) = start_pool(&world, leased(2)).await;
    world.fail_openings(1);
    for number in 0..20 {
        pool.run(Job::Note(number)).await.unwrap();
    }
    assert_eq!(world.numbers().len(), 20);
    until(|| world.open().len() == 2).await;
    node.advance(LONG).await;
    let again = open(&node).await;
    again.run(Job::Note(20)).await.unwrap();
    world.assert_sane();
}
