//! Which resource an entity lives on, and moving it while it is in use.
//!
//! A [`StaticResolver`] computes it, and cannot move anything. A [`Resolver`] looks it up in two steps: an entity is on a
//! *logical partition*, and a partition is on a *resource*. So one entity can be moved, or a partition with thousands.
//!
//! ```
//! use std::time::Duration;
//!
//! use mainstay::prelude::*;
//! use mainstay::governance::resolve::{self, PhysicalResource, Policy, Resolver, ResolverSettings};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path();
//! let node = resolve::serve(Node::builder().data_dir(folder)).start().await?;
//! let settings = ResolverSettings { policy: Policy::LeastLoaded, ..ResolverSettings::default() };
//! let users = Resolver::open(&node, "users", settings).await?;
//! users.add_resource(PhysicalResource::new("db1").at("postgres://db1.example/users")).await?;
//!
//! // A caller names the entity, and is told where that lives now.
//! let address = users.with("alice", async |resolution| Ok(resolution.resource.address)).await?;
//! assert_eq!(address, "postgres://db1.example/users");
//!
//! // Moved while it is in use: from here on no call for her begins on db1.
//! users.add_resource(PhysicalResource::new("db2").at("postgres://db2.example/users")).await?;
//! users.move_entity("alice", "db2").await?;
//! assert_eq!(users.resolve("alice").await?.resource.name, "db2");
//!
//! // And when everything has left db1, and what was under way has ended, it can be switched off.
//! users.drain_resource("db1", Duration::from_secs(30)).await?;
//! # node.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Who holds what
//!
//! One *map* actor for each resolver knows which partition is on which resource. That is small, changes seldom, and has a
//! version that grows with every change. *Shard* actors, as many as the settings say, know which partition each entity is
//! on; an entity belongs to a shard by its hash, so that none of them is a bottleneck. Both are durable. A process that has
//! a `Resolver` is a *holder*: it has a copy of the map in memory, remembers entities up to a bound, and makes no call
//! for those.
//!
//! # What a move guarantees
//!
//! Every holder has a lease from the map, which it renews in the background. A move is committed with a new version, the
//! holders are told by an event, and each takes the new map over and says so when it renews. `move_entity`, `move_partition`,
//! `add_resource` and `drain_resource` return only when every holder has said so, or has not been heard of for longer than its
//! lease, at which point it does not trust its own copy any more and begins nothing before it has heard from the map. A
//! failover of the map changes nothing: it knows by its durable state who the holders are. Hence:
//!
//! - **After a move has returned, nothing begins under the old resolution**, on whatever node: `begin` and `with` of a holder
//!   fail with [`Moved`], at once and without asking anybody, and `with` looks again by itself.
//! - **At the resource too.** A call may have begun in time and arrive late. Send [`Resolution::ticket`] along, and let the
//!   owner of the resource [`enter`](Guard::enter) it by its own [`Guard`]: that is a holder like the others, so the move
//!   waited for it, and it refuses what was resolved before.
//! - **While a move is under way**, some holders begin calls on the old resource and some on the new one. Calls that began
//!   on the old one before may still run when the move has returned. `drain_resource` waits for these as well, within
//!   its deadline.
//! - A holder that cannot reach the map for a whole lease counts as gone. What it has under way is not waited for; what it
//!   sends later is refused by the guard.
//! - A node that stops in order gives the leases of its holders back before, so that the first move after a restart waits for
//!   nobody; a holder that has calls under way then keeps its lease, and so does one whose process is killed.
//! - **A move that was begun is finished.** If the caller that asked for it dies, or the node does, it either has not happened or is
//!   made known by a reminder.
//! - **Forgetting is a move to nowhere.** [`Resolver::forget`] is durable, frees the place of an entity, and holds for what was
//!   resolved before as a move does; a caller that resolves the entity later finds a new one.
//!
//! This relies on clocks that run at about the same speed on all nodes (a quarter of difference is allowed for), not on
//! what they show.
//!
//! # A source
//!
//! If another system knows where entities live, a [`ResolutionSource`] can be copied by timer: see
//! [`Resolver::refresh_every`]. What it moves is moved as above. While it is down, the last good copy is good, and
//! [`Resolver::source_status`] says how old it is.

mod entity;
mod physical_resource;
mod static_resolver;

mod resolver;
mod resolvers;

mod guard;
mod moved;
mod policy;
mod resolution;
mod settings;
mod source;

mod chart;
mod holders;
mod map;
mod shard;

mod memory;
mod sight;
mod view;

use mainstay::node::NodeBuilder;
use mainstay::service::Services;

use crate::settings::RESOLVERS;

pub use chart::{ENTITY_MOVES_KEPT, PARTITIONS_MAX, RESOURCES_MAX};
pub use entity::{ENTITY_BYTES_MAX, Entity};
pub use guard::Guard;
pub use holders::HOLDERS_MAX;
pub use moved::Moved;
pub use physical_resource::{PARTITIONS_PER_RESOURCE_DEFAULT, PhysicalResource, RESOURCE_TEXT_BYTES_MAX};
pub use policy::Policy;
pub use resolution::{Resolution, Ticket};
pub use resolver::{MOVES_FOLLOWED_MAX, RESOLVER_NAME_BYTES_MAX, Resolver};
pub use settings::ResolverSettings;
pub use shard::ENTITIES_PER_SHARD_MAX;
pub use sight::Pass;
pub use source::{CATALOG_ENTITIES_MAX, Catalog, ResolutionSource, SOURCE_LOAD_TIME_MAX, SourceStatus, Sources};
pub use static_resolver::StaticResolver;

/// Lets a node serve the actors of resolvers, of whatever name.
pub fn serve(node: NodeBuilder) -> NodeBuilder {
    serve_with(node, Sources::new())
}

/// As [`serve`], for a node that can copy sources.
pub fn serve_with(node: NodeBuilder, sources: Sources) -> NodeBuilder {
    node.sections(RESOLVERS)
        .actor::<map::ResolverMapActor>()
        .actor::<shard::ResolverShardActor>()
        .provide(resolvers::Resolvers::default())
        .provide(sources)
        .before_stop(|services: Services| async move {
            if let Ok(resolvers) = services.provided::<resolvers::Resolvers>() {
                resolvers.leave().await;
            }
        })
}

#[cfg(test)]
mod tests;
