//! Pools: how many are open at any moment, who does what, and what happens when something fails.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "built as an application is: its tasks and its clock are tokio's")]

#[path = "../fake/mod.rs"]
mod fake;
#[path = "../foreign/mod.rs"]
mod foreign;

mod batching;
mod cap;
mod failures;
mod foreign_callers;
mod leases;
mod picking;
mod threads;

use fake::{Fake, World};
use mainstay::testkit::TestNode;
use mainstay_governance::pool::{Coordination, PoolSettings, ResourcePool};

type Pool = ResourcePool<Fake>;

async fn start(fake: Fake) -> TestNode {
    TestNode::start(move |node| Pool::serve(node, fake.clone())).await.unwrap()
}

async fn start_pool(world: &World, pool: PoolSettings) -> (TestNode, Pool) {
    let node = start(Fake { world: world.clone(), pool, ..Fake::default() }).await;
    let pool = open(&node).await;
    (node, pool)
}

async fn open(node: &TestNode) -> Pool {
    Pool::open(&**node, "db").await.unwrap()
}

fn of_size(size: u32) -> PoolSettings {
    PoolSettings { initial_size: size, ..PoolSettings::default() }
}

#[tokio::test]
async fn a_pool_that_is_not_served_says_how_to_serve_it() {
    let node = TestNode::start(|node| node).await.unwrap();
    let error = Pool::open(&*node, "db").await.unwrap_err();
    assert_eq!(error.kind(), mainstay::ErrorKind::NotFound);
    let text =
        "pool `db` of `fake` needs the actors of `pool`; build the node with `ResourcePool::serve(builder, resource)`";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_pool_is_coordinated_by_its_callers_unless_told_otherwise() {
    assert_eq!(Coordination::default(), Coordination::Client);
    assert_eq!(PoolSettings::default().coordination, Coordination::default());
}
