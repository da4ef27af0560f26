use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mainstay::actor::deferred;
use mainstay::contract;
use mainstay::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::buffer::Buffer;
use super::entries::{Entries, Found};
use super::provision::CacheProvision;
use super::settings::WriteMode;
use super::source::CacheSource;

/// How many loads one shard has under way; beyond, they wait.
const LOADS_MAX: usize = 64;

/// How many keys may wait to be loaded by one shard; beyond is `Overloaded`.
const LOADS_WAITING_MAX: usize = 4096;

/// How many callers may wait for one key; beyond is `Overloaded`.
const CALLERS_PER_KEY_MAX: usize = 10_000;

/// How many may wait for one shard to be flushed; beyond is `Overloaded`.
const FLUSHES_WAITING_MAX: usize = 4096;

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
    /// What is acknowledged and not with the source yet, as it is stored under names.
    buffer: Buffer<S::Key, S::Value>,
    /// Those who wait until what was buffered up to a version is with the source.
    flushing: Vec<(u64, Responder<()>)>,
    /// What is to go through to the source.
    through: VecDeque<Write<S::Key, S::Value>>,
    /// The writes that are on their way, if any are.
    storing: Option<Storing<S::Key, S::Value>>,
    ctx: Context,
}

/// A load that is under way or waits to be, for all who want it.
struct Loading<V> {
    callers: Vec<Responder<Option<V>>>,
    /// True if what comes of it is older than something that was written or invalidated meanwhile.
    is_superseded: bool,
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
        let settings = &self.provision.settings;
        settings.check(S::SHARDS)?;
        let share = |all: usize| (all / S::SHARDS.max(1) as usize).max(1);
        self.entries = Entries::new(share(settings.entries_max), share(settings.bytes_max));
        let tick = settings.refresh_ahead.unwrap_or(settings.fresh_for) / 2;
        let tick = tick.max(Duration::from_millis(1));
        self.ctx.set_timer(TIDY, tick, Some(tick), Self::tidy)?;
        self.buffer = Buffer::restore(self.ctx.state())?;
        Ok(())
    }
}

impl<S: CacheSource> Caching<S> for CacheShardActor<S> {
    async fn get(&mut self, key: S::Key) -> Result<Deferred<Option<S::Value>>> {
        let (answer, responder) = deferred();
        match self.known(&key) {
            Found::Fresh(value) => responder.respond(Ok(value)),
            _ => self.load(key, Some(responder))?,
        }
        Ok(answer)
    }

