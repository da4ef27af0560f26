use std::fmt;
use std::sync::Arc;

use mainstay::contract;
use mainstay::partitioning::hash;
use mainstay::prelude::*;

use super::shard::CachingRef;
use super::source::CacheSource;
use crate::reach::Reach;

/// A cache that all nodes share, in front of a [`CacheSource`]. Cheap to clone. See the [module](super).
pub struct SmartCache<S: CacheSource> {
    shards: Arc<[CachingRef<S>]>,
}

/// What a cache has, all shards together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// How many values are in memory.
    pub entries: u64,
    /// How many bytes they have, as they are serialized.
    pub bytes: u64,
    /// How many writes are acknowledged and not with the source yet.
    pub buffered: u64,
}

impl<S: CacheSource> Clone for SmartCache<S> {
    fn clone(&self) -> Self {
        Self { shards: self.shards.clone() }
    }
}

impl<S: CacheSource> fmt::Debug for SmartCache<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SmartCache({:?})", S::NAME)
    }
}

impl<S: CacheSource> SmartCache<S> {
    /// The cache of a source, which the node was [given](super::serve).
    ///
    /// # Errors
    /// `NotFound` if the node was not given the source; `Invalid` for a source without shards.
    pub fn open(node: &impl Reach) -> Result<Self> {
        if S::SHARDS == 0 {
            return Err(Error::invalid(format!("the cache {} has no shards: give `SHARDS` at least 1", S::NAME)));
        }
        let shards = (0..S::SHARDS).map(|number| node.services().actor(i64::from(number)));
        Ok(Self { shards: shards.collect::<Result<_>>()? })
    }

    /// The value of a key. From memory while it is good; otherwise it is loaded, once for all who ask meanwhile. What was
    /// written is seen, whether the source has it yet or not.
    ///
    /// # Errors
    /// Those of the source, unless a value that is stale may be given; `Overloaded` if too many wait; those of a call.
    pub async fn get(&self, key: &S::Key) -> Result<Option<S::Value>> {
        self.shard(key)?.get(key.clone()).await
    }

    /// Writes a value. Returns when the source has it, or, if writes are behind, when it is durable in the cache: then it
    /// will be written to the source whatever happens.
    ///
    /// # Errors
    /// Those of the source, if writes go through: it may have the value or not, and is asked when the key is read next.
    /// `Overloaded` if too many writes wait; those of a call and of a commit.
    pub async fn put(&self, key: S::Key, value: S::Value) -> Result<()> {
        self.shard(&key)?.put(key, Some(value)).await
    }

    /// Removes the value of a key, as [`put`](SmartCache::put) writes one.
    ///
    /// # Errors
    /// As there.
    pub async fn remove(&self, key: S::Key) -> Result<()> {
        self.shard(&key)?.put(key, None).await
    }

    /// Forgets what is in memory of a key, because somebody else has changed it at the source. What was written here and is
    /// not with the source yet stays.
    ///
    /// # Errors
    /// Those of a call.
    pub async fn invalidate(&self, key: &S::Key) -> Result<()> {
        self.shard(key)?.invalidate(key.clone()).await
    }

    /// Writes everything to the source that was acknowledged before, and returns when it has it.
    ///
    /// # Errors
    /// Those of the source: what was acknowledged is tried again; those of a call.
    pub async fn flush(&self) -> Result<()> {
        let flushes = self.shards.iter().map(|shard| async move { shard.flush().await });
        futures_util::future::try_join_all(flushes).await.map(drop)
    }

    /// What there is.
    ///
    /// # Errors
    /// Those of a call.
    pub async fn status(&self) -> Result<CacheStatus> {
        let mut status = CacheStatus::default();
        for shard in self.shards.iter() {
            let part = shard.status().await?;
            status.entries += part.entries;
            status.bytes += part.bytes;
            status.buffered += part.buffered;
        }
        Ok(status)
    }

    fn shard(&self, key: &S::Key) -> Result<&CachingRef<S>> {
        let place = hash(&contract::encode(key)?);
        let index = place.rem_euclid(i64::from(S::SHARDS.max(1)));
        usize::try_from(index)
            .ok()
            .and_then(|index| self.shards.get(index))
            .ok_or_else(|| Error::fatal(format!("the cache {} has no shard {index}", S::NAME)))
    }
}
