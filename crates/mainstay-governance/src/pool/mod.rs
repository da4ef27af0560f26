//! A few owners of a resource, shared by all callers.
//!
//! A database takes a hundred connections, and there are ten thousand callers on twenty nodes. A pool in each process does not
//! help: twenty pools of ten are two hundred. A [`ResourcePool`] is one for the whole cluster: its members are actors, each
//! of which holds one connection, and how many of them there are is stored in one place.
//!
//! ```
//! use mainstay::prelude::*;
//! use mainstay::governance::owner::{Opening, Resource};
//! use mainstay::governance::pool::{PoolSettings, ResourcePool};
//!
//! struct Database;
//!
//! /// What would be a connection.
//! struct Connection {
//!     name: String,
//! }
//!
//! impl Resource for Database {
//!     const NAME: &'static str = "database";
//!     type Handle = Connection;
//!     type Job = String;
//!     type Reply = String;
//!
//!     async fn open(&self, opening: &Opening) -> Result<Connection> {
//!         Ok(Connection { name: opening.key.clone() })
//!     }
//!
//!     async fn run(&self, connection: &mut Connection, query: String) -> Result<String> {
//!         Ok(format!("{query} by {}", connection.name))
//!     }
//!
//!     fn pool_settings(&self) -> PoolSettings {
//!         PoolSettings { initial_size: 1, ..PoolSettings::default() }
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path();
//! let node = ResourcePool::serve(Node::builder().data_dir(folder), Database).start().await?;
//! let orders = ResourcePool::<Database>::open(&node, "orders").await?; // in an actor: `&self.ctx`
//! assert_eq!(orders.run("select 1".into()).await?, "select 1 by orders/0");
//!
//! orders.resize(8).await?; // while it is in use, and for good
//! let status = orders.status().await?;
//! assert_eq!((status.size, status.members.len()), (8, 8));
//! node.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Who decides
//!
//! A pool is [`Coordination::Client`] unless its settings say otherwise: a handle knows the members, picks one ([`Pick`], or by
//! a key with [`run_by_key`](ResourcePool::run_by_key)) and calls it directly. Nothing stands between the caller and the
//! member, and jobs wait in the member's line.
//!
//! In a pool that is [`Coordination::Server`] the coordinator leases members, each to one caller at a time. Callers wait
//! in one line for all members, by [`Priority`] and then in the order in which they came; a caller that waits long gains priority,
//! so that none waits for ever. [`lease`](ResourcePool::lease) gives a member for as many jobs as it takes, such as those of a
//! database transaction:
//!
//! ```
//! # use mainstay::prelude::*;
//! # use mainstay::governance::owner::{Opening, Resource};
//! # use mainstay::governance::pool::{Coordination, PoolSettings, Priority, ResourcePool};
//! # struct Database;
//! # impl Resource for Database {
//! #     const NAME: &'static str = "database";
//! #     type Handle = u32;
//! #     type Job = String;
//! #     type Reply = u32;
//! #     async fn open(&self, _: &Opening) -> Result<u32> { Ok(0) }
//! #     async fn run(&self, jobs: &mut u32, _: String) -> Result<u32> { *jobs += 1; Ok(*jobs) }
//! #     fn pool_settings(&self) -> PoolSettings {
//! #         PoolSettings { initial_size: 2, coordination: Coordination::Server, ..PoolSettings::default() }
//! #     }
//! # }
//! # #[tokio::main]
//! # async fn main() -> Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path();
//! # let node = ResourcePool::serve(Node::builder().data_dir(folder), Database).start().await?;
//! let orders = ResourcePool::<Database>::open(&node, "orders").await?;
//! let lease = orders.with_priority(Priority::HIGH).lease().await?;
//! assert_eq!(lease.run("begin".into()).await?, 1);
//! assert_eq!(lease.run("commit".into()).await?, 2); // no other job was in between
//! drop(lease);
//! # node.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! A lease is renewed by itself. If its holder dies it expires, and is given on after the member was told to refuse the old
//! token: a holder that was only slow finds its next job refused.
//!
//! Nothing of one holder is found by the next: when a lease ends, the resource is [reset](crate::owner::Resource::reset), which
//! is to be closed, and opened for the next job, unless it says that it can do better. A job by [`run`](ResourcePool::run) is a
//! lease of its own here, so a resource whose jobs leave nothing behind should say so. A coordinator that is activated anew
//! knows its leases by their renewals; until a lease would have expired, a member that may have a holder is not given away.
//!
//! A pool whose jobs are batches is a [`BatchWriter`](crate::batch::BatchWriter), and so is an
//! [`OwnerRef`](crate::owner::OwnerRef): a [`BatchExecutor`](crate::batch::BatchExecutor) in front of it makes many small
//! calls a few large jobs.
//!
//! # Why the cap holds
//!
//! A resource is open only in a member, which is an actor: there is one activation of it in the cluster. Before every
//! opening a member asks the coordinator whether its number is below the size of the pool, and the coordinator's word is
//! stored. A caller that goes by an older size reaches a member that is refused, which hands the job back; the caller looks
//! again and goes elsewhere, without an error.
//!
//! When a pool shrinks, its new size is stored first. Then the members above it are told to go: each finishes what it was
//! given before, closes, and answers; only then [`resize`](ResourcePool::resize) returns. If the coordinator is killed in
//! between, it goes on when it is back.
//!
//! # When something fails
//!
//! What fails in a member is [as with an owner](crate::owner#when-something-fails), with one difference: a job that has not
//! begun is not refused but goes to another member, and waits if all of them rest, up to the time limit of the handle. Each
//! member has a circuit breaker: after some failures in a row it is left alone ([`BreakerSettings`]), then given a trial. A job
//! that *has* begun is never repeated by the pool, because only its author knows whether that is safe.
//!
//! | limit | name | beyond |
//! |---|---|---|
//! | members of a pool | [`MEMBERS_MAX`] | `Invalid` |
//! | jobs that wait at a member | `mailbox` of actors, 1024 | `Overloaded` |
//! | callers that wait for a lease | [`LeaseSettings::waiting_max`] | `Overloaded` |

mod resource_pool;

mod roster;

mod pick;

mod lease;

mod priority;

mod settings;

mod status;

mod interface;

pub(crate) mod names;

mod coordinator;

mod leases;

mod line;

mod member;

mod breaker;

mod batching;

pub use crate::as_services::AsServices;
pub use breaker::{BreakerSettings, BreakerState};
pub use coordinator::PoolCoordinator;
pub use lease::Lease;
pub use member::PoolMember;
pub use pick::Pick;
pub use priority::Priority;
pub use resource_pool::ResourcePool;
pub use settings::{
    Coordination, DRAIN_TIME_MAX, LEASE_TIME_MAX, LeaseSettings, MEMBERS_MAX, PoolSettings, WAITING_MAX,
};
pub use status::{MemberReport, MemberStatus, PoolStatus};
