//! How the answers that are kept for idempotency keys leave the store when they have expired.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Context;

use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration, WallTime};
use mainstay_core::{ActorId, Error, Result};
use mainstay_state::actor::ActorWrites;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::actor::Actor;
use crate::actor::actor_shared::ActorShared;
use crate::actor::actor_table::ActorTable;
use crate::actor::cell::{ActorGuard, ItemTurn};
use crate::actor::deactivation;
use crate::actor::mailbox_item::{MailboxItem, poll_once};
use mainstay_core::Backoff;

/// How many answers of a partition are looked at and removed at a time. The commits of different actors are one entry of
/// the log then, or few.
const PAGE: usize = 256;

/// How long a partition is left alone after a sweep: answers that expire one after another are removed by the bunch.
const PAUSE: Duration = Duration::from_secs(60);

/// How often the system's wall clock is looked at again. Nobody waits for an answer to go.
const LOOK_AGAIN: Duration = Duration::from_secs(60 * 60);

/// How long a sweep waits for actors that are busy before it goes on without them.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many busy actors a sweep may have something in line for. Beyond, what has expired waits for the next sweep.
const WAITING_MAX: usize = 1024;

/// Removes the answers of a partition that have expired.
///
/// What has expired is in the store alone, in order: nothing has to be loaded after a restart, and nobody is woken before
/// something expires. An answer is removed in line with the calls of its actor, which is not activated for it: so there is
/// one commit of the actor at a time, and one that is being kept for the same key again is not removed by mistake.
pub(crate) struct Sweeper<T: Actor> {
    table: Arc<ActorTable<T>>,
    waiting: Arc<Mutex<BTreeSet<ActorId>>>,
}

impl<T: Actor> Sweeper<T> {
    /// Starts it.
    pub(crate) fn start(table: &Arc<ActorTable<T>>, scope: &Scope) {
        drop(scope.spawn(Self { table: table.clone(), waiting: Arc::default() }.keep()));
    }

    async fn keep(self) {
        let core = self.table.partition().clone();
        let mut backoff = Backoff::default().retries();
        loop {
            // Nobody rings while it sweeps: what is kept meanwhile is seen by the look afterwards.
            core.expiry.arm(WallTime::EPOCH);
            match self.sweep().await.and_then(|()| self.first_of_the_rest()) {
                Ok(earliest) => {
                    backoff.reset();
                    let next = Next::new(earliest, time::wall());
                    core.expiry.arm(next.rings_before);
                    match next.look {
                        Some(moment) => core.expiry.rung_or_due(moment, LOOK_AGAIN).await,
                        None => core.expiry.rung().await,
                    }
                }
                Err(error) => {
                    let pause = backoff.pause();
                    let pause_ms = pause.as_millis() as u64;
                    tracing::warn!(address = %core.address, ?error, pause_ms, "answers that have expired cannot be removed, will be tried again");
                    time::sleep(pause).await;
                }
            }
        }
    }

    /// When the first of those expires that are left. From now on whatever is kept rings.
    fn first_of_the_rest(&self) -> Result<Option<WallTime>> {
        let core = self.table.partition();
        core.expiry.arm(WallTime::MAX);
        core.store()?.next_expiry()
    }

    /// Removes what has expired. Where that fails for an actor, it goes on with the others.
    async fn sweep(&self) -> Result<()> {
        let answers = self.sweep_kind(Expiring::Answer).await;
        answers.and(self.sweep_kind(Expiring::Lane).await)
    }

    async fn sweep_kind(&self, kind: Expiring) -> Result<()> {
        let (core, now) = (self.table.partition(), time::wall());
        let mut swept = Ok(());
        let mut last: Option<(WallTime, ActorId, String)> = None;
        loop {
            let after = last.as_ref().map(|(at, id, key)| (*at, id, &**key));
            let page = match kind {
                Expiring::Answer => core.store()?.expired_answers_after(now, after, PAGE)?,
                Expiring::Lane => core.store()?.expired_lanes_after(now, after, PAGE)?,
            };
            let is_last = page.len() < PAGE;
            last = page.last().cloned();
            let removed = self.remove(kind, page).await;
            swept = swept.and(removed);
            if is_last {
                return swept;
            }
            tokio::task::consume_budget().await;
        }
    }

    /// Removes answers, as far as their actors have the time.
    async fn remove(&self, kind: Expiring, expired: Vec<(WallTime, ActorId, String)>) -> Result<()> {
        let mut keys = BTreeMap::<ActorId, Vec<String>>::new();
        for (_, id, key) in expired {
            keys.entry(id).or_default().push(key);
        }
        let mut removals = Vec::new();
        for (id, keys) in keys {
            let Some(place) = Place::take(&self.waiting, &id) else { continue };
            // A table that is closed has nothing removed any more.
            let Some(cell) = self.table.cell(&id) else { return Ok(()) };
            let (done, removed) = oneshot::channel();
            // One that is leaving its place is found again by the next sweep.
            if cell.post(Box::new(SweepItem { kind, keys, done, place })) {
                removals.push(removed);
            }
        }
        let all = async {
            let mut all = Ok(());
            for removed in removals {
                // Nobody answers if the actor has been deleted, or is closed.
                all = all.and(removed.await.unwrap_or(Ok(())));
            }
            all
        };
        // Those that are busy see to theirs when they have the time.
        time::timeout(PATIENCE, all).await.unwrap_or(Ok(()))
    }
}

