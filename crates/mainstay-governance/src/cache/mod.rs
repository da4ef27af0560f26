//! What is read often, close by; and what is written often, written together.
//!
//! A [`SmartCache`] stands before a [`CacheSource`], such as a table, for all nodes: keys are spread over actors, each of which
//! has its share in memory, once in the cluster.
//!
//! ```
//! use mainstay::prelude::*;
//! use mainstay::governance::cache::{self, CacheSettings, CacheSource, SmartCache, WriteMode};
//! use std::time::Duration;
//!
//! /// A table of names, far away.
//! struct Names;
//!
//! impl CacheSource for Names {
//!     const NAME: &'static str = "names";
//!     type Key = i64;
//!     type Value = String;
//!
//!     async fn load(&self, key: &i64) -> Result<Option<String>> {
//!         Ok((*key > 0).then(|| format!("number {key}")))
//!     }
//!
//!     async fn store(&self, batch: &[(i64, Option<String>)]) -> Result<()> {
//!         // One statement for the whole batch.
//! #       let _ = batch;
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path();
//! let behind = WriteMode::Behind { flush_after: Duration::from_millis(100) };
//! let settings = CacheSettings { writes: behind, ..CacheSettings::default() };
//! let node = cache::serve(Node::builder().data_dir(folder), Names, settings).start().await?;
//! let names = SmartCache::<Names>::open(&node)?;
//!
//! assert_eq!(names.get(&7).await?.as_deref(), Some("number 7")); // loaded
//! assert_eq!(names.get(&7).await?.as_deref(), Some("number 7")); // from memory
//! names.put(7, "seven".into()).await?; // durable, and soon in the table
//! assert_eq!(names.get(&7).await?.as_deref(), Some("seven"));
//! names.flush().await?; // now in the table
//! # node.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Reading
//!
//! A value is loaded when it is asked for, once for all who ask meanwhile, and is good for a while
//! ([`fresh_for`](CacheSettings::fresh_for)). One that was used in that time is loaded again shortly before its end, in the
//! background ([`refresh_ahead`](CacheSettings::refresh_ahead)), so that no caller waits for it. The number of values and their
//! bytes are bounded; those used least recently go first. That a key has no value is remembered if
//! [`absent_for`](CacheSettings::absent_for) says so. A source that fails is tried again with growing pauses; if it goes on
//! failing, callers get the error, or what was good a moment ago if [`stale_for`](CacheSettings::stale_for) allows it. With
//! [`StaleMode::WhileRevalidate`] no caller waits for what was good a moment ago: it is given, and loaded again in the background,
//! once for all who ask.
//!
//! What will be asked for can be loaded before: by its keys ([`SmartCache::preload`]), or by those that the source
//! [lists](CacheSource::hot_keys) ([`SmartCache::preload_hot`]). Preloads take their place behind what callers wait for, and
//! never more than the cache has room for.
//!
//! # Writing
//!
//! *Through*: a write returns when the source has it. Writes that come while a batch is on its way make up the next one.
//!
//! *Behind*: a write returns when it is durable in the cache. It is then in the state of an actor, and a reminder brings it to
//! the source: **an acknowledged write is not lost**, whatever is killed when. Of several writes of one key the last one is
//! written. Reads see what is buffered. While the source fails, writes stay, and are tried again at every
//! [`flush_after`](WriteMode::Behind); beyond [`buffered_max`](CacheSettings::buffered_max) new ones are refused as
//! `Overloaded`. If the source refuses a batch for good, its writes are tried one by one, so that one bad write does
//! not hold up the others.
//!
//! After a crash a batch may be written twice, never a later write before an earlier one of the same key.

mod smart_cache;

mod preloaded;
mod settings;
mod source;

mod buffer;
mod entries;
mod provision;
mod shard;

use mainstay::node::NodeBuilder;

pub use preloaded::Preloaded;
pub use settings::{CacheSettings, StaleMode, WriteMode};
pub use shard::FLUSHES_WAITING_MAX;
pub use smart_cache::{CacheStatus, PRELOADED_TOGETHER_MAX, SmartCache};
pub use source::CacheSource;

/// Gives a node a source, and lets it serve the actors of its cache. Settings that cannot be are told by the first call. Operators
/// can set others in `[governance.caches.NAME]`, by the name of the source.
pub fn serve<S: CacheSource>(builder: NodeBuilder, source: S, settings: CacheSettings) -> NodeBuilder {
    builder
        .section_named(provision::section::<S>(), S::NAME, settings.clone())
        .provide(provision::CacheProvision::new(source, settings))
        .actor::<shard::CacheShardActor<S>>()
}
