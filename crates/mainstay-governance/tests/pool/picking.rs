use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mainstay::ErrorKind;
use mainstay_governance::owner::OwnerState;
use mainstay_governance::pool::{BreakerState, Pick};

use crate::fake::{Job, World, until};
use crate::{of_size, start_pool};

fn by_member(world: &World) -> BTreeMap<String, Vec<u64>> {
    let mut members = BTreeMap::<String, Vec<u64>>::new();
    for (key, number) in world.done() {
        members.entry(key).or_default().push(number);
    }
    members
}

#[tokio::test]
async fn one_after_the_other_gives_each_the_same() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, of_size(4)).await;
    let pool = pool.with_pick(Pick::RoundRobin);
    for number in 0..40 {
        pool.run(Job::Note(number)).await.unwrap();
    }
    let counts: Vec<usize> = by_member(&world).values().map(Vec::len).collect();
    assert_eq!(counts, [10, 10, 10, 10]);
}

#[tokio::test]
async fn the_least_loaded_member_is_not_the_one_that_is_busy() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, of_size(2)).await;
    let busy = tokio::spawn({
        let pool = pool.clone();
        async move { pool.run(Job::Slowly(0, Duration::from_secs(30))).await }
    });
    until(|| world.open().len() == 1).await;
    let taken = world.open();
    for number in 1..20 {
        pool.run(Job::Note(number)).await.unwrap();
    }
    assert!(world.done().iter().all(|(key, _)| *key != taken[0]));
    let status = pool.status().await.unwrap();
    assert_eq!((status.in_flight, status.members.len()), (1, 2));
    let is_busy = status.members.iter().find(|member| member.in_flight == 1).unwrap();
    assert_eq!(is_busy.status, None, "it does not answer while it works");
    busy.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_key_has_its_member_and_keeps_its_order() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, of_size(4)).await;
    let mut calls = Vec::new();
    for number in 0..400 {
        let pool = pool.clone();
        calls.push(tokio::spawn(async move {
            let pause = Duration::from_millis(number % 3);
            pool.run_by_key(&format!("user {}", number % 20), Job::Slowly(number, pause)).await
        }));
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let members = by_member(&world);
    assert_eq!(members.len(), 4);
    let mut users = BTreeSet::new();
    for numbers in members.values() {
        for user in numbers.iter().map(|number| number % 20).collect::<BTreeSet<_>>() {
            assert!(users.insert(user), "user {user} has two members");
            let mine: Vec<_> = numbers.iter().filter(|number| **number % 20 == user).collect();
            assert!(mine.is_sorted(), "{mine:?}");
        }
    }
}

#[tokio::test]
async fn a_look_at_a_pool_opens_nothing_and_says_what_there_is() {
    let world = World::default();
    let (_node, pool) = start_pool(&world, of_size(3)).await;
    let status = pool.status().await.unwrap();
    assert!(world.open().is_empty());
    assert_eq!((status.size, status.version, status.leased, status.waiting), (3, 1, 0, 0));
    assert!(status.members.iter().all(|member| member.status.as_ref().unwrap().state == OwnerState::Closed));
    pool.with_pick(Pick::RoundRobin).run(Job::Note(1)).await.unwrap();
    let status = pool.status().await.unwrap();
    let open: Vec<_> = status.members.iter().filter_map(|member| member.status.as_ref()).collect();
    let open: Vec<_> = open.iter().filter(|member| member.state == OwnerState::Open).collect();
    assert_eq!((open.len(), open[0].jobs, open[0].fence.get()), (1, 1, 1));
    assert_eq!(open[0].breaker, BreakerState::Closed);
    pool.with_timeout(Duration::MAX).run(Job::Note(2)).await.unwrap();
    let error = pool.with_timeout(Duration::ZERO).run(Job::Note(3)).await.unwrap_err();
    assert_eq!((error.kind(), world.numbers()), (ErrorKind::Timeout, vec![1, 2]));
    assert!(format!("{pool:?}").contains("ResourcePool(fake \"db\", 3 members as of version 1)"), "{pool:?}");
    assert_eq!(pool.lease().await.unwrap_err().kind(), ErrorKind::Invalid, "its callers coordinate it");
}

#[tokio::test]
async fn pools_of_different_keys_are_apart() {
    let world = World::default();
    let (node, pool) = start_pool(&world, of_size(1)).await;
    let other = crate::Pool::open(&*node, "a/b").await.unwrap();
    other.resize(2).await.unwrap();
    pool.run(Job::Note(1)).await.unwrap();
    for number in 2..6 {
        other.with_pick(Pick::RoundRobin).run(Job::Note(number)).await.unwrap();
    }
    assert_eq!(world.open(), ["a/b/0", "a/b/1", "db/0"]);
}
