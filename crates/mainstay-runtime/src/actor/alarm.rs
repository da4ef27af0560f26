use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration, WallTime};
use mainstay_core::{ActorId, Result, random};
use mainstay_state::actor::{Reminder, WhenDue};
use parking_lot::Mutex;
use rand::RngExt as _;
use tokio::sync::Notify;

use crate::actor::Actor;
use crate::actor::errand::{self, Done, Errand};
use crate::actor::hall::Hall;
use crate::actor::settings::ReminderSettings;
use crate::backoff::Backoff;

/// How many reminders of a partition are handled at a time. Each takes a task, and may activate an actor.
const FIRING_MAX: usize = 64;

/// The longest sleep before the wall clock is looked at again: it can be set while the other one goes on.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// How long to wait for an actor that is leaving its place.
const LEAVING_PAUSE: Duration = Duration::from_millis(50);

/// Wakes the alarm of a partition.
pub(crate) struct Bell {
    /// The moment that the alarm sleeps for, in milliseconds; whatever is due before has to wake it.
    armed: AtomicU64,
    rung: Notify,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Self { armed: AtomicU64::new(u64::MAX), rung: Notify::new() }
    }

    /// Tells that a reminder was committed that is due at this moment.
    pub(crate) fn due_at(&self, due: WallTime) {
        if due.as_millis() < self.armed.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    fn arm(&self, moment: WallTime) {
        self.armed.store(moment.as_millis(), Ordering::SeqCst);
    }

    fn ring(&self) {
        // It is kept if the alarm does not sleep now.
        self.rung.notify_one();
    }
}

/// The reminders of a partition: sleeps until one is due, and fires it.
///
/// What is due is in the store alone, in order: nothing has to be loaded before reminders can be used, and a reminder that
/// is committed is fired, however the node or this task ended in between.
pub(crate) struct Alarm<T: Actor> {
    hall: Arc<Hall<T>>,
    /// Since when there is somebody to fire them.
    up_since: WallTime,
    firing: Arc<Mutex<BTreeSet<Fired>>>,
    /// Where the errands run. The turns that come of them run where all do.
    scope: Scope,
}

/// The actor and the name of a reminder.
type Fired = (ActorId, String);

impl<T: Actor> Alarm<T> {
    /// Starts it.
    pub(crate) fn start(hall: &Arc<Hall<T>>, scope: &Scope) {
        let alarm = Self { hall: hall.clone(), up_since: time::wall(), firing: Arc::default(), scope: scope.clone() };
        if T::REMINDABLE.is_some() {
            drop(scope.spawn(alarm.keep()));
        } else {
            alarm.warn_if_deaf();
        }
    }

    /// Says that there are reminders and nobody to handle them, which is so when a type has stopped to be remindable.
    fn warn_if_deaf(&self) {
        let core = self.hall.core();
        if let Ok(Some(due)) = core.store().and_then(|store| store.next_due()) {
            tracing::warn!(address = %core.address, %due, "there are reminders, and the actor is not `Remindable`: they wait");
        }
    }

    async fn keep(self) {
        let core = self.hall.core().clone();
        let mut backoff = Backoff::new();
        loop {
            // Whatever is set while it looks makes it look again.
            core.bell.arm(WallTime::MAX);
            match self.fire_due() {
                Ok(next) => {
                    backoff.reset();
                    core.bell.arm(next.earlier_than());
                    self.sleep_until(next).await;
                }
                Err(error) => {
                    let pause = backoff.pause();
                    let pause_ms = pause.as_millis() as u64;
                    tracing::error!(address = %core.address, ?error, pause_ms, "reminders cannot be read, will be tried again");
                    time::sleep(pause).await;
                }
            }
        }
    }

    /// Fires what is due.
    fn fire_due(&self) -> Result<Next> {
        let (store, now) = (self.hall.core().store()?, time::wall());
        // Those that are being handled are still in the store, so a page of this size has all for which there is room.
        let page = store.due(now, FIRING_MAX)?;
        for (id, reminder) in &page {
            let fired = (id.clone(), reminder.name.clone());
            let mut firing = self.firing.lock();
            if firing.contains(&fired) {
                continue;
            }
            if firing.len() >= FIRING_MAX {
                return Ok(Next::WhenOneEnds);
            }
            firing.insert(fired.clone());
            drop(firing);
            let ends = Ends { hall: self.hall.clone(), firing: self.firing.clone(), fired };
            drop(self.scope.spawn(deliver(ends, reminder.clone(), self.up_since)));
        }
        if page.len() == FIRING_MAX {
            return Ok(Next::WhenOneEnds);
        }
        let last = page.last().map(|(id, reminder)| (reminder.due, id, &*reminder.name));
        let next = store.due_after(WallTime::MAX, last, 1)?;
        Ok(next.first().map_or(Next::Never, |(_, reminder)| Next::At(reminder.due)))
    }

