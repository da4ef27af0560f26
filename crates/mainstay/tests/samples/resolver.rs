//! Users who ask a resolver which resource they are to use, and who can be moved to another one.
//!
//! What the original does wrong: one resolver for all users is a bottleneck; it fails for users that it does not know; its
//! cache is never refreshed, nor is that of the users, so that nobody can ever be moved; and a profile is never stored.
//! Here each user has a resolver of its own, resolvers ask the one actor that knows about a partition, and users ask again
//! after a while.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use serde::{Deserialize, Serialize};

/// How long a user relies on what it was told.
const RESOLUTION_KEPT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Resolution {
    partition: i64,
    connection_string: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum ResolveError {
    UnknownEntity(i64),
    UnknownPartition(i64),
    Failed(String),
}

impl From<Error> for ResolveError {
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Which resource serves a logical partition. Its id is the partition.
#[interface]
trait Partition {
    async fn place(&mut self, connection_string: String) -> Result<()>;
    async fn resource(&self) -> Result<Option<String>>;
}

/// Which partition an entity belongs to. Its id is the entity.
#[interface]
trait Resolver {
    async fn assign(&mut self, partition: i64) -> Result<()>;
    async fn resolve(&self) -> Result<Resolution, ResolveError>;
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
    async fn update_profile(&mut self, profile: Profile) -> Result<String, ResolveError>;
    async fn profile(&self) -> Result<Profile>;
}

#[derive(Actor)]
#[actor(implements(Partition))]
struct PartitionActor {
    resource: State<Option<String>>,
}

impl Partition for PartitionActor {
    async fn place(&mut self, connection_string: String) -> Result<()> {
        *self.resource = Some(connection_string);
        Ok(())
    }

    async fn resource(&self) -> Result<Option<String>> {
        Ok(self.resource.clone())
    }
}

#[derive(Actor)]
#[actor(implements(Resolver))]
struct ResolverActor {
    partition: State<Option<i64>>,
    ctx: Context,
}

impl Resolver for ResolverActor {
    async fn assign(&mut self, partition: i64) -> Result<()> {
        *self.partition = Some(partition);
        Ok(())
    }

    async fn resolve(&self) -> Result<Resolution, ResolveError> {
        let entity = self.ctx.id().as_number().unwrap_or_default();
        let partition = self.partition.ok_or(ResolveError::UnknownEntity(entity))?;
        let resource = self.ctx.actor::<PartitionRef>(partition)?.resource().await?;
        let connection_string = resource.ok_or(ResolveError::UnknownPartition(partition))?;
        Ok(Resolution { partition, connection_string })
    }
}

#[derive(Actor)]
#[actor(implements(User))]
struct UserActor {
    profile: State<Profile>,
    /// What the resolver has said, for a while.
    resolution: Option<Resolution>,
    ctx: Context,
}

impl UserActor {
    async fn resolution(&mut self) -> Result<&Resolution, ResolveError> {
        if self.resolution.is_none() {
            let resolution = self.ctx.actor::<ResolverRef>(self.ctx.id())?.resolve().await?;
            self.ctx.set_timer("forget", RESOLUTION_KEPT, None, Self::forget)?;
            self.resolution = Some(resolution);
        }
        self.resolution.as_ref().ok_or_else(|| ResolveError::Failed("not resolved".into()))
    }

    async fn forget(&mut self) -> Result<()> {
        self.resolution = None;
        Ok(())
    }
}

impl User for UserActor {
    async fn update_profile(&mut self, profile: Profile) -> Result<String, ResolveError> {
        // This is where the resource would be used.
        let used = self.resolution().await?.connection_string.clone();
        *self.profile = profile;
        Ok(used)
    }

    async fn profile(&self) -> Result<Profile> {
        Ok(self.profile.clone())
    }
}

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<PartitionActor>().actor::<ResolverActor>().actor::<UserActor>()).await.unwrap()
}

fn anna() -> Profile {
    Profile { name: "Anna".into(), country: "BR".into(), age: 41 }
}

#[tokio::test]
async fn a_user_uses_its_resource_and_follows_when_it_is_moved() {
    let mut node = start().await;
    let partition: PartitionRef = node.actor(1).unwrap();
    partition.place("DB1".into()).await.unwrap();
    node.actor::<PartitionRef>(2).unwrap().place("DB2".into()).await.unwrap();
    node.actor::<ResolverRef>(23).unwrap().assign(1).await.unwrap();
    let user: UserRef = node.actor(23).unwrap();
    assert_eq!(user.update_profile(anna()).await.unwrap(), "DB1");

    // The partition moves to another resource, and then the user to another partition.
    partition.place("DB9".into()).await.unwrap();
    node.advance(RESOLUTION_KEPT).await;
    assert_eq!(user.update_profile(anna()).await.unwrap(), "DB9");
    node.actor::<ResolverRef>(23).unwrap().assign(2).await.unwrap();
    assert_eq!(user.update_profile(anna()).await.unwrap(), "DB9", "what it was told is kept for a while");
    node.advance(RESOLUTION_KEPT).await;
    assert_eq!(user.update_profile(anna()).await.unwrap(), "DB2");

    node.kill().await.unwrap();
    let user: UserRef = node.actor(23).unwrap();
    assert_eq!(user.profile().await.unwrap(), anna());
    assert_eq!(user.update_profile(anna()).await.unwrap(), "DB2");
}

#[tokio::test]
async fn who_is_not_known_is_told_so_and_nothing_is_stored() {
    let node = start().await;
    let user: UserRef = node.actor(5).unwrap();
    assert_eq!(user.update_profile(anna()).await.unwrap_err(), ResolveError::UnknownEntity(5));
    node.actor::<ResolverRef>(5).unwrap().assign(7).await.unwrap();
    assert_eq!(user.update_profile(anna()).await.unwrap_err(), ResolveError::UnknownPartition(7));
    assert_eq!(user.profile().await.unwrap(), Profile::default());
    node.actor::<PartitionRef>(7).unwrap().place("DB7".into()).await.unwrap();
    assert_eq!(user.update_profile(anna()).await.unwrap(), "DB7");
}
