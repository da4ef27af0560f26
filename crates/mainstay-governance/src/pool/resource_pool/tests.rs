//! What can only be seen from inside: holders that die, and come back late.

use mainstay::testkit::TestNode;

use super::*;
use crate::owner::{Opening, OwnerState};
use crate::pool::interface::Grant;
use crate::pool::{LeaseSettings, PoolCoordinator, PoolSettings};

/// Counts its jobs, each of which takes so many seconds.
struct Slow;

impl Resource for Slow {
    const NAME: &'static str = "slow";
    type Handle = u64;
    type Job = u64;
    type Reply = u64;

    async fn open(&self, _: &Opening) -> Result<u64> {
        Ok(0)
    }

    async fn run(&self, jobs: &mut u64, seconds: u64) -> Result<u64> {
        sleep(Duration::from_secs(seconds)).await;
        *jobs += 1;
        Ok(*jobs)
    }

    fn pool_settings(&self) -> PoolSettings {
        PoolSettings { initial_size: 1, coordination: Coordination::Server, ..PoolSettings::default() }
    }
}

async fn start() -> (TestNode, ResourcePool<Slow>) {
    let node = TestNode::start(|node| ResourcePool::serve(node, Slow)).await.unwrap();
    let pool = ResourcePool::open(&*node, "db").await.unwrap();
    (node, pool)
}

/// A holder that dies: it takes a lease and never renews it. What it has is its ticket.
async fn take_and_die(pool: &ResourcePool<Slow>) -> (Grant, JobTicket) {
    let grant = pool.shared.coordinator.acquire(Priority::NORMAL, 0).await.unwrap();
    (grant, JobTicket { version: 1, lease: Some(grant.token), opening: None })
}

async fn run(pool: &ResourcePool<Slow>, ticket: JobTicket, job: u64) -> Result<u64, Refusal> {
    let member = pool.shared.roster().handles()[0].member.clone();
    match member.run(ticket, job).await.unwrap() {
        Ran::Done { reply, .. } => Ok(reply),
        Ran::Refused(_, refusal) => Err(refusal),
    }
}

#[tokio::test]
async fn the_member_of_a_holder_that_has_died_is_given_on_and_the_holder_is_refused_when_it_comes_late() {
    let (_node, pool) = start().await;
    let begun = Instant::now();
    let (grant, ticket) = take_and_die(&pool).await;
    assert_eq!(run(&pool, ticket, 0).await, Ok(1));
    let lease = pool.lease().await.unwrap();
    assert!(begun.elapsed() >= grant.time);
    assert_eq!(run(&pool, ticket, 0).await, Err(Refusal::LeaseOver), "although the new holder has not come yet");
    assert_eq!(lease.run(0).await.unwrap(), 1, "nothing is left of the one before");
    assert_eq!(run(&pool, ticket, 0).await, Err(Refusal::LeaseOver));
    assert_eq!(pool.shared.coordinator.renew(grant.index, grant.token).await.unwrap(), None);
    pool.shared.coordinator.release(grant.index, grant.token, Duration::ZERO).await.unwrap();
    assert_eq!(pool.status().await.unwrap().leased, 1, "the late one cannot end the lease of another");
    assert_eq!(lease.run(0).await.unwrap(), 2);
}

#[tokio::test]
async fn a_lease_is_given_on_only_after_the_job_that_its_holder_has_begun() {
    let (_node, pool) = start().await;
    let (grant, ticket) = take_and_die(&pool).await;
    let late = tokio::spawn({
        let pool = pool.clone();
        async move { run(&pool, ticket, 20).await }
    });
    let begun = Instant::now();
    let lease = pool.lease().await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(20) && begun.elapsed() > grant.time);
    assert_eq!(late.await.unwrap(), Ok(1));
    assert_eq!(lease.run(0).await.unwrap(), 1);
}

/// Nobody waits for the member, and nobody calls: what its holder has begun, with its locks, must not stay.
#[tokio::test]
async fn what_a_holder_that_has_died_has_left_is_gone_when_its_lease_is_over() {
    for is_restarted in [false, true] {
        let (node, pool) = start().await;
        let (grant, ticket) = take_and_die(&pool).await;
        assert_eq!(run(&pool, ticket, 0).await, Ok(1));
        if is_restarted {
            node.deactivate_actor::<PoolCoordinator<Slow>>("db").await.unwrap();
        }
        let member = pool.shared.roster().handles()[0].member.clone();
        assert_eq!(pool.shared.coordinator.view().await.unwrap().size, 1);
        node.advance(grant.time / 2).await;
        assert_eq!(member.status().await.unwrap().state, OwnerState::Open);
        node.advance(grant.time).await;
        assert_eq!(member.status().await.unwrap().state, OwnerState::Closed);
        assert_eq!(run(&pool, ticket, 0).await, Err(Refusal::LeaseOver));
    }
}

/// A pool that has long been idle does not let its first caller wait for holders that there cannot be.
#[tokio::test]
async fn a_coordinator_that_is_restarted_waits_for_holders_only_if_there_may_be_some() {
    let (node, pool) = start().await;
    take_and_die(&pool).await;
    for (is_idle, waits) in [(false, true), (true, false)] {
        if is_idle {
            node.advance(LeaseSettings::default().time * 2).await;
        }
        node.deactivate_actor::<PoolCoordinator<Slow>>("db").await.unwrap();
        let begun = Instant::now();
        pool.run(0).await.unwrap();
        assert_eq!(begun.elapsed() >= LeaseSettings::default().time, waits, "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_member_that_is_leased_does_nothing_without_a_lease() {
    let (_node, pool) = start().await;
    let member = pool.shared.roster().handles()[0].member.clone();
    let Err(error) = member.run(JobTicket { version: 1, lease: None, opening: None }, 0).await else {
        panic!("it was done")
    };
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("lease a member"), "{error}");
}
