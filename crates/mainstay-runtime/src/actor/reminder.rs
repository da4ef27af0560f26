use std::collections::BTreeMap;

use bytes::Bytes;
use mainstay_core::contract;
use mainstay_core::time::{self, Duration, WallTime};
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::actor::{CatchUp, Reminder, Schedule};
use serde::Serialize;

use crate::actor::Context;
use crate::call::current;

/// A reminder that is about to be set: [`Context::remind`].
#[must_use = "a reminder is set by `set`"]
pub struct Remind<'c> {
    context: &'c Context,
    name: &'c str,
    first: First,
    every: Option<Duration>,
    cron: Option<String>,
    payload: Result<Bytes>,
    catch_up: CatchUp,
}

/// When a reminder fires first.
enum First {
    /// As its schedule has it.
    AsScheduled,
    After(Duration),
    At(WallTime),
}

impl Remind<'_> {
    /// Fires it first after a length of time, which may be zero. Without this, one with a period fires after its first
    /// period, and one that fires once does so at once.
    pub fn after(mut self, delay: Duration) -> Self {
        self.first = First::After(delay);
        self
    }

    /// Fires it first at a moment, and at once if that has passed.
    pub fn at(mut self, moment: WallTime) -> Self {
        self.first = First::At(moment);
        self
    }

    /// Fires it again and again. The period counts from the end of a run unless [`catch_up`](Remind::catch_up) says
    /// otherwise.
    pub fn every(mut self, period: Duration) -> Self {
        self.every = Some(period);
        self
    }

    /// Fires it whenever a cron expression says so, in UTC, such as `0 9 * * MON-FRI` or `@daily`.
    pub fn cron(mut self, expression: &str) -> Self {
        self.cron = Some(expression.to_owned());
        self
    }

    /// Hands these bytes to the actor.
    pub fn payload(mut self, bytes: impl Into<Bytes>) -> Self {
        self.payload = Ok(bytes.into());
        self
    }

    /// Hands a value to the actor, which reads it by [`Reminder::decode`].
    pub fn value<V: Serialize + ?Sized>(mut self, value: &V) -> Self {
        self.payload = contract::encode(value).map(Bytes::from);
        self
    }

    /// What becomes of the times at which nobody was there to fire it; [`CatchUp::Once`] unless told otherwise.
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Sets the reminder, in the same commit as what the turn changes: if the turn fails, nothing is set. One of the same name
    /// is replaced.
    ///
    /// # Errors
    /// `Invalid` if the actor is not [`Remindable`](crate::Remindable), outside of a turn, and for a schedule that cannot
    /// be; `TooLarge` for a name or payload over its limit, and for one more reminder than `reminders.count_max`.
    pub fn set(self) -> Result<Reminder> {
        let (shared, name) = (&self.context.shared, self.name);
        self.register().map_err(|error| error.about(format_args!("reminder {name:?} of {shared} cannot be set")))
    }

    fn register(self) -> Result<Reminder> {
        let Self { context, name, first, every, cron, payload, catch_up } = self;
        let shared = &context.shared;
        if !shared.partition.is_remindable {
            let service = &shared.partition.address.service;
            return Err(Error::invalid(format!("nobody would handle it: implement `Remindable` for {service}")));
        }
        let schedule = match (every, cron) {
            (None, None) => Schedule::Once,
            (Some(period), None) => Schedule::Every(period),
            (None, Some(expression)) => Schedule::Cron(expression.parse()?),
            (Some(_), Some(_)) => {
                return Err(Error::invalid("it has a period and a cron expression: give it one of them"));
            }
        };
        let now = time::wall();
        let first_is_at = matches!(first, First::At(_));
        let delay = match (first, &schedule) {
            (First::After(delay), _) => delay,
            (First::At(moment), _) => moment.saturating_duration_since(now),
            (First::AsScheduled, Schedule::Every(period)) => *period,
            (First::AsScheduled, _) => Duration::ZERO,
        };
        let due = schedule.first_due(now, delay)?;
        let is_by_length = !matches!((first_is_at, &schedule), (true, _) | (_, Schedule::Cron(_)));
        let mut reminder = Reminder::new(name, payload?, schedule, due)?.with_catch_up(catch_up);
        if is_by_length {
            reminder = reminder.with_wait(delay);
        }
        let replaced = context.reminder(name)?;
        if replaced.is_none() {
            refuse_if_full(context)?;
        }
        if replaced.as_ref() == Some(&reminder) {
            // No two settings are equal, so that one that is equal to what was fired is known not to be set anew.
            reminder.due = reminder.due.saturating_add(Duration::from_millis(1));
            reminder.planned = reminder.due;
        }
        current::change(|writes| writes.put_reminder(reminder.clone()))?;
        if replaced.is_none() {
            shared.gate.tally.add_reminder();
        }
        let (partition, due) = (shared.partition.clone(), reminder.due);
        current::leave(move |turn| {
            if turn.is_ok() {
                partition.bell.due_at(due);
            }
        });
        Ok(reminder)
    }
}

