//! Callers on other runtimes and on none, and callers that never have to ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mainstay::Node;
use mainstay_governance::resolve::{self, PhysicalResource, Policy, Resolver, ResolverSettings};
use tokio::time::Instant;

use crate::foreign::Caller;
use crate::{start, two_databases};

/// So long that a move which waits for it to run out is told apart on a busy machine.
const LEASE: Duration = Duration::from_secs(40);

fn settings() -> ResolverSettings {
    ResolverSettings { lease: LEASE, ..ResolverSettings::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_does_not_wait_for_the_lease_of_a_foreign_caller_to_run_out() {
    let folder = tempfile::tempdir().unwrap();
    let node = resolve::serve(Node::builder().isolated().data_dir(folder.path())).start().await.unwrap();
    let mover = Resolver::open(&node, "users", settings()).await.unwrap();
    for name in ["db1", "db2"] {
        mover.add_resource(PhysicalResource::new(name).with_partitions(4)).await.unwrap();
    }
    mover.assign(7, "db1").await.unwrap();
    let begun = Instant::now();
    let mut homes = ["db2", "db1"].into_iter();
    for caller in Caller::ALL {
        let there = node.clone();
        let opened = caller.run(async move {
            let users = Resolver::open(&there, "users", settings()).await.unwrap();
            users.resolve(7).await.unwrap();
            users
        });
        let home = homes.next().unwrap();
        mover.move_entity(7, home).await.unwrap();
        assert!(begun.elapsed() < LEASE / 2, "opened by a caller {caller:?}: {:?}", begun.elapsed());
        assert_eq!(opened.resolve(7).await.unwrap().resource.name, home);
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
async fn callers_that_never_have_to_ask_let_others_run() {
    let node = start().await;
    let users = two_databases(&node, Policy::Hash).await;
    let resolution = users.resolve(7).await.unwrap();
    let turns = turns_of_others(async || drop(users.resolve(7).await.unwrap())).await;
    assert!(turns > 10, "{turns}");
    let turns = turns_of_others(async || drop(users.begin(&resolution).await.unwrap())).await;
    assert!(turns > 10, "{turns}");
}