/// What expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiring {
    /// The answer for an idempotency key.
    Answer,
    /// The last answer in a lane of a caller.
    Lane,
}

/// When to look again.
#[derive(Debug, PartialEq, Eq)]
struct Next {
    /// At this time; `None` if there is nothing to look for.
    look: Option<WallTime>,
    /// Sooner if an answer is kept that expires before this.
    rings_before: WallTime,
}

impl Next {
    /// What follows from the time at which the first answer expires, if there is one.
    fn new(earliest: Option<WallTime>, now: WallTime) -> Self {
        let soonest = now.saturating_add(PAUSE);
        match earliest {
            None => Self { look: None, rings_before: WallTime::MAX },
            Some(earliest) if earliest <= soonest => Self { look: Some(soonest), rings_before: WallTime::EPOCH },
            Some(earliest) => Self { look: Some(earliest), rings_before: earliest },
        }
    }
}

/// That an actor has something in line here, which it has once at most.
struct Place {
    waiting: Arc<Mutex<BTreeSet<ActorId>>>,
    id: ActorId,
}

impl Place {
    fn take(waiting: &Arc<Mutex<BTreeSet<ActorId>>>, id: &ActorId) -> Option<Self> {
        let mut all = waiting.lock();
        (all.len() < WAITING_MAX && all.insert(id.clone())).then(|| Self { waiting: waiting.clone(), id: id.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.id);
    }
}

/// The removal of answers of an actor that waits for its turn.
struct SweepItem {
    kind: Expiring,
    keys: Vec<String>,
    /// Told when they are removed. Dropped if the actor leaves.
    done: oneshot::Sender<Result<()>>,
    place: Place,
}

impl<T: Actor> MailboxItem<T> for SweepItem {
    fn is_exclusive(&self) -> bool {
        true
    }

    fn is_use(&self) -> bool {
        false
    }

    fn claim(&self) -> bool {
        true
    }

    fn carry_out(self: Box<Self>, mut guard: ActorGuard<'_, T>, cx: &mut Context<'_>) -> Option<ItemTurn> {
        let Self { kind, keys, done, place } = *self;
        let guard = guard.hand_over();
        let turn = async move {
            let shared = guard.actor_shared().clone();
            let removed = remove(&shared, kind, &keys).await;
            // An error means that nobody waits for it any more.
            let _ = done.send(removed);
            if guard.object.is_some() || shared.revival.is_under_way() {
                guard.give_back();
            } else {
                // It was not in memory, and its place need not stay for this. Whoever waits is seen to by who polls this.
                deactivation::leave(guard, None).await;
            }
            drop(place);
        };
        poll_once(turn, cx)
    }

    fn refuse(self: Box<Self>, _: Error) {}
}

/// Removes those of an actor's answers that have expired. It has the actor to itself, and waits for the turns before: nothing
/// stands on it, and so it must take no turn along when it fails.
async fn remove(shared: &Arc<ActorShared>, kind: Expiring, keys: &[String]) -> Result<()> {
    deactivation::settle(shared).await;
    let now = time::wall();
    let mut writes = ActorWrites::new(shared.id.clone());
    for key in keys {
        match kind {
            Expiring::Answer => {
                if shared.gate.answer(shared, key)?.is_some_and(|answer| answer.expires <= now) {
                    writes.remove_answer(key);
                }
            }
            Expiring::Lane => {
                if shared.gate.lane(shared, key)?.is_some_and(|answer| answer.expires <= now) {
                    writes.remove_lane(key);
                }
            }
        }
    }
    if writes.is_empty() {
        return Ok(());
    }
    let removed = shared.partition.commit(&writes).await.map(drop);
    shared.gate.tally.forget_answers();
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_woken_before_something_expires_and_not_for_each() {
        let now = WallTime::from_millis(1_000_000_000);
        let later = |seconds| now.saturating_add(Duration::from_secs(seconds));
        // Nothing is kept: the first answer rings, whenever it expires.
        assert_eq!(Next::new(None, now), Next { look: None, rings_before: WallTime::MAX });
        // What is kept from now on expires later, and rings nobody; unless it is kept for less time.
        assert_eq!(
            Next::new(Some(later(86_400)), now),
            Next { look: Some(later(86_400)), rings_before: later(86_400) }
        );
        // What expires one after another is waited for, and whatever comes meanwhile as well.
        for earliest in [WallTime::EPOCH, now, later(1), later(60)] {
            assert_eq!(Next::new(Some(earliest), now), Next { look: Some(later(60)), rings_before: WallTime::EPOCH });
        }
    }
}
