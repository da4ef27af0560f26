//! Callers on other runtimes and on none.

use std::time::Duration;

use mainstay::Node;
use mainstay_governance::pool::{Coordination, LeaseSettings, PoolSettings};

use crate::fake::{Fake, Job, World};
use crate::foreign::Caller;
use crate::{Pool, of_size};

/// How long a lease lasts unless it is renewed.
const LEASE: Duration = Duration::from_millis(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_a_foreign_caller_is_renewed_and_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let leases = LeaseSettings { time: LEASE, ..LeaseSettings::default() };
    let pool = PoolSettings { coordination: Coordination::Server, leases, ..of_size(1) };
    let fake = Fake { world: World::default(), pool, ..Fake::default() };
    let node = Pool::serve(Node::builder().isolated().data_dir(folder.path()), fake).start().await.unwrap();
    for caller in Caller::ALL {
        let there = node.clone();
        let lease = caller.run(async move {
            let pool = Pool::open(&there, "db").await.unwrap();
            pool.run(Job::Note(1)).await.unwrap();
            pool.lease().await.unwrap()
        });
        for _ in 0..6 {
            tokio::time::sleep(LEASE / 2).await;
            assert!(lease.is_held(), "taken by a caller {caller:?}");
            lease.run(Job::Note(2)).await.unwrap();
        }
        // Where there is no runtime either.
        std::thread::spawn(move || drop(lease)).join().unwrap();
        Pool::open(&node, "db").await.unwrap().run(Job::Note(3)).await.unwrap();
    }
    node.stop().await;
}