    /// Sleeps until it is time, or the bell rings.
    async fn sleep_until(&self, next: Next) {
        let rung = &self.hall.core().bell.rung;
        let Next::At(moment) = next else { return rung.notified().await };
        loop {
            let left = moment.saturating_duration_since(time::wall());
            if left.is_zero() {
                return;
            }
            if time::timeout(left.min(LOOK_AGAIN), rung.notified()).await.is_ok() {
                return;
            }
        }
    }
}

/// When the alarm is to look again.
#[derive(Clone, Copy)]
enum Next {
    At(WallTime),
    /// There is no reminder.
    Never,
    /// There is no room: when one of those that are being handled ends, which rings.
    WhenOneEnds,
}

impl Next {
    /// What rings is whatever is due earlier than this.
    fn earlier_than(self) -> WallTime {
        match self {
            Self::At(moment) => moment,
            Self::Never => WallTime::MAX,
            Self::WhenOneEnds => WallTime::EPOCH,
        }
    }
}

/// A reminder that is being handled, until that ends in whatever way.
struct Ends<T: Actor> {
    hall: Arc<Hall<T>>,
    firing: Arc<Mutex<BTreeSet<Fired>>>,
    fired: Fired,
}

impl<T: Actor> Drop for Ends<T> {
    fn drop(&mut self) {
        self.firing.lock().remove(&self.fired);
        self.hall.core().bell.ring();
    }
}

/// Has a reminder handled that is due, and sees to what becomes of it.
async fn deliver<T: Actor>(ends: Ends<T>, reminder: Reminder, up_since: WallTime) {
    let (hall, id) = (&ends.hall, &ends.fired.0);
    let core = hall.core();
    let errand = match reminder.when_due(time::wall(), up_since) {
        WhenDue::Fire => Errand::Fire,
        WhenDue::Postpone(next) => Errand::Replace(Some(*next)),
        WhenDue::Remove => Errand::Replace(None),
    };
    // A hall that is closed fires nothing any more.
    let Some(cell) = hall.cell(id) else { return };
    let error = match errand::run(&cell, reminder.clone(), errand).await {
        Done::Settled => return,
        Done::Left => return time::sleep(LEAVING_PAUSE).await,
        Done::Failed(error) => error,
    };
    let pause = retry_pause(&core.settings.reminders, reminder.failures);
    tracing::warn!(
        service = %core.address.service,
        actor = %id,
        reminder = reminder.name,
        failures = u64::from(reminder.failures) + 1,
        pause_ms = pause.as_millis() as u64,
        ?error,
        "a reminder has failed, and is fired again"
    );
    let now = time::wall();
    let again = Reminder { due: now.saturating_add(pause), ..reminder.after_failure(now) };
    let Some(cell) = hall.cell(id) else { return };
    match errand::run(&cell, reminder, Errand::Replace(Some(again))).await {
        Done::Settled => {}
        // What cannot be recorded is waited for here.
        Done::Left | Done::Failed(_) => time::sleep(pause).await,
    }
}

/// How long to wait after one more failure: doubled with each, and shortened by up to a half at random, so that what failed
/// together does not come back together.
fn retry_pause(settings: &ReminderSettings, failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    let longest = settings.retry_initial.saturating_mul(factor).min(settings.retry_max);
    random::rng().random_range(longest / 2..=longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_the_first_to_the_longest_and_differ() {
        random::seed_thread(1);
        let settings = ReminderSettings { retry_initial: Duration::from_secs(2), retry_max: Duration::from_secs(60) };
        for (failures, seconds) in
            [(0, 2), (1, 4), (2, 8), (3, 16), (4, 32), (5, 60), (31, 60), (32, 60), (u32::MAX, 60)]
        {
            let longest = Duration::from_secs(seconds);
            let pauses: Vec<_> = (0..20).map(|_| retry_pause(&settings, failures)).collect();
            assert!(pauses.iter().all(|pause| (longest / 2..=longest).contains(pause)), "{failures}: {pauses:?}");
            assert!(pauses.windows(2).any(|two| two[0] != two[1]), "{failures}: {pauses:?}");
        }
    }
}
