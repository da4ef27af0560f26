use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mainstay::actor::deferred;
use mainstay::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::buffer::Buffer;
use super::entries::{Entries, Found};
use super::preloaded::Preloaded;
use super::provision::CacheProvision;
use super::settings::{CacheSettings, StaleMode, WriteMode};
use super::source::CacheSource;
use crate::metric::CacheMetrics;

mod preloading;
mod reading;
mod writing;

use preloading::Preloads;

/// How many may wait until what one shard of a cache has buffered is with the source: those who flush it, and those whose
/// write goes through after one of the same key that was buffered. Beyond is `Overloaded`.
pub const FLUSHES_WAITING_MAX: usize = 4096;

/// The timer by which values are refreshed ahead, and old ones go.
const TIDY: &str = "tidy";

/// The reminder by which what is buffered goes to the source.
const FLUSH: &str = "flush";

/// What a shard has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardStatus {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) buffered: u64,
}

/// A share of the keys of a cache.
#[interface]
pub(crate) trait Caching<S: CacheSource> {
    /// The value of a key, which is loaded if it is not here.
    async fn get(&mut self, key: S::Key) -> Result<Deferred<Option<S::Value>>>;

    /// Loads keys that nobody has asked for yet, and answers when that has ended.
    async fn preload(&mut self, keys: Vec<S::Key>) -> Result<Deferred<Preloaded>>;

    /// Writes a value, or that there is none.
    async fn put(&mut self, key: S::Key, value: Option<S::Value>) -> Result<Deferred<()>>;

    /// Forgets what is here of a key, unless it is yet to be written.
    async fn invalidate(&mut self, key: S::Key) -> Result<()>;

    /// Answers when everything that was buffered before is with the source.
    async fn flush(&mut self) -> Result<Deferred<()>>;

    /// What there is.
    async fn status(&self) -> Result<ShardStatus>;
}

#[derive(Actor)]
#[actor(implements(Caching<S>), name = S::NAME)]
pub(crate) struct CacheShardActor<S: CacheSource> {
    provision: Provided<CacheProvision<S>>,
    entries: Entries<S::Key, S::Value>,
    loading: BTreeMap<S::Key, Loading<S::Value>>,
    /// The keys that wait to be loaded.
    queued: VecDeque<S::Key>,
    loads: usize,
    preloads: Preloads,
    /// What is acknowledged and not with the source yet, as it is stored under names.
    buffer: Buffer<S::Key, S::Value>,
    /// Those who wait until what was buffered up to a version is with the source.
    flushing: Vec<(u64, Responder<()>)>,
    /// What is to go through to the source.
    through: VecDeque<Write<S::Key, S::Value>>,
    /// The writes that are on their way, if any are.
    storing: Option<Storing<S::Key, S::Value>>,
    #[open(Ok(CacheMetrics::of(S::NAME)))]
    metrics: CacheMetrics,
    ctx: Context,
}

/// A load that is under way or waits to be, for all who want it.
struct Loading<V> {
    callers: Vec<Caller<V>>,
    /// True if what comes of it is older than something that was written or invalidated meanwhile.
    is_superseded: bool,
}

/// Who wants a load.
enum Caller<V> {
    /// One who waits for the value.
    Waits(Responder<Option<V>>),
    /// A preload, by its number.
    Preloads(u64),
}

impl<V: Serialize + DeserializeOwned + Send + 'static> Caller<V> {
    fn is_gone(&self) -> bool {
        matches!(self, Self::Waits(responder) if responder.is_abandoned())
    }
}

struct Write<K, V> {
    key: K,
    value: Option<V>,
    responder: Responder<()>,
}

/// A batch on its way to the source.
enum Storing<K, V> {
    Through(Vec<Write<K, V>>),
    /// Keys with the versions that are being written.
    Behind(Vec<(K, u64)>),
}

impl<S: CacheSource> Lifecycle for CacheShardActor<S> {
    async fn activate(&mut self) -> Result<()> {
        self.provision.configure(self.ctx.services())?;
        let settings = self.provision.settings();
        let share = |all: usize| (all / S::SHARDS.max(1) as usize).max(1);
        self.entries = Entries::new(share(settings.entries_max), share(settings.bytes_max));
        let tick = settings.refresh_ahead.unwrap_or(settings.fresh_for) / 2;
        let tick = tick.max(Duration::from_millis(1));
        self.ctx.set_timer(TIDY, tick, Some(tick), Self::tidy)?;
        self.buffer = Buffer::restore(self.ctx.state())?;
        self.metrics.buffered.set(self.buffer.len() as u64);
        Ok(())
    }
}

impl<S: CacheSource> Caching<S> for CacheShardActor<S> {
    async fn get(&mut self, key: S::Key) -> Result<Deferred<Option<S::Value>>> {
        let (answer, responder) = deferred();
        let CacheSettings { stale, stale_for, .. } = *self.provision.settings();
        match self.known(&key) {
            Found::Fresh(value) => {
                self.metrics.hits.increment(1);
                responder.respond(Ok(value));
            }
            Found::Stale(value, age) if stale == StaleMode::WhileRevalidate && Some(age) < stale_for => {
                self.metrics.stale.increment(1);
                responder.respond(Ok(value));
                self.revalidate(key)?;
            }
            _ => {
                self.metrics.misses.increment(1);
                self.load(key, Some(Caller::Waits(responder)))?;
            }
        }
        Ok(answer)
    }

    async fn preload(&mut self, keys: Vec<S::Key>) -> Result<Deferred<Preloaded>> {
        self.begin_preload(keys)
    }

    async fn put(&mut self, key: S::Key, value: Option<S::Value>) -> Result<Deferred<()>> {
        let (answer, responder) = deferred();
        let settings = self.provision.settings();
        let buffered_max = settings.buffered_max / S::SHARDS.max(1) as usize;
        match settings.writes {
            WriteMode::Behind { flush_after } => {
                self.put_behind(key, value, buffered_max, flush_after)?;
                responder.respond(Ok(()));
            }
            // What was acknowledged earlier under another setting must not be lost if this fails, nor come after it.
            WriteMode::Through if self.buffer.contains(&key) => {
                let flush_after = settings.fresh_for;
                self.make_room_to_wait()?;
                let version = self.put_behind(key, value, buffered_max, flush_after)?;
                self.flushing.push((version, responder));
                self.store()?;
            }
            WriteMode::Through => {
                if self.through.len() >= buffered_max {
                    return Err(self.full(buffered_max));
                }
                self.through.push_back(Write { key, value, responder });
                self.store()?;
            }
        }
        Ok(answer)
    }

    async fn invalidate(&mut self, key: S::Key) -> Result<()> {
        self.supersede(&key);
        self.entries.remove(&key);
        Ok(())
    }

    async fn flush(&mut self) -> Result<Deferred<()>> {
        let (answer, responder) = deferred();
        self.make_room_to_wait()?;
        self.buffer.try_all_again();
        self.flushing.push((self.buffer.version(), responder));
        self.answer_flushing();
        self.store()?;
        Ok(answer)
    }

    async fn status(&self) -> Result<ShardStatus> {
        Ok(ShardStatus {
            entries: self.entries.len() as u64,
            bytes: self.entries.bytes() as u64,
            buffered: self.buffer.len() as u64,
        })
    }
}

impl<S: CacheSource> Remindable for CacheShardActor<S> {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        self.buffer.try_all_again();
        self.store()
    }
}

fn overloaded(text: String) -> Error {
    Error::new(ErrorKind::Overloaded, format!("{text}: slow down and retry"))
}
