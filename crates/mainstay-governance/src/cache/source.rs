use std::fmt::Debug;
use std::future::{Future, ready};

use mainstay::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Where a cache has its values from, and where it writes them: a table, a service, a file.
///
/// To be correct:
/// - `store` is all or nothing as far as the cache is concerned: if it fails, all of the batch may be stored again. And what
///   was stored may be stored again after a crash. So storing a value twice must be the same as storing it once, which
///   it is for plain values.
/// - Keys that are equal are serialized to the same bytes.
/// - Nobody else writes the same keys, or it is fine that the cache shows what they were for as long as it is told to.
pub trait CacheSource: Send + Sync + 'static {
    /// The name of the service that the cache's actors are.
    const NAME: &'static str;

    /// How many actors share the keys. It stays: what one of them has yet to write, another would not know.
    const SHARDS: u32 = 16;

    /// What values are found by.
    type Key: Serialize + DeserializeOwned + Ord + Clone + Debug + Send + Sync + 'static;

    /// What is cached.
    type Value: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;

    /// The value of a key, if it has one.
    fn load(&self, key: &Self::Key) -> impl Future<Output = Result<Option<Self::Value>>> + Send;

    /// The keys that are worth having in memory before somebody asks for them, the most important first: those of
    /// [`preload_hot`](crate::cache::SmartCache::preload_hot). None unless told otherwise.
    fn hot_keys(&self) -> impl Future<Output = Result<Vec<Self::Key>>> + Send {
        ready(Ok(Vec::new()))
    }

    /// Writes values, and removes the keys that come without one. Each key is in a batch once.
    fn store(&self, batch: &[(Self::Key, Option<Self::Value>)]) -> impl Future<Output = Result<()>> + Send {
        let _ = batch;
        ready(Err(Error::invalid(format!("the source {} cannot be written to: implement `store`", Self::NAME))))
    }
}
