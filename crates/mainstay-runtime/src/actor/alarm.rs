use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration, Instant, WallTime};
use mainstay_core::{ActorId, Result};
use mainstay_state::actor::{Reminder, WhenDue};
use parking_lot::Mutex;

use crate::actor::Actor;
use crate::actor::actor_table::ActorTable;
use crate::actor::reminder_job::{self, Done, ReminderJob};
use crate::actor::settings::ReminderSettings;
use mainstay_core::Backoff;

/// How many reminders of a partition are handled at a time. Each takes a task, and may activate an actor.
const FIRING_MAX: usize = 64;

/// How many of them may be of one actor, which handles them one after another.
const FIRING_PER_ACTOR_MAX: usize = 8;

/// How long a reminder counts among those that are handled. One that takes longer, because its actor is busy or its handler
/// hangs, goes on and leaves its place to others.
const FIRING_TIME: Duration = Duration::from_secs(5);

/// How many reminders of a partition may be under way with those that have left their places. Beyond, none is begun before
/// one of them ends.
const UNDER_WAY_MAX: usize = 1024;

/// How many reminders that are due are looked at at a time.
const PAGE: usize = 64;

/// How many of those that are due may be passed over at each look, because their actors have as many as they may.
const PASSED_OVER_MAX: usize = 4 * PAGE;

/// How often the system's wall clock is looked at again while a reminder waits: it can be set while the other one goes on.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Less than this is no wall clock that was set back, but one that is corrected, or read late.
const SET_BACK_MIN: Duration = Duration::from_millis(500);

/// How long to wait for an actor that is leaving its place.
const LEAVING_PAUSE: Duration = Duration::from_millis(50);

/// The reminders of a partition: sleeps until one is due, and fires it.
///
/// What is due is in the store alone, in order: nothing has to be loaded before reminders can be used, and a reminder that
/// is committed is fired, however the node or this task ended in between.
pub(crate) struct Alarm<T: Actor> {
    table: Arc<ActorTable<T>>,
    /// Since when there is somebody to fire them.
    up_since: WallTime,
    firing: Arc<Mutex<Firing>>,
    /// Where the errands run. The turns that come of them run where all do.
    scope: Scope,
}

/// The actor and the name of a reminder.
type Fired = (ActorId, String);

impl<T: Actor> Alarm<T> {
    /// Starts it.
    pub(crate) fn start(table: &Arc<ActorTable<T>>, scope: &Scope) {
        let alarm = Self { table: table.clone(), up_since: time::wall(), firing: Arc::default(), scope: scope.clone() };
        if T::REMINDABLE.is_some() {
            drop(scope.spawn(alarm.keep()));
        } else {
            alarm.warn_if_deaf();
        }
    }

    /// Says that there are reminders and nobody to handle them, which is so when a type has stopped to be remindable.
    fn warn_if_deaf(&self) {
        let core = self.table.partition();
        if let Ok(Some(due)) = core.store().and_then(|store| store.next_due()) {
            tracing::warn!(address = %core.address, %due, "there are reminders, and the actor is not `Remindable`: they wait");
        }
    }

