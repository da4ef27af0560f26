//! An application that has governance by a feature of `mainstay`, and names no other crate of ours.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use mainstay::governance::owner::{Opening, Resource};
use mainstay::governance::pool::{PoolSettings, ResourcePool};
use mainstay::governance::resolve::{self, PhysicalResource, Policy, Resolver, ResolverSettings};
use mainstay::prelude::*;
use mainstay::testkit::TestNode;

struct Shouting;

impl Resource for Shouting {
    const NAME: &'static str = "shouting";
    type Handle = String;
    type Job = String;
    type Reply = String;

    async fn open(&self, opening: &Opening) -> Result<String> {
        Ok(opening.key.clone())
    }

    async fn run(&self, key: &mut String, job: String) -> Result<String> {
        Ok(format!("{} at {key}", job.to_uppercase()))
    }

    fn pool_settings(&self) -> PoolSettings {
        PoolSettings { initial_size: 1, ..PoolSettings::default() }
    }
}

#[interface]
trait Profile {
    async fn home(&self) -> Result<String>;
}

#[derive(Actor)]
#[actor(implements(Profile), persistence = "none")]
struct ProfileActor {
    #[open(Resolver::open(&ctx, "users", settings()).await)]
    users: Resolver,
    ctx: Context,
}

impl Profile for ProfileActor {
    async fn home(&self) -> Result<String> {
        self.users.with(self.ctx.id().clone(), async |home| Ok(home.resource.address)).await
    }
}

fn settings() -> ResolverSettings {
    ResolverSettings { policy: Policy::LeastLoaded, ..ResolverSettings::default() }
}

#[tokio::test]
async fn an_application_names_the_facade_alone() -> Result<()> {
    let build = |node| ResourcePool::serve(resolve::serve(node), Shouting).actor::<ProfileActor>();
    let node = TestNode::start(build).await?;

    let users = Resolver::open(&node, "users", settings()).await?;
    users.add_resource(PhysicalResource::new("db1").at("host=db1.example")).await?;
    assert_eq!(node.actor::<ProfileRef>("alice")?.home().await?, "host=db1.example");

    let pool: ResourcePool<Shouting> = ResourcePool::open(&node, "loud").await?;
    assert!(pool.run("hello".into()).await?.starts_with("HELLO at "));
    Ok(())
}

/// A type is the same for those who depend on the crate behind the feature, and for the façade.
#[test]
fn both_paths_lead_to_one_type() {
    let by_the_facade = PoolSettings::default();
    let by_its_crate: mainstay_governance::pool::PoolSettings = by_the_facade;
    assert_eq!(by_its_crate, by_the_facade);
    fn takes(_: mainstay_api::Result<mainstay_api::ActorId>) {}
    takes(Ok::<mainstay::ActorId, mainstay::Error>(ActorId::from(1)));
}
