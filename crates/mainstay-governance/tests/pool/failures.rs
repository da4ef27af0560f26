use std::time::Duration;

use mainstay::prelude::*;
use mainstay_governance::owner::{Backoff, OwnerSettings, OwnerState};
use mainstay_governance::pool::{BreakerSettings, BreakerState, MemberStatus, Pick, PoolSettings};

use crate::fake::{Fake, Job, World, until};
use crate::{Pool, of_size, open, start};

async fn start_patient(world: &World, size: u32) -> (mainstay::testkit::TestNode, Pool) {
    let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(2));
    let owner = OwnerSettings { backoff, job_time_max: Duration::from_secs(5), ..OwnerSettings::default() };
    let open_time = Backoff::new(Duration::from_secs(20), Duration::from_secs(20));
    let breaker = BreakerSettings { failures_max: 3, open_time, trial_successes: 2 };
    let pool = PoolSettings { breaker, pick: Pick::RoundRobin, ..of_size(size) };
    let node = start(Fake { world: world.clone(), owner, pool }).await;
    let pool = open(&node).await;
    (node, pool)
}

async fn member(pool: &Pool, index: usize) -> MemberStatus {
    pool.status().await.unwrap().members[index].status.clone().unwrap()
}

#[tokio::test]
async fn a_job_goes_to_another_member_if_its_own_cannot_open() {
    let world = World::default();
    let (_node, pool) = start_patient(&world, 3).await;
    world.fail_openings(1);
    for number in 0..30 {
        assert_eq!(pool.run(Job::Note(number)).await.unwrap(), number);
    }
    assert_eq!(world.numbers().len(), 30);
    world.assert_sane();
}

#[tokio::test]
async fn while_none_can_open_jobs_wait_until_their_time_limit_and_say_why() {
    let world = World::default();
    let (_node, pool) = start_patient(&world, 2).await;
    world.cap(2);
    world.fail_openings(4);
    let error = pool.with_timeout(Duration::from_millis(400)).run(Job::Note(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error:?}");
    assert!(error.to_string().contains("the server is down; one is tried again in"), "{error}");
    assert!(world.numbers().is_empty());
    assert_eq!(pool.run(Job::Note(2)).await.unwrap(), 2, "who has the time waits");
    world.assert_sane();
}

#[tokio::test]
async fn jobs_that_panic_hang_or_break_cost_no_other_job_anything() {
    let world = World::default();
    let (_node, pool) = start_patient(&world, 3).await;
    world.cap(3);
    let jobs: Vec<_> = (0..90_u64)
        .map(|number| {
            let pool = pool.clone();
            let job = match number % 9 {
                0 => Job::Panic,
                3 => Job::Break,
                6 => Job::Hang,
                _ => Job::Note(number),
            };
            tokio::spawn(async move { pool.with_timeout(Duration::from_secs(3600)).run(job).await })
        })
        .collect();
    for (number, job) in (0..90_u64).zip(jobs) {
        let outcome = job.await.unwrap().map_err(|error| error.kind());
        let expected = match number % 9 {
            0 | 6 => Err(ErrorKind::OutcomeUnknown),
            3 => Err(ErrorKind::Retry),
            _ => Ok(number),
        };
        assert_eq!(outcome, expected, "{number}");
    }
    assert_eq!(world.numbers().len(), 60);
    world.assert_sane();
}

#[tokio::test]
async fn a_member_that_fails_too_often_is_left_alone_and_tried_again_later() {
    let world = World::default();
    let (node, pool) = start_patient(&world, 2).await;
    for number in 0..4 {
        pool.run(Job::Note(number)).await.unwrap();
    }
    world.set_sick("db/1", true);
    let mut failed = 0;
    while member(&pool, 1).await.breaker == BreakerState::Closed {
        failed += u32::from(pool.run(Job::Note(10)).await.is_err());
        node.advance(Duration::from_millis(100)).await;
    }
    assert_eq!(failed, 3, "as many as it takes");
    // From now on the other does everything, and nobody sees an error.
    let before = world.done().len();
    for number in 100..150 {
        pool.run(Job::Note(number)).await.unwrap();
    }
    assert!(world.done()[before..].iter().all(|(key, _)| key == "db/0"));
    assert_eq!(member(&pool, 1).await.breaker, BreakerState::Open);

    node.advance(Duration::from_secs(25)).await;
    assert_eq!(member(&pool, 1).await.breaker, BreakerState::HalfOpen);
    let trial: Vec<_> = [pool.run(Job::Note(200)).await, pool.run(Job::Note(201)).await].into();
    assert_eq!(trial.iter().filter(|outcome| outcome.is_err()).count(), 1, "one trial is enough to see");
    assert_eq!(member(&pool, 1).await.breaker, BreakerState::Open);

    world.set_sick("db/1", false);
    node.advance(Duration::from_secs(25)).await;
    assert_eq!(member(&pool, 1).await.breaker, BreakerState::HalfOpen);
    for number in 300..302 {
        pool.run(Job::Note(number)).await.unwrap();
    }
    assert_eq!(member(&pool, 1).await.breaker, BreakerState::HalfOpen, "one of two successes");
    for number in 302..304 {
        pool.run(Job::Note(number)).await.unwrap();
    }
    assert_eq!(member(&pool, 1).await.breaker, BreakerState::Closed);
    world.assert_sane();
}

#[tokio::test]
async fn a_member_that_fails_its_check_is_opened_anew_before_anybody_uses_it() {
    let world = World::default();
    let (_node, pool) = start_patient(&world, 1).await;
    pool.run(Job::Note(1)).await.unwrap();
    world.set_sick("db/0", true);
    until(|| world.open().is_empty()).await;
    world.set_sick("db/0", false);
    until(|| !world.open().is_empty()).await;
    assert_eq!(member(&pool, 0).await.state, OwnerState::Open);
    pool.run(Job::Note(2)).await.unwrap();
    world.assert_sane();
}

#[tokio::test]
async fn what_goes_by_a_key_waits_for_its_own_member() {
    let world = World::default();
    let (_node, pool) = start_patient(&world, 4).await;
    pool.run_by_key("alice", Job::Note(1)).await.unwrap();
    let hers = world.done()[0].0.clone();
    world.fail_openings(2);
    pool.run_by_key("alice", Job::Break).await.unwrap_err();
    pool.run_by_key("alice", Job::Note(2)).await.unwrap();
    assert_eq!(world.done(), [(hers.clone(), 1), (hers, 2)]);
}

/// Members with a new folder of data find a world that remembers the tokens of those before them.
#[tokio::test]
async fn members_whose_counters_went_back_go_on_from_what_the_outside_remembers() {
    let world = World::default();
    let (mut node, _pool) = start_patient(&world, 1).await;
    for number in 0..9 {
        open(&node).await.run(Job::Note(number)).await.unwrap();
        world.lose_power();
        node.kill().await.unwrap();
    }
    drop(node);
    let (_node, pool) = start_patient(&world, 1).await;
    pool.run(Job::Note(9)).await.unwrap();
    assert_eq!(world.tokens("db/0")[8..], [9, 1, 10], "refused once, and told");
    assert_eq!(world.numbers(), Vec::from_iter(0..10));
}