    async fn put(&mut self, key: S::Key, value: Option<S::Value>) -> Result<Deferred<()>> {
        let (answer, responder) = deferred();
        let settings = &self.provision.settings;
        let buffered_max = settings.buffered_max / S::SHARDS.max(1) as usize;
        match settings.writes {
            WriteMode::Behind { flush_after } => {
                self.put_behind(key, value, buffered_max, flush_after)?;
                responder.respond(Ok(()));
            }
            // What was acknowledged earlier under another setting must not be lost if this fails, nor come after it.
            WriteMode::Through if self.buffer.contains(&key) => {
                let version = self.put_behind(key, value, buffered_max, settings.fresh_for)?;
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
        self.flushing.retain(|(_, responder)| !responder.is_abandoned());
        if self.flushing.len() >= FLUSHES_WAITING_MAX {
            return Err(overloaded(format!("{FLUSHES_WAITING_MAX} wait for a shard of {} to be flushed", S::NAME)));
        }
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

/// Reading.
impl<S: CacheSource> CacheShardActor<S> {
    /// What is known of a key: what is yet to be written before everything else.
    fn known(&mut self, key: &S::Key) -> Found<S::Value> {
        match self.buffer.get(key) {
            Some(value) => Found::Fresh(value.clone()),
            None => self.entries.get(key, Instant::now()),
        }
    }

    /// Loads a key, unless that is under way.
    fn load(&mut self, key: S::Key, caller: Option<Responder<Option<S::Value>>>) -> Result<()> {
        if let Some(loading) = self.loading.get_mut(&key) {
            loading.callers.retain(|caller| !caller.is_abandoned());
            if loading.callers.len() >= CALLERS_PER_KEY_MAX {
                return Err(overloaded(format!("{CALLERS_PER_KEY_MAX} callers wait for one key of {}", S::NAME)));
            }
            loading.callers.extend(caller);
            return Ok(());
        }
        if self.queued.len() >= LOADS_WAITING_MAX {
            return Err(overloaded(format!("{LOADS_WAITING_MAX} keys of {} wait to be loaded by one shard", S::NAME)));
        }
        self.queued.push_back(key.clone());
        let callers = caller.into_iter().collect();
        self.loading.insert(key, Loading { callers, is_superseded: false });
        self.begin_loads()
    }

    fn begin_loads(&mut self) -> Result<()> {
        while self.loads < LOADS_MAX {
            let Some(key) = self.queued.pop_front() else { break };
            let provision = self.provision.share();
            self.ctx.then(
                async move {
                    let outcome = provision.load(&key).await;
                    (key, outcome)
                },
                Self::loaded,
            )?;
            self.loads += 1;
        }
        Ok(())
    }

    async fn loaded(&mut self, (key, outcome): (S::Key, Result<Option<S::Value>>)) -> Result<()> {
        self.loads = self.loads.saturating_sub(1);
        let Some(loading) = self.loading.remove(&key) else { return self.begin_loads() };
        let answer = match (loading.is_superseded, outcome) {
            (true, _) => match self.known(&key) {
                Found::Fresh(value) => Ok(value),
                // Invalidated meanwhile: what came may be of before.
                _ => {
                    self.queued.push_back(key.clone());
                    self.loading.insert(key, Loading { is_superseded: false, ..loading });
                    return self.begin_loads();
                }
            },
            (false, Ok(value)) => {
                self.keep(key, value.clone());
                Ok(value)
            }
            (false, Err(error)) => self.stale(&key, error),
        };
        for caller in loading.callers {
            caller.respond(match &answer {
                Ok(value) => Ok(value.clone()),
                Err(error) => Err(Error::new(error.kind(), error.to_string())),
            });
        }
        self.begin_loads()
    }

    /// Keeps what the source has, for as long as that is good.
    fn keep(&mut self, key: S::Key, value: Option<S::Value>) {
        let settings = &self.provision.settings;
        let fresh_for = if value.is_some() { Some(settings.fresh_for) } else { settings.absent_for };
        let bytes = contract::encode(&(&key, &value)).map_or(usize::MAX, |bytes| bytes.len());
        match fresh_for {
            Some(fresh_for) => self.entries.put(key, value, bytes, Instant::now() + fresh_for),
            None => self.entries.remove(&key),
        }
    }

    /// What is given if the source fails.
    fn stale(&mut self, key: &S::Key, error: Error) -> Result<Option<S::Value>> {
        let stale_for = self.provision.settings.stale_for.unwrap_or_default();
        match self.entries.get(key, Instant::now()) {
            // A refresh ahead that has failed.
            Found::Fresh(value) => Ok(value),
            Found::Stale(value, age) if age < stale_for => {
                tracing::warn!(cache = S::NAME, ?key, ?error, ?age, "the source has failed: giving what is stale");
                Ok(value)
            }
            _ => Err(error),
        }
    }

    fn supersede(&mut self, key: &S::Key) {
        if let Some(loading) = self.loading.get_mut(key) {
            loading.is_superseded = true;
        }
    }

    async fn tidy(&mut self) -> Result<()> {
        let (settings, now) = (&self.provision.settings, Instant::now());
        self.entries.tidy(now, settings.stale_for.unwrap_or_default());
        let ahead = settings.refresh_ahead;
        for key in ahead.map_or_else(Vec::new, |ahead| self.entries.due(now, ahead)) {
            // If too many wait already, it is loaded when it is asked for.
            if self.queued.len() < LOADS_WAITING_MAX / 2 {
                self.load(key, None)?;
            }
        }
        Ok(())
    }
}

/// Writing.
impl<S: CacheSource> CacheShardActor<S> {
    /// Buffers a write, and says as which version.
    fn put_behind(
        &mut self,
        key: S::Key,
        value: Option<S::Value>,
        buffered_max: usize,
        flush_after: Duration,
    ) -> Result<u64> {
        if self.buffer.len() >= buffered_max && !self.buffer.contains(&key) {
            return Err(self.full(buffered_max));
        }
        if self.buffer.is_empty() || self.ctx.reminder(FLUSH)?.is_none() {
            self.ctx.remind(FLUSH).after(flush_after).every(flush_after).set()?;
        }
        self.supersede(&key);
        self.entries.remove(&key);
        let version = self.buffer.put(self.ctx.state_mut(), key, value)?;
        if self.buffer.len() >= self.provision.settings.batch_max {
            self.store()?;
        }
        Ok(version)
    }

    /// Writes the next batch, unless one is on its way.
    fn store(&mut self) -> Result<()> {
        if self.storing.is_some() {
            return Ok(());
        }
        let batch_max = self.provision.settings.batch_max;
        let (storing, batch) = if self.through.is_empty() {
            let batch = self.buffer.next_batch(batch_max);
            let versions = batch.iter().map(|(key, _, version)| (key.clone(), *version)).collect();
            let batch: Vec<_> = batch.into_iter().map(|(key, value, _)| (key, value)).collect();
            (Storing::Behind(versions), batch)
        } else {
            let writes: Vec<Write<S::Key, S::Value>> =
                self.through.drain(..batch_max.min(self.through.len())).collect();
            // Of several writes of one key the last one counts.
            let last: BTreeMap<_, _> = writes.iter().map(|write| (write.key.clone(), write.value.clone())).collect();
            (Storing::Through(writes), last.into_iter().collect())
        };
        if batch.is_empty() {
            return Ok(());
        }
        let provision = self.provision.share();
        self.ctx.then(async move { provision.store(&batch).await }, Self::stored)?;
        self.storing = Some(storing);
        Ok(())
    }

    async fn stored(&mut self, outcome: Result<()>) -> Result<()> {
        match (self.storing.take(), outcome) {
            (None, _) => {}
            (Some(Storing::Through(writes)), outcome) => self.stored_through(writes, outcome),
            (Some(Storing::Behind(written)), Ok(())) => {
                for (key, value) in self.buffer.written(self.ctx.state_mut(), written)? {
                    self.keep(key, value);
                }
                self.answer_flushing();
                if self.buffer.is_empty() {
                    self.ctx.cancel_reminder(FLUSH)?;
                }
            }
            (Some(Storing::Behind(unwritten)), Err(error)) => {
                let buffered = self.buffer.len();
                tracing::warn!(cache = S::NAME, buffered, ?error, "writes could not be written, will be tried again");
                self.buffer.refused(unwritten, error.is_retryable());
                for (_, responder) in self.flushing.drain(..) {
                    responder.respond(Err(Error::new(error.kind(), error.to_string())));
                }
            }
        }
        self.store_on()
    }

    fn stored_through(&mut self, writes: Vec<Write<S::Key, S::Value>>, outcome: Result<()>) {
        for Write { key, value, responder } in writes {
            self.supersede(&key);
            match &outcome {
                Ok(()) => {
                    self.keep(key, value);
                    responder.respond(Ok(()));
                }
                Err(error) => {
                    // What the source has now, nobody knows.
                    self.entries.remove(&key);
                    responder.respond(Err(Error::new(error.kind(), error.to_string())));
                }
            }
        }
    }

    /// Goes on with what need not wait to be gathered.
    fn store_on(&mut self) -> Result<()> {
        let is_full = self.buffer.ready() >= self.provision.settings.batch_max;
        let is_urgent = is_full || !self.flushing.is_empty() || self.buffer.is_sorting_out();
        if is_urgent || !self.through.is_empty() { self.store() } else { Ok(()) }
    }

    fn answer_flushing(&mut self) {
        let oldest = self.buffer.oldest_version().unwrap_or(u64::MAX);
        for (_, responder) in self.flushing.extract_if(.., |(version, _)| *version < oldest) {
            responder.respond(Ok(()));
        }
    }

    fn full(&self, buffered_max: usize) -> Error {
        overloaded(format!("{buffered_max} writes wait in one shard of {} already (buffered_max)", S::NAME))
    }
}

fn overloaded(text: String) -> Error {
    Error::new(ErrorKind::Overloaded, format!("{text}: slow down and retry"))
}
