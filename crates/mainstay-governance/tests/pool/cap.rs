//! However many callers there are, and whatever they believe: no more are open than the pool has members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use mainstay::prelude::*;
use mainstay_governance::owner::OwnerSettings;
use mainstay_governance::pool::{Pick, PoolMember};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::fake::{Fake, Job, World, until};
use crate::{Pool, of_size, open, start, start_pool};

const CALLERS: u64 = 200;

/// Callers that go on until they are told to stop, each job with a number of its own.
pub(crate) struct Load {
    is_over: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Vec<u64>>>,
}

impl Load {
    pub(crate) fn start(pool: &Pool, numbers: &Arc<AtomicU64>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let callers = (0..CALLERS).map(|caller| {
            let (pool, numbers, is_over) = (pool.clone(), numbers.clone(), is_over.clone());
            let pool = pool.with_pick(if caller % 2 == 0 { Pick::RoundRobin } else { Pick::LeastLoaded });
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    let job = Job::Slowly(number, Duration::from_millis(1 + number % 7));
                    let answer = match number % 5 {
                        0 => pool.run_by_key(&format!("key {}", number % 100), job).await,
                        _ => pool.run(job).await,
                    };
                    match answer {
                        Ok(answered) => acknowledged.push(answered),
                        // The node is being killed.
                        Err(error) => assert!(
                            matches!(
                                error.kind(),
                                ErrorKind::Fatal | ErrorKind::OutcomeUnknown | ErrorKind::NotPrimary { .. }
                            ),
                            "{error:?}"
                        ),
                    }
                }
                acknowledged
            })
        });
        let callers = callers.collect();
        Self { is_over, callers }
    }

    /// The numbers that were acknowledged.
    pub(crate) async fn stop(self) -> Vec<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut acknowledged = Vec::new();
        for caller in self.callers {
            acknowledged.extend(caller.await.unwrap());
        }
        acknowledged
    }
}

pub(crate) fn assert_each_once(world: &World, acknowledged: &[u64]) {
    let done = world.numbers();
    let each: BTreeSet<u64> = done.iter().copied().collect();
    assert_eq!(each.len(), done.len(), "something was done twice");
    assert!(acknowledged.iter().all(|number| each.contains(number)), "something was acknowledged and not done");
    world.assert_sane();
}

#[tokio::test]
async fn the_cap_holds_at_every_moment_while_the_pool_is_resized_under_load() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, of_size(5)).await;
    world.cap(5);
    let load = Load::start(&pool, &Arc::default());
    until(|| world.done().len() > 1000).await;
    assert_eq!(world.peak(), 5);

    world.cap(8);
    pool.resize(8).await.unwrap();
    until(|| world.open().len() == 8).await;

    pool.resize(3).await.unwrap();
    world.cap(3);
    assert_eq!(world.open(), ["db/0", "db/1", "db/2"], "the others are closed by the time that it returns");
    let before = world.done().len();
    until(|| world.done().len() > before + 1000).await;
    assert_each_once(&world, &load.stop().await);
    let late = &world.done()[before..];
    assert!(late.iter().all(|(key, _)| ["db/0", "db/1", "db/2"].contains(&&**key)));
    let status = pool.status().await.unwrap();
    assert_eq!((status.size, status.version, status.draining, status.members.len()), (3, 3, 0, 3));
}

#[tokio::test]
async fn the_cap_holds_and_the_size_stays_when_the_node_is_killed_or_restarted_under_load() {
    let world = World::default();
    let (mut node, mut pool) = start_pool(&world, of_size(2)).await;
    world.cap(4);
    pool.resize(4).await.unwrap();
    let (numbers, mut acknowledged) = (Arc::default(), Vec::new());
    for round in 0..4 {
        let load = Load::start(&pool, &numbers);
        let before = world.done().len();
        until(|| world.done().len() > before + 300 && world.open().len() == 4).await;
        load.is_over.store(true, Ordering::Relaxed);
        match round % 2 {
            0 => {
                world.lose_power();
                node.kill().await.unwrap();
            }
            _ => {
                node.restart().await.unwrap();
                assert!(world.open().is_empty(), "closed in order");
            }
        }
        acknowledged.extend(load.stop().await);
        pool = open(&node).await;
    }
    assert_each_once(&world, &acknowledged);
    assert_eq!(pool.status().await.unwrap().size, 4);
}

#[tokio::test]
async fn a_caller_with_an_old_view_cannot_open_one_too_many_and_finds_the_others() {
    let world = World::default();
    let (node, pool) = start_pool(&world, of_size(8)).await;
    // For each member that is to go a key by which it is picked, and a handle that has never heard of another size.
    let mut strays = BTreeMap::new();
    for number in 0.. {
        let key = format!("key {number}");
        pool.run_by_key(&key, Job::Note(number)).await.unwrap();
        let (member, _) = world.done().pop().unwrap();
        if !["db/0", "db/1", "db/2"].contains(&&*member) {
            strays.insert(member, (key, open(&node).await));
        }
        if strays.len() == 5 {
            break;
        }
    }
    pool.resize(3).await.unwrap();
    world.cap(3);
    for (number, (member, (key, old))) in (1000..).zip(&strays) {
        let opened = world.tokens(member);
        // Also when the member has forgotten that it was told to go.
        node.deactivate_actor::<PoolMember<Fake>>(member.as_str()).await.unwrap();
        assert_eq!(old.run_by_key(key, Job::Note(number)).await.unwrap(), number);
        assert_eq!(world.tokens(member), opened, "{member} was asked first, and has opened nothing");
        let (by, _) = world.done().pop().unwrap();
        assert!(["db/0", "db/1", "db/2"].contains(&&*by), "{by} is not of the pool");
    }
    assert!(world.open().len() <= 3);
    world.assert_sane();
}

