//! How a shard reads: what it knows, what it loads, and what it lets go.

use mainstay::contract;
use mainstay::prelude::*;
use tokio::time::Instant;

use super::{CacheShardActor, Caller, Loading, overloaded};
use crate::cache::entries::Found;
use crate::cache::source::CacheSource;
use crate::metric::Operation;

/// How many loads one shard has under way; beyond, they wait.
const LOADS_MAX: usize = 64;

/// How many keys may wait to be loaded by one shard; beyond is `Overloaded`.
const LOADS_WAITING_MAX: usize = 4096;

/// How many callers may wait for one key; beyond is `Overloaded`.
const CALLERS_PER_KEY_MAX: usize = 10_000;

impl<S: CacheSource> CacheShardActor<S> {
    /// What is known of a key: what is yet to be written before everything else.
    pub(super) fn known(&mut self, key: &S::Key) -> Found<S::Value> {
        match self.buffer.get(key) {
            Some(value) => Found::Fresh(value.clone()),
            None => self.entries.get(key, Instant::now()),
        }
    }

    /// Loads a key, unless that is under way.
    pub(super) fn load(&mut self, key: S::Key, caller: Option<Caller<S::Value>>) -> Result<()> {
        if let Some(loading) = self.loading.get_mut(&key) {
            loading.callers.retain(|caller| !caller.is_gone());
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

    /// Loads a key in the background, unless that is under way or too many wait to be loaded: then it is loaded when it is
    /// asked for again.
    pub(super) fn revalidate(&mut self, key: S::Key) -> Result<()> {
        if !self.has_room_to_load() || self.loading.contains_key(&key) {
            return Ok(());
        }
        self.metrics.refreshes.increment(1);
        self.load(key, None)
    }

    /// True if there is room for loads that nobody waits for.
    pub(super) fn has_room_to_load(&self) -> bool {
        self.queued.len() < LOADS_WAITING_MAX / 2
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
            (false, Err(error)) => {
                self.metrics.failed(Operation::Load);
                self.stale(&key, error, &loading.callers)
            }
        };
        for caller in loading.callers {
            match (caller, &answer) {
                (Caller::Waits(responder), Ok(value)) => responder.respond(Ok(value.clone())),
                (Caller::Waits(responder), Err(error)) => {
                    responder.respond(Err(Error::new(error.kind(), error.to_string())));
                }
                (Caller::Preloads(number), answer) => {
                    self.preloads.ended(number, answer.as_ref().map(Option::is_some));
                }
            }
        }
        self.begin_loads()
    }

    /// Keeps what the source has, for as long as that is good.
    pub(super) fn keep(&mut self, key: S::Key, value: Option<S::Value>) {
        let settings = self.provision.settings();
        let fresh_for = if value.is_some() { Some(settings.fresh_for) } else { settings.absent_for };
        let bytes = contract::encode(&(&key, &value)).map_or(usize::MAX, |bytes| bytes.len());
        match fresh_for {
            Some(fresh_for) => self.entries.put(key, value, bytes, Instant::now() + fresh_for),
            None => self.entries.remove(&key),
        }
    }

    /// What is given if the source fails.
    fn stale(&mut self, key: &S::Key, error: Error, callers: &[Caller<S::Value>]) -> Result<Option<S::Value>> {
        let stale_for = self.provision.settings().stale_for.unwrap_or_default();
        match self.entries.get(key, Instant::now()) {
            // A refresh ahead that has failed.
            Found::Fresh(value) => Ok(value),
            Found::Stale(value, age) if age < stale_for => {
                tracing::warn!(cache = S::NAME, ?key, ?error, ?age, "the source has failed: giving what is stale");
                let waiting = callers.iter().filter(|caller| matches!(caller, Caller::Waits(_))).count();
                self.metrics.stale.increment(waiting as u64);
                Ok(value)
            }
            _ => Err(error),
        }
    }

    pub(super) fn supersede(&mut self, key: &S::Key) {
        if let Some(loading) = self.loading.get_mut(key) {
            loading.is_superseded = true;
        }
    }

    pub(super) async fn tidy(&mut self) -> Result<()> {
        let (settings, now) = (self.provision.settings(), Instant::now());
        self.entries.tidy(now, settings.stale_for.unwrap_or_default());
        let ahead = settings.refresh_ahead;
        for key in ahead.map_or_else(Vec::new, |ahead| self.entries.due(now, ahead)) {
            self.revalidate(key)?;
        }
        Ok(())
    }
}
