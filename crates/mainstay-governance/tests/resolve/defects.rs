//! The defects of the original's resolvers, one by one: none of them is here.

use std::collections::BTreeSet;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::resolve::{self, PhysicalResource, Policy, Resolver, ResolverSettings, StaticResolver};
use serde::{Deserialize, Serialize};

use super::{home, open, start, two_databases};

/// The original keeps the first caller's answer in one static for everybody, uses the region for the database too, and
/// gives negative ids a database that does not exist.
#[test]
fn static_resolver_answers_each_user_by_id_and_region_and_not_by_who_asked_first() {
    let resources = (0..2).flat_map(|server| {
        (0..4).map(move |db| {
            PhysicalResource::new(format!("SERVER_{server};DB_{db}")).in_region(format!("region {server}"))
        })
    });
    let resolver = StaticResolver::new(resources).unwrap();
    let name = |user: i64, region: &str| resolver.resolve(user, region).unwrap().name.clone();
    assert_eq!(name(6, "region 0"), "SERVER_0;DB_2");
    assert_eq!(name(7, "region 1"), "SERVER_1;DB_3");
    assert_eq!(name(6, "region 0"), "SERVER_0;DB_2");
    assert_eq!(name(-1, "region 1"), "SERVER_1;DB_3");
    assert_eq!(name(i64::MIN, "region 1"), "SERVER_1;DB_0");
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Profile {
    name: String,
    country: String,
    age: u32,
}

#[interface]
trait User {
    /// Answers with the resource that was used.
    async fn update_profile(&mut self, profile: Profile) -> Result<String>;
    async fn profile(&self) -> Result<Profile>;
}

#[derive(Actor)]
#[actor(implements(User))]
struct UserActor {
    profile: State<Profile>,
    #[open(Resolver::open(&ctx, "users", ResolverSettings::default()).await)]
    resolver: Resolver,
    ctx: Context,
}

impl User for UserActor {
    async fn update_profile(&mut self, profile: Profile) -> Result<String> {
        let used = self.resolver.with(self.ctx.id(), async |resolution| Ok(resolution.resource.address)).await?;
        *self.profile = profile;
        Ok(used)
    }

    async fn profile(&self) -> Result<Profile> {
        Ok(self.profile.clone())
    }
}

/// In the original a user asks for its resource once in its life, so that moving it has no effect; and what it is told to
/// store it forgets.
#[tokio::test]
async fn user_that_is_moved_uses_its_new_resource_on_its_very_next_call() {
    let mut node = TestNode::start(|node| resolve::serve(node).actor::<UserActor>()).await.unwrap();
    let users = two_databases(&node, Policy::Refuse).await;
    users.assign(23, "db1").await.unwrap();
    let user: UserRef = node.actor(23).unwrap();
    let anna = Profile { name: "Anna".into(), country: "BR".into(), age: 41 };
    assert_eq!(user.update_profile(anna.clone()).await.unwrap(), "db1");
    for target in ["db2", "db1", "db2"] {
        users.move_entity(23, target).await.unwrap();
        assert_eq!(user.update_profile(anna.clone()).await.unwrap(), target);
    }
    let partition = users.resolve(23).await.unwrap().partition;
    users.move_partition(partition, "db1").await.unwrap();
    assert_eq!(user.update_profile(anna.clone()).await.unwrap(), "db1");

    node.kill().await.unwrap();
    let user: UserRef = node.actor(23).unwrap();
    assert_eq!(user.profile().await.unwrap(), anna);
    assert_eq!(user.update_profile(anna).await.unwrap(), "db1");
}

/// In the original an entity that is not in the cache is an exception about a missing key.
#[tokio::test]
async fn unknown_entity_gets_an_error_that_says_what_to_do() {
    let node = start().await;
    let users = two_databases(&node, Policy::Refuse).await;
    let error = users.resolve("nobody").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("\"users\" does not know \"nobody\": assign it"), "{error}");
    users.assign("nobody", "db2").await.unwrap();
    assert_eq!(users.resolve("nobody").await.unwrap().resource.name, "db2");
}

/// In the original one actor answers for everybody. Here each entity belongs to one of many shards, and the map is not
/// asked at all when an entity is.
#[tokio::test]
async fn resolver_is_no_bottleneck_because_many_shards_share_the_entities() {
    let node = start().await;
    let users = two_databases(&node, Policy::LeastLoaded).await;
    for entity in 0..200 {
        users.resolve(entity * 16).await.unwrap();
    }
    let mut shards = node.actors_named("mainstay.ResolverShard").unwrap().all();
    let mut active = BTreeSet::new();
    while let Some(shard) = shards.next().await.unwrap() {
        active.insert(shard.id.to_string());
    }
    assert_eq!(active.len(), 16, "{active:?}");
}

/// In the original the cache only grows, and is never refreshed.
#[tokio::test]
async fn memory_of_a_holder_is_bounded_and_never_wrong() {
    let node = start().await;
    let settings = ResolverSettings { policy: Policy::LeastLoaded, remembered_max: 8, ..ResolverSettings::default() };
    let users = Resolver::open(&*node, "users", settings).await.unwrap();
    for name in ["db1", "db2"] {
        users.add_resource(PhysicalResource::new(name)).await.unwrap();
    }
    let mut places = Vec::new();
    for entity in 0..100 {
        places.push(home(&users, entity).await);
    }
    let other = open(&node, Policy::Refuse).await;
    for entity in 0..100 {
        let target = if places[entity as usize] == "db1" { "db2" } else { "db1" };
        other.move_entity(entity, target).await.unwrap();
        assert_eq!(home(&users, entity).await, target);
    }
    node.advance(Duration::from_secs(60)).await;
    assert_ne!(home(&users, 0).await, places[0]);
}