#[tokio::test]
async fn a_caller_with_an_old_view_hears_of_new_members() {
    let world = World::default();
    let (node, pool) = start_pool(&world, of_size(2)).await;
    let old = open(&node).await.with_pick(Pick::RoundRobin);
    pool.resize(4).await.unwrap();
    let mut number = 0;
    while world.open().len() < 4 {
        number += 1;
        assert_eq!(old.run(Job::Note(number)).await.unwrap(), number);
        sleep(Duration::from_millis(1)).await;
    }
    world.assert_sane();
}

#[tokio::test]
async fn members_that_go_finish_what_they_were_given() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, of_size(4)).await;
    let pool = pool.with_pick(Pick::RoundRobin);
    let jobs: Vec<_> = (0..40)
        .map(|number| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.run(Job::Slowly(number, Duration::from_secs(1))).await })
        })
        .collect();
    until(|| world.open().len() == 4).await;
    pool.resize(1).await.unwrap();
    assert_eq!(world.open(), ["db/0"]);
    let by_others = world.done().iter().filter(|(key, _)| key != "db/0").count();
    assert_eq!(by_others, 30, "three members had ten jobs each");
    for job in jobs {
        job.await.unwrap().unwrap();
    }
    assert_eq!(world.done().len(), 40);
    world.assert_sane();
}

#[tokio::test]
async fn draining_that_was_interrupted_by_a_kill_is_finished_afterwards() {
    let world = World::default();
    let (mut node, pool) = start_pool(&world, of_size(4)).await;
    let busy: Vec<_> = (0..4)
        .map(|number| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.run(Job::Slowly(number, Duration::from_secs(20))).await })
        })
        .collect();
    until(|| world.open().len() == 4).await;
    let resizing = tokio::spawn({
        let pool = pool.clone();
        async move { pool.resize(2).await }
    });
    sleep(Duration::from_secs(1)).await;
    assert!(!resizing.is_finished());
    assert_eq!(pool.status().await.unwrap().draining, 2);
    resizing.abort();
    world.lose_power();
    node.kill().await.unwrap();
    for job in busy {
        assert!(job.await.unwrap().is_err());
    }
    world.cap(2);
    node.advance(Duration::from_secs(60)).await;
    let pool = open(&node).await;
    let status = pool.status().await.unwrap();
    assert_eq!((status.size, status.draining), (2, 0));
    for number in 10..20 {
        pool.run(Job::Note(number)).await.unwrap();
    }
    world.assert_sane();
}

#[tokio::test]
async fn a_size_that_is_asked_for_meanwhile_wins_and_who_asked_before_is_told() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, of_size(4)).await;
    let busy: Vec<_> = (0..4)
        .map(|number| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.run(Job::Slowly(number, Duration::from_secs(5))).await })
        })
        .collect();
    until(|| world.open().len() == 4).await;
    let first = tokio::spawn({
        let pool = pool.clone();
        async move { pool.resize(1).await }
    });
    sleep(Duration::from_secs(1)).await;
    world.cap(6);
    pool.resize(6).await.unwrap();
    let error = first.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("resized to 6"), "{error}");
    for job in busy {
        job.await.unwrap().unwrap();
    }
    for number in 10..30 {
        pool.run(Job::Note(number)).await.unwrap();
    }
    assert_eq!(world.open().len(), 6);
    for size in [0, 1025] {
        assert_eq!(pool.resize(size).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    world.assert_sane();
}

#[tokio::test]
async fn openings_that_are_given_up_half_way_count_until_they_are_gone() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, of_size(3)).await;
    world.cap(3);
    world.hang_openings(3);
    let jobs = (0..30).map(|number| pool.run(Job::Note(number)));
    for done in join_all(jobs).await {
        done.unwrap();
    }
    until(|| world.open().len() == 3).await;
    world.assert_sane();

    pool.resize(1).await.unwrap();
    world.cap(1);
    world.hang_openings(2);
    pool.resize(3).await.unwrap();
    world.cap(3);
    let unlucky = pool.with_timeout(Duration::from_secs(1));
    join_all((0..9).map(|number| unlucky.run(Job::Note(100 + number)))).await;
    assert_eq!(world.open().len(), 3, "two of them are half open");
    pool.resize(1).await.unwrap();
    world.cap(1);
    pool.run(Job::Note(200)).await.unwrap();
    world.assert_sane();
}

#[tokio::test]
async fn what_a_member_left_behind_counts_also_after_it_was_activated_anew() {
    let world = World::default();
    // Not long enough for what was given up to be gone.
    let owner = OwnerSettings { close_time_max: Duration::from_millis(20), ..OwnerSettings::default() };
    let node = start(Fake { world: world.clone(), owner, pool: of_size(2) }).await;
    let pool = open(&node).await.with_pick(Pick::RoundRobin);
    world.cap(2);
    world.hang_openings(2);
    let unlucky = pool.with_timeout(Duration::from_secs(1));
    join_all((0..4).map(|number| unlucky.run(Job::Note(number)))).await;
    assert_eq!(world.open(), ["db/0", "db/1"], "half open");
    for member in ["db/0", "db/1"] {
        node.deactivate_actor::<PoolMember<Fake>>(member).await.unwrap();
    }
    assert_eq!(world.open(), ["db/0", "db/1"], "it takes longer to be gone");

    pool.resize(1).await.unwrap();
    world.cap(1);
    assert!(!world.open().contains(&"db/1".to_owned()), "the pool is smaller when it says so");
    // The one that stays opens only when nothing is left of what it had open.
    pool.run(Job::Note(100)).await.unwrap();
    assert_eq!(world.open(), ["db/0"]);
    world.assert_sane();
}
