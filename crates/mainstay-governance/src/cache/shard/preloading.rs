//! How a shard loads keys before the first caller asks for them.

use std::collections::BTreeMap;

use mainstay::actor::deferred;
use mainstay::prelude::*;
use tokio::time::Instant;

use super::{CacheShardActor, Caller, overloaded};
use crate::cache::preloaded::Preloaded;
use crate::cache::source::CacheSource;

/// The preloads that are under way, by their numbers. Each has at least one load under way, so that they are bounded with those.
#[derive(Default)]
pub(super) struct Preloads {
    under_way: BTreeMap<u64, Preload>,
    next: u64,
}

struct Preload {
    left: usize,
    outcome: Preloaded,
    responder: Responder<Preloaded>,
}

impl Preloads {
    /// Takes note that a load of a preload has ended: whether there is a value, or why that is not known.
    pub(super) fn ended(&mut self, number: u64, outcome: Result<bool, &Error>) {
        let Some(preload) = self.under_way.get_mut(&number) else { return };
        preload.outcome.note(outcome);
        preload.left = preload.left.saturating_sub(1);
        if preload.left == 0
            && let Some(Preload { outcome, responder, .. }) = self.under_way.remove(&number)
        {
            responder.respond(Ok(outcome));
        }
    }
}

impl<S: CacheSource> CacheShardActor<S> {
    /// Loads what is not here, behind what callers wait for.
    pub(super) fn begin_preload(&mut self, keys: Vec<S::Key>) -> Result<Deferred<Preloaded>> {
        let (answer, responder) = deferred();
        let number = self.preloads.next;
        self.preloads.next += 1;
        let (mut outcome, mut left) = (Preloaded::default(), 0);
        for key in keys {
            // Without looking it up, which would be a use of it.
            if self.buffer.contains(&key) || self.entries.is_fresh(&key, Instant::now()) {
                outcome.known += 1;
                continue;
            }
            let begun = match self.has_room_to_load() {
                true => self.load(key, Some(Caller::Preloads(number))),
                false => Err(overloaded(format!("too many keys of {} wait to be loaded by one shard", S::NAME))),
            };
            match begun {
                Ok(()) => left += 1,
                Err(error) => outcome.note(Err(&error)),
            }
        }
        match left {
            0 => responder.respond(Ok(outcome)),
            _ => drop(self.preloads.under_way.insert(number, Preload { left, outcome, responder })),
        }
        Ok(answer)
    }
}