    async fn keep(mut self) {
        let core = self.table.partition().clone();
        let mut backoff = Backoff::default().retries();
        let mut clock = ClockWatch::start();
        // It may have been set back while nobody was there.
        drop(self.scope.spawn(bring_forward(self.table.clone(), None)));
        loop {
            if let Some(by) = clock.set_back() {
                let by_ms = by.as_millis() as u64;
                tracing::warn!(address = %core.address, by_ms, "the wall clock was set back: reminders that wait for a length of time are brought forward");
                // So that what is planned from now on was not missed.
                self.up_since = self.up_since.saturating_sub(by);
                drop(self.scope.spawn(bring_forward(self.table.clone(), Some(by))));
            }
            // Whatever is set while it looks makes it look again.
            core.bell.arm(WallTime::MAX);
            match self.fire_due().await {
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

    /// Fires what is due, as far as there is room.
    async fn fire_due(&self) -> Result<Next> {
        let (core, now, begun) = (self.table.partition(), time::wall(), time::now());
        let mut passed_over = 0;
        let mut last: Option<(WallTime, ActorId, String)> = None;
        loop {
            let after = last.as_ref().map(|(due, id, name)| (*due, id, &**name));
            // Those that are being handled are still in the store, and are passed over.
            let page = core.store()?.due_after(now, after, PAGE)?;
            for (id, reminder) in &page {
                let fired = (id.clone(), reminder.name.clone());
                let admission = self.firing.lock().admit(&fired);
                match admission {
                    Admission::Begins => {
                        let ends = Ends { table: self.table.clone(), firing: self.firing.clone(), fired };
                        drop(self.scope.spawn(deliver(ends, reminder.clone(), self.up_since)));
                    }
                    Admission::Waits => passed_over += 1,
                    Admission::Full(until) => return Ok(Next::WhenThereIsRoom(until)),
                }
            }
            let is_last = page.len() < PAGE;
            last = page.last().map(|(id, reminder)| (reminder.due, id.clone(), reminder.name.clone())).or(last);
            if is_last {
                if passed_over > PASSED_OVER_MAX {
                    // Few actors have many that are due, and each that ends makes it look again: at most half of the time.
                    time::sleep(time::now().saturating_duration_since(begun)).await;
                }
                let after = last.as_ref().map(|(due, id, name)| (*due, id, &**name));
                let next = core.store()?.due_after(WallTime::MAX, after, 1)?;
                return Ok(next.first().map_or(Next::Never, |(_, reminder)| Next::At(reminder.due)));
            }
            tokio::task::consume_budget().await;
        }
    }

    /// Sleeps until it is time, or the bell rings.
    async fn sleep_until(&self, next: Next) {
        let bell = &self.table.partition().bell;
        match next {
            // If the clock was set back, that is seen when the first would have been due, or before.
            Next::At(moment) => bell.rung_or_due(moment, LOOK_AGAIN).await,
            Next::WhenThereIsRoom(Some(moment)) => bell.rung_until(moment).await,
            Next::Never | Next::WhenThereIsRoom(None) => bell.rung().await,
        }
    }
}

/// Tells whether the wall clock was set back, by the clock that cannot be.
struct ClockWatch {
    wall: WallTime,
    at: Instant,
}

impl ClockWatch {
    fn start() -> Self {
        Self { wall: time::wall(), at: time::now() }
    }

    /// By how much it was set back since it was looked at last.
    fn set_back(&mut self) -> Option<Duration> {
        let Self { wall: before, at } = std::mem::replace(self, Self::start());
        let expected = before.saturating_add(self.at.saturating_duration_since(at));
        Some(expected.saturating_duration_since(self.wall)).filter(|by| *by >= SET_BACK_MIN)
    }
}

/// Has no reminder wait for longer than it was to because the wall clock was set back, by so much if that is known.
async fn bring_forward<T: Actor>(table: Arc<ActorTable<T>>, by: Option<Duration>) {
    let core = table.partition().clone();
    let mut backoff = Backoff::default().retries();
    // What belongs to an actor that is busy, or could not be stored, is tried again.
    while !matches!(bring_all_forward(&table, by).await, Ok(0)) {
        let pause = backoff.pause();
        tracing::debug!(address = %core.address, ?pause, "reminders are still to be brought forward");
        time::sleep(pause).await;
    }
}

/// Returns how many are left.
async fn bring_all_forward<T: Actor>(table: &Arc<ActorTable<T>>, by: Option<Duration>) -> Result<usize> {
    let (core, now) = (table.partition(), time::wall());
    let (mut left, mut last) = (0, None::<(WallTime, ActorId, String)>);
    loop {
        let after = last.as_ref().map(|(due, id, name)| (*due, id, &**name));
        let page = core.store()?.due_after(WallTime::MAX, after, PAGE)?;
        let is_last = page.len() < PAGE;
        last = page.last().map(|(id, reminder)| (reminder.due, id.clone(), reminder.name.clone()));
        let late = page.into_iter().filter_map(|(id, reminder)| {
            let next = reminder.after_set_back(now, by, core.settings.reminders.retry_max)?;
            // A table that is closed has nothing changed any more.
            Some((table.cell(&id)?, reminder, next))
        });
        let replaced = late.map(|(cell, reminder, next)| async move {
            let due = next.due;
            let replacing = reminder_job::run(&cell, reminder, ReminderJob::Replace(Some(next)));
            match time::timeout(FIRING_TIME, replacing).await {
                Ok(Done::Settled) => {
                    core.bell.due_at(due);
                    0
                }
                _ => 1,
            }
        });
        left += futures_util::future::join_all(replaced).await.into_iter().sum::<usize>();
        if is_last {
            return Ok(left);
        }
        tokio::task::consume_budget().await;
    }
}

/// When the alarm is to look again.
#[derive(Clone, Copy)]
enum Next {
    At(WallTime),
    /// There is no reminder.
    Never,
    /// There is no room: when one of those that are being handled ends, which rings, or leaves its place at this moment.
    WhenThereIsRoom(Option<Instant>),
}

impl Next {
    /// What rings is whatever is due earlier than this.
    fn earlier_than(self) -> WallTime {
        match self {
            Self::At(moment) => moment,
            Self::Never => WallTime::MAX,
            Self::WhenThereIsRoom(_) => WallTime::EPOCH,
        }
    }
}

/// The reminders that are being handled, each with the moment since when.
#[derive(Default)]
struct Firing {
    all: BTreeMap<Fired, Instant>,
}

/// Whether a reminder that is due can be handled.
#[derive(Debug, PartialEq, Eq)]
enum Admission {
    /// It is, from now on.
    Begins,
    /// It is being handled already, or so many of its actor are: when one of those ends.
    Waits,
    /// There is no room for any: when one ends, or at this moment if one leaves its place then.
    Full(Option<Instant>),
}

impl Firing {
    fn admit(&mut self, fired: &Fired) -> Admission {
        let now = time::now();
        let of_actor = self.all.range((fired.0.clone(), String::new())..).take_while(|((id, _), _)| *id == fired.0);
        if self.all.contains_key(fired) || of_actor.count() >= FIRING_PER_ACTOR_MAX {
            return Admission::Waits;
        }
        if self.all.len() >= UNDER_WAY_MAX {
            return Admission::Full(None);
        }
        let places = self.all.values().filter(|since| now.saturating_duration_since(**since) < FIRING_TIME);
        if places.clone().count() >= FIRING_MAX {
            return Admission::Full(places.min().map(|first| *first + FIRING_TIME));
        }
        self.all.insert(fired.clone(), now);
        Admission::Begins
    }
}

/// A reminder that is being handled, until that ends in whatever way.
struct Ends<T: Actor> {
    table: Arc<ActorTable<T>>,
    firing: Arc<Mutex<Firing>>,
    fired: Fired,
}

impl<T: Actor> Drop for Ends<T> {
    fn drop(&mut self) {
        self.firing.lock().all.remove(&self.fired);
        self.table.partition().bell.ring();
    }
}

/// Has a reminder handled that is due, and sees to what becomes of it.
async fn deliver<T: Actor>(ends: Ends<T>, reminder: Reminder, up_since: WallTime) {
    let (table, id) = (&ends.table, &ends.fired.0);
    let core = table.partition();
    let job = match reminder.when_due(time::wall(), up_since) {
        WhenDue::Fire => ReminderJob::Fire,
        WhenDue::Postpone(next) => ReminderJob::Replace(Some(*next)),
        WhenDue::Remove => ReminderJob::Replace(None),
    };
    // A table that is closed fires nothing any more.
    let Some(cell) = table.cell(id) else { return };
    let error = match reminder_job::run(&cell, reminder.clone(), job).await {
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
    let Some(cell) = table.cell(id) else { return };
    match reminder_job::run(&cell, reminder, ReminderJob::Replace(Some(again))).await {
        Done::Settled => {}
        // What cannot be recorded is waited for here.
        Done::Left | Done::Failed(_) => time::sleep(pause).await,
    }
}

/// How long to wait after one more failure.
fn retry_pause(settings: &ReminderSettings, failures: u32) -> Duration {
    Backoff::new(settings.retry_initial, settings.retry_max).pause(failures.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn places_are_for_many_actors_and_for_a_while_and_all_of_it_is_bounded() {
        let mut firing = Firing::default();
        let fired = |actor: i64, name: usize| (ActorId::from(actor), name.to_string());
        for name in 0..FIRING_PER_ACTOR_MAX {
            assert_eq!(firing.admit(&fired(0, name)), Admission::Begins);
        }
        assert_eq!(firing.admit(&fired(0, 99)), Admission::Waits, "so many of one actor");
        let first = time::now() + FIRING_TIME;
        time::sleep(Duration::from_secs(1)).await;
        let mut actor = 1;
        while firing.all.len() < FIRING_MAX {
            assert_eq!(firing.admit(&fired(actor, 0)), Admission::Begins);
            actor += 1;
        }
        assert_eq!(firing.admit(&fired(1, 0)), Admission::Waits, "it is being handled");
        assert_eq!(firing.admit(&fired(actor, 0)), Admission::Full(Some(first)));
        time::sleep(FIRING_TIME - Duration::from_secs(1)).await;
        assert_eq!(
            firing.admit(&fired(0, 99)),
            Admission::Waits,
            "those that have left their places count for the actor"
        );
        for _ in 0..FIRING_PER_ACTOR_MAX {
            assert_eq!(firing.admit(&fired(actor, 0)), Admission::Begins);
            actor += 1;
        }
        assert_eq!(firing.admit(&fired(actor, 0)), Admission::Full(Some(first + Duration::from_secs(1))));
        while firing.all.len() < UNDER_WAY_MAX {
            time::sleep(FIRING_TIME).await;
            for _ in 0..FIRING_MAX.min(UNDER_WAY_MAX - firing.all.len()) {
                assert_eq!(firing.admit(&fired(actor, 0)), Admission::Begins);
                actor += 1;
            }
        }
        time::sleep(FIRING_TIME).await;
        assert_eq!(firing.admit(&fired(actor, 0)), Admission::Full(None));
    }

    #[test]
    fn pauses_double_from_the_first_to_the_longest_and_differ() {
        mainstay_core::random::seed_thread(1);
        let settings = ReminderSettings {
            retry_initial: Duration::from_secs(2),
            retry_max: Duration::from_secs(60),
            ..ReminderSettings::default()
        };
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
