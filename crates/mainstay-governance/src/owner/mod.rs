//! One owner of the real thing: a file, a connection, an account.
//!
//! Two processes that append to one file lose rows; a connection that two tasks use at once answers the wrong one. A
//! [`ResourceOwner`] is an actor that alone holds such a thing, by its key: there is one of it in the cluster, and its jobs
//! come one at a time. A [`Resource`] says how the thing is opened and used:
//!
//! ```
//! use mainstay::prelude::*;
//! use mainstay::governance::owner::{Opening, OwnerRef, Resource, ResourceOwner};
//!
//! /// A journal of lines, which here is only memory.
//! struct Journal;
//!
//! impl Resource for Journal {
//!     const NAME: &'static str = "journal";
//!     type Handle = Vec<String>;
//!     type Job = String;
//!     type Reply = usize;
//!
//!     async fn open(&self, opening: &Opening) -> Result<Vec<String>> {
//!         Ok(vec![format!("{} opened with token {}", opening.key, opening.fence)])
//!     }
//!
//!     async fn run(&self, lines: &mut Vec<String>, line: String) -> Result<usize> {
//!         lines.push(line);
//!         Ok(lines.len())
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path();
//! let node = ResourceOwner::serve(Node::builder().data_dir(folder), Journal).start().await?;
//! let journal: OwnerRef<Journal> = node.actor("2024")?;
//! assert_eq!(journal.run("hello".into()).await?, 2);
//! assert_eq!(journal.run("again".into()).await?, 3);
//! node.stop().await; // closes it
//! # Ok(())
//! # }
//! ```
//!
//! # Never two at once
//!
//! - *In a process* an actor has one object at a time, and what it had open is closed before it is opened again.
//! - *In a cluster* an actor has one activation. An owner that is cut off does not know that its time is over, and so every
//!   opening has a [`Fence`]: a token that is larger than all before. It is raised and **saved before** the resource is
//!   opened, which an owner whose time is over can not do. What is outside opens only for a token that is larger than the
//!   highest it has seen ([`Fence::raise`]), and refuses to be written with a smaller one ([`Fence::admit`]).
//! - *By mistake* two actors that are not the same may be given one thing: an owner and a queue by one key. Each has tokens of its own,
//!   and so what is outside also remembers the [`Holder`], and refuses another: a [`Claim`] is both.
//!
//! An owner whose tokens begin anew, because it was deleted, was restored from a backup or has a new folder of data, is refused
//! once; then it goes on from the token that the outside remembers, in a new [`FenceLineage`].
//!
//! # When something fails
//!
//! | what | becomes of the job | becomes of the handle |
//! |---|---|---|
//! | opening fails, or takes longer than `open_time_max` | `Retry` with the cause | opened again after a pause, which doubles each time ([`Backoff`]); jobs that come meanwhile fail at once with `Retry` and say how long it takes |
//! | a job fails, and [`Resource::breaks`] says so | its error | closed, and opened again |
//! | a job fails otherwise | its error | stays |
//! | a job takes longer than `job_time_max` | `OutcomeUnknown` | closed, and opened again |
//! | a job panics | `OutcomeUnknown` | closed, and opened again |
//! | a check fails ([`Resource::check`], every `check_interval`) | | closed, and opened again |
//! | the process is killed | `OutcomeUnknown` | dropped; the next opening has a larger token |
//!
//! It is opened again by itself, not only when it is called. Activation does not fail because of the resource.
//!
//! An owner that is not used leaves memory after the `idle_timeout` of actors and closes the resource, unless
//! [`OwnerSettings::stay_open`] is set.

mod resource;

mod opening;

mod fence;

mod holder;

mod lineage;

mod claim;

pub(crate) mod counter;

mod settings;

mod interface;

mod status;

pub(crate) mod holding;

pub(crate) mod owned;

mod actor;

pub(crate) mod guarded;

mod batching;

pub use actor::ResourceOwner;
pub use claim::Claim;
pub use fence::Fence;
pub use holder::Holder;
pub use interface::{Owner, OwnerRef};
pub use lineage::FenceLineage;
pub use mainstay::Backoff;
pub use opening::Opening;
pub use resource::{Reset, Resource};
pub use settings::OwnerSettings;
pub use status::{OwnerState, OwnerStatus};