impl Context {
    /// A reminder, to be set: a durable wake-up of this actor by its name, which activates the actor if need be and is
    /// handed to its [`Remindable`](crate::Remindable).
    ///
    /// It is fired until it was handled: if that fails, it comes again after a while, and one that fires once is removed
    /// only after success. What becomes of it is committed with what the actor changes when it handles it. It survives
    /// restarts and failovers, and the time that they take counts. It survives a wall clock that is set, too: one that waits for a
    /// length of time waits for no longer than that when the clock is set back, and what is due when it is set forward is fired at
    /// once; [`at`](Remind::at) and [`cron`](Remind::cron) go by what the clock shows.
    pub fn remind<'c>(&'c self, name: &'c str) -> Remind<'c> {
        Remind {
            context: self,
            name,
            first: First::AsScheduled,
            every: None,
            cron: None,
            payload: Ok(Bytes::new()),
            catch_up: CatchUp::default(),
        }
    }

    /// A reminder of this actor by its name, as this turn would leave it.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    pub fn reminder(&self, name: &str) -> Result<Option<Reminder>> {
        match current::changed(|writes| writes.reminder(name).map(Option::<&Reminder>::cloned)) {
            Some(reminder) => Ok(reminder),
            None => self.shared.gate.reminder(&self.shared, name),
        }
    }

    /// The reminders of this actor in the order of their names, as this turn would leave them.
    ///
    /// # Errors
    /// Whatever keeps them from being read.
    pub fn reminders(&self) -> Result<Vec<Reminder>> {
        // Before what is stored: what is committed in between is then seen twice, and not missed.
        let uncommitted = self.shared.gate.uncommitted();
        let stored = self.shared.partition.store()?.reminders(&self.shared.id)?;
        let mut reminders: BTreeMap<String, Reminder> =
            stored.into_iter().map(|reminder| (reminder.name.clone(), reminder)).collect();
        uncommitted.iter().for_each(|writes| apply(&mut reminders, writes));
        current::changed(|writes| {
            apply(&mut reminders, writes);
            Some(())
        });
        Ok(reminders.into_values().collect())
    }

    /// Cancels a reminder, in the same commit as what the turn changes. False if there is none of that name.
    ///
    /// # Errors
    /// `Invalid` outside of a turn, and whatever keeps it from being read.
    pub fn cancel_reminder(&self, name: &str) -> Result<bool> {
        if self.reminder(name)?.is_none() {
            return Ok(false);
        }
        current::change(|writes| {
            writes.remove_reminder(name);
            Ok(true)
        })
    }
}

/// Refuses one more reminder of an actor that has as many as it may.
fn refuse_if_full(context: &Context) -> Result<()> {
    let (shared, count_max) = (&context.shared, context.shared.partition.settings.reminders.count_max);
    if shared.gate.tally.reminders(shared)? < count_max {
        return Ok(());
    }
    // Those that have been removed since are still in that number.
    let count = context.reminders()?.len();
    shared.gate.tally.set_reminders(count);
    if count < count_max {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::TooLarge,
        format!(
            "the actor has {count} reminders, and reminders.count_max is {count_max}: cancel some, keep the times in its state \
             and set one reminder for the next of them, or raise reminders.count_max"
        ),
    ))
}

fn apply(reminders: &mut BTreeMap<String, Reminder>, writes: &mainstay_state::actor::ActorWrites) {
    if writes.is_deleted() {
        reminders.clear();
    }
    for (name, reminder) in writes.changed_reminders() {
        match reminder {
            Some(reminder) => reminders.insert(name.to_owned(), reminder.clone()),
            None => reminders.remove(name),
        };
    }
}
