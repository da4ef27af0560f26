//! Resolvers: where entities live, and moving them while they are in use.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and its tasks and clock are tokio's"
)]

#[path = "../foreign/mod.rs"]
mod foreign;

mod defects;
mod foreign_callers;
mod forgetting;
mod memory;
mod moves;
mod policies;
mod sources;
mod stopping;
mod threads;

use std::time::Duration;

use mainstay::testkit::TestNode;
use mainstay_governance::resolve::{self, PhysicalResource, Policy, Resolver, ResolverSettings};

/// A deadline that is not to be reached.
const LONG: Duration = Duration::from_secs(60);

async fn start() -> TestNode {
    TestNode::start(resolve::serve).await.unwrap()
}

async fn open(node: &TestNode, policy: Policy) -> Resolver {
    let settings = ResolverSettings { policy, ..ResolverSettings::default() };
    Resolver::open(&**node, "users", settings).await.unwrap()
}

/// A resolver with two resources of four partitions each.
async fn two_databases(node: &TestNode, policy: Policy) -> Resolver {
    let users = open(node, policy).await;
    for name in ["db1", "db2"] {
        users.add_resource(PhysicalResource::new(name).with_partitions(4)).await.unwrap();
    }
    users
}

async fn home(users: &Resolver, entity: i64) -> String {
    users.resolve(entity).await.unwrap().resource.name
}
