use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use mainstay::contract;
use mainstay::partitioning::hash;
use mainstay::prelude::*;

use super::preloaded::Preloaded;
use super::provision::CacheProvision;
use super::shard::CachingRef;
use super::source::CacheSource;
use crate::as_services::AsServices;
use crate::unserved::unserved;

/// A cache that all nodes share, in front of a [`CacheSource`]. Cheap to clone. See the [module](super).
pub struct SmartCache<S: CacheSource> {
    shards: Arc<[CachingRef<S>]>,
    provision: Arc<CacheProvision<S>>,
}

/// How many keys of a [preload](SmartCache::preload) are under way at a time: callers that come meanwhile wait behind so many.
pub const PRELOADED_TOGETHER_MAX: usize = 256;

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
        Self { shards: self.shards.clone(), provision: self.provision.clone() }
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
    pub fn open(node: &impl AsServices) -> Result<Self> {
        if S::SHARDS == 0 {
            return Err(Error::invalid(format!("the cache {} has no shards: give `SHARDS` at least 1", S::NAME)));
        }
        let shards = (0..S::SHARDS).map(|number| node.services().actor(i64::from(number)));
        let shards = shards.collect::<Result<_>>().map_err(unserved(
            format_args!("cache `{}`", S::NAME),
            "cache",
            "cache::serve(builder, source, settings)",
        ))?;
        Ok(Self { shards, provision: node.services().provided()? })
    }

    /// The value of a key. From memory while it is good; otherwise it is loaded, once for all who ask meanwhile. What was
    /// written is seen, whether the source has it yet or not.
    ///
    /// # Errors
    /// Those of the source, unless a value that is stale may be given; `Overloaded` if too many wait; those of a call.
    pub async fn get(&self, key: &S::Key) -> Result<Option<S::Value>> {
        self.shard(key)?.get(key.clone()).await
    }

    /// Loads keys before somebody asks for them, a few at a time, and returns when that has ended: spawn it to have it done in
    /// the background. What is in memory and good is left alone, and what is loaded counts as unused until it is asked for. No
    /// more keys are taken than the cache has room for.
    ///
    /// A key that cannot be loaded does not end it: how many there were, and why, is in what it returns and in the log.
    ///
    /// # Errors
    /// Those of a call.
    pub async fn preload(&self, keys: impl IntoIterator<Item = S::Key>) -> Result<Preloaded> {
        let mut keys = keys.into_iter();
        let (mut outcome, mut room) = (Preloaded::default(), self.provision.settings().entries_max);
        loop {
            let mut by_shard: BTreeMap<usize, Vec<S::Key>> = BTreeMap::new();
            let taken = room.min(PRELOADED_TOGETHER_MAX);
            for key in keys.by_ref().take(taken) {
                by_shard.entry(self.shard_index(&key)?).or_default().push(key);
            }
            let count = by_shard.values().map(Vec::len).sum::<usize>();
            let loads = by_shard.into_iter().filter_map(|(index, keys)| Some((self.shards.get(index)?, keys)));
            let loads = loads.map(|(shard, keys)| async move { shard.preload(keys).await });
            for part in futures_util::future::try_join_all(loads).await? {
                outcome.add(part);
            }
            room -= count;
            if count < taken || taken == 0 {
                break;
            }
        }
        outcome.is_cut = room == 0 && keys.next().is_some();
        if let Some(error) = &outcome.error {
            tracing::warn!(cache = S::NAME, failed = outcome.failed, error, "keys could not be preloaded");
        }
        Ok(outcome)
    }

    /// Loads the keys that the source [lists](CacheSource::hot_keys), as [`preload`](SmartCache::preload) does.
    ///
    /// # Errors
    /// Those of the source if it cannot list them; those of a call.
    pub async fn preload_hot(&self) -> Result<Preloaded> {
        let keys = self.provision.hot_keys().await?;
        self.preload(keys).await
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
        let index = self.shard_index(key)?;
        self.shards.get(index).ok_or_else(|| Error::fatal(format!("the cache {} has no shard {index}", S::NAME)))
    }

    fn shard_index(&self, key: &S::Key) -> Result<usize> {
        let place = hash(&contract::encode(key)?);
        // Never below zero, and below a number of 32 bits.
        Ok(place.rem_euclid(i64::from(S::SHARDS.max(1))) as usize)
    }
}
