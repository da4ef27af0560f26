//! Keeps count of the objects of actors: what an actor that is watched has in a field.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What became of the objects of one actor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lives {
    /// How many were activated.
    pub(crate) activated: u64,
    /// How many were deactivated.
    pub(crate) deactivated: u64,
    /// How many are in memory.
    pub(crate) alive: u64,
    /// The most that ever were in memory at a time.
    pub(crate) alive_max: u64,
}

static ALL: Mutex<BTreeMap<String, Lives>> = Mutex::new(BTreeMap::new());

fn all() -> MutexGuard<'static, BTreeMap<String, Lives>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What became of the objects of an actor. Tests name their actors apart.
pub(crate) fn lives(id: impl ToString) -> Lives {
    all().get(&id.to_string()).copied().unwrap_or_default()
}

/// An object that is alive as long as this is.
#[derive(Debug)]
pub(crate) struct Alive {
    id: String,
}

impl Alive {
    /// To be made in `activate`.
    pub(crate) fn new(id: impl ToString) -> Self {
        let id = id.to_string();
        let mut all = all();
        let lives = all.entry(id.clone()).or_default();
        lives.activated += 1;
        lives.alive += 1;
        lives.alive_max = lives.alive_max.max(lives.alive);
        Self { id }
    }

    /// To be called in `deactivate`.
    pub(crate) fn deactivated(&self) {
        all().entry(self.id.clone()).or_default().deactivated += 1;
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        all().entry(self.id.clone()).or_default().alive -= 1;
    }
}
