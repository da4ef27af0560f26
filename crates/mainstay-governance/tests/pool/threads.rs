//! The same on several threads, in real time and on a real disk.

use std::sync::Arc;
use std::time::Duration;

use mainstay::Node;
use mainstay_governance::pool::{Coordination, PoolSettings};
use tempfile::TempDir;

use crate::cap::{Load, assert_each_once};
use crate::fake::{Fake, Job, World, until};
use crate::{Pool, of_size};

async fn start(world: &World, pool: PoolSettings) -> (TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake { world: world.clone(), pool, ..Fake::default() };
    let node = Pool::serve(Node::builder().isolated().data_dir(folder.path()), fake).start().await.unwrap();
    (folder, node)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_cap_holds_on_several_threads() {
    let world = World::default();
    let (_folder, node) = start(&world, of_size(5)).await;
    world.cap(5);
    let (here, there) = (Pool::open(&node, "db").await.unwrap(), Pool::open(&node, "db").await.unwrap());
    let numbers = Arc::default();
    let loads = [Load::start(&here, &numbers), Load::start(&there, &numbers)];
    for (size, cap) in [(8, 8), (3, 8), (6, 6), (1, 6), (4, 4)] {
        world.cap(cap);
        here.resize(size).await.unwrap();
        world.cap(size.max(1) as usize);
        let before = world.done().len();
        until(|| world.done().len() > before + 200 && world.open().len() == size as usize).await;
    }
    let mut acknowledged = Vec::new();
    for load in loads {
        acknowledged.extend(load.stop().await);
    }
    assert_each_once(&world, &acknowledged);
    node.stop().await;
    assert!(world.open().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn leases_are_for_one_alone_on_several_threads() {
    let world = World::default();
    let settings = PoolSettings { coordination: Coordination::Server, ..of_size(3) };
    let (_folder, node) = start(&world, settings).await;
    world.cap(3);
    let pool = Pool::open(&node, "db").await.unwrap();
    let callers: Vec<_> = (0..60_u64)
        .map(|caller| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let lease = pool.lease().await.unwrap();
                for step in 0..5 {
                    lease.run(Job::Slowly(caller * 10 + step, Duration::from_micros(200))).await.unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    for member in ["db/0", "db/1", "db/2"] {
        let done: Vec<u64> = world.done().iter().filter(|(key, _)| key == member).map(|(_, number)| *number).collect();
        for session in done.chunks(5) {
            let first = session[0];
            assert_eq!(session, [first, first + 1, first + 2, first + 3, first + 4], "nobody was in between");
        }
    }
    assert_eq!(world.done().len(), 300);
    world.assert_sane();
    node.stop().await;
}
