use bytes::Bytes;
use mainstay_core::time::{Duration, WallTime};
use mainstay_core::{Backoff, Error, ErrorKind, Result};

use super::Schedule;
use super::name::Kind;

/// The most bytes of what a reminder hands to the actor that it wakes. What is larger belongs into the actor's state.
pub const REMINDER_PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// The pauses before a reminder that has failed is tried again. It is never given up.
pub const RETRY_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5 * 60));

/// Less than this is no clock that was set: times are told apart by a millisecond, and clocks are corrected by a few.
const SET_BACK_NOISE: Duration = Duration::from_secs(1);

/// A durable wake-up of an actor, told apart from its others by its name.
///
/// It is a value: what becomes of it is computed from the time that is given, and stored by whoever runs it.
///
/// ```
/// use std::time::Duration;
///
/// use mainstay_core::time::WallTime;
/// use mainstay_state::actor::{Reminder, Schedule};
///
/// let now = WallTime::from_millis(1_000_000);
/// let hourly = Schedule::Every(Duration::from_secs(3600));
/// let due = hourly.first_due(now, Duration::ZERO)?;
/// let reminder = Reminder::new("report", Default::default(), hourly, due)?;
///
/// // It ran for a second, and comes back an hour after that.
/// let done = now.saturating_add(Duration::from_secs(1));
/// let next = reminder.after_success(done).expect("it comes back");
/// assert_eq!(next.due, done.saturating_add(Duration::from_secs(3600)));
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reminder {
    /// Its name among those of its actor.
    pub name: String,
    /// What it hands to the actor.
    pub payload: Bytes,
    /// When it fires again.
    pub schedule: Schedule,
    /// What becomes of the times at which nobody was there to fire it.
    pub catch_up: CatchUp,
    /// When it is to be fired: when it was planned to, or when it is tried again.
    pub due: WallTime,
    /// The time on its schedule that it is to be fired for. Other than [`due`](Self::due) it is not moved by failures.
    pub planned: WallTime,
    /// How often in a row it has failed.
    pub failures: u32,
    /// How often it has been handled.
    pub fired: u64,
    /// How long it was to wait before it fires first, if it was set by that and not by a time of day. Not known of one that an
    /// older version has set.
    pub wait: Option<Duration>,
}

/// What becomes of the times at which a reminder should have fired and nobody was there: the node was down, or the actor
/// was busy. A reminder that fires once is always caught up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CatchUp {
    /// All of them together are fired once, at once. A period counts from the end of each run.
    #[default]
    Once,
    /// Each of them is fired, one after the other. A period counts from the time that was planned.
    All,
    /// Those that nobody was there for are not fired, and the next one is the first on the schedule that lies in the future.
    Skip,
}

/// What to do with a reminder whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhenDue {
    /// Fire it.
    Fire,
    /// Store it as this, and do not fire it: it was missed, and is to be skipped.
    Postpone(Box<Reminder>),
    /// Remove it, and do not fire it: it was missed, is to be skipped, and its schedule has no time after that.
    Remove,
}

impl Reminder {
    /// A reminder that is fired first at a time, see [`Schedule::first_due`], and caught up with [once](CatchUp::Once).
    ///
    /// # Errors
    /// `Invalid` for a period that cannot be one, `TooLarge` for a name or payload over its limit.
    pub fn new(name: &str, payload: Bytes, schedule: Schedule, due: WallTime) -> Result<Self> {
        let name = name.to_owned();
        let reminder = Self {
            name,
            payload,
            schedule,
            catch_up: CatchUp::default(),
            due,
            planned: due,
            failures: 0,
            fired: 0,
            wait: None,
        };
        reminder.check()?;
        Ok(reminder)
    }

    /// The same with another way to catch up.
    #[must_use]
    pub fn with_catch_up(self, catch_up: CatchUp) -> Self {
        Self { catch_up, ..self }
    }

    /// The same as one that was set by how long it waits before it fires first.
    #[must_use]
    pub fn with_wait(self, wait: Duration) -> Self {
        Self { wait: Some(wait), ..self }
    }

    /// Refuses what cannot be stored.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn check(&self) -> Result<()> {
        Kind::Reminder.check(&self.name)?;
        if self.payload.len() > REMINDER_PAYLOAD_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the payload of reminder {:?} has {} bytes, and REMINDER_PAYLOAD_BYTES_MAX is \
                     {REMINDER_PAYLOAD_BYTES_MAX}: keep it in the actor's state",
                    self.name,
                    self.payload.len()
                ),
            ));
        }
        self.schedule.check()
    }

    /// What to do with it once it is [due](Self::due), on a node that has been there for the partition since `up_since`.
    ///
    /// Only one that is to be [skipped](CatchUp::Skip), and was planned for a time before that, is not fired. One that has
    /// failed was fired in time, and is tried again.
    pub fn when_due(&self, now: WallTime, up_since: WallTime) -> WhenDue {
        let was_missed = self.planned < up_since && self.failures == 0;
        if self.catch_up != CatchUp::Skip || self.schedule == Schedule::Once || !was_missed {
            return WhenDue::Fire;
        }
        match self.schedule.next_on_grid(self.planned, now) {
            Some(planned) => WhenDue::Postpone(Box::new(Self { due: planned, planned, ..self.clone() })),
            None => WhenDue::Remove,
        }
    }

    /// What becomes of it when it has been handled; `None` if it is done.
    pub fn after_success(&self, now: WallTime) -> Option<Self> {
        let planned = match self.catch_up {
            CatchUp::Once => self.schedule.after_completion(self.planned, now)?,
            CatchUp::All => self.schedule.following(self.planned)?,
            CatchUp::Skip => self.schedule.next_on_grid(self.planned, now)?,
        };
        Some(Self { due: planned, planned, failures: 0, fired: self.fired.saturating_add(1), ..self.clone() })
    }

    /// What becomes of it when the wall clock was set back: one that waits for a length of time does not wait for longer than
    /// that because of it. `by` is how far, if that is known; otherwise it waits once more from now on. `None` if it does not
    /// wait for too long, or for a time of day, which comes when the clock shows it.
    ///
    /// The pause after a failure is at most `retry_max`.
    pub fn after_set_back(&self, now: WallTime, by: Option<Duration>, retry_max: Duration) -> Option<Self> {
        let length = match (&self.schedule, self.failures, self.fired) {
            (_, 1.., _) => retry_max,
            (Schedule::Cron(_), ..) => return None,
            (Schedule::Every(period), 0, 1..) => *period,
            (Schedule::Once | Schedule::Every(_), ..) => self.wait?,
        };
        let latest = now.saturating_add(length);
        if self.due <= latest.saturating_add(SET_BACK_NOISE) {
            return None;
        }
        let due = by.map_or(latest, |by| self.due.saturating_sub(by).max(now).min(latest));
        let planned = if self.failures > 0 { self.planned } else { due };
        Some(Self { due, planned, ..self.clone() })
    }

    /// What becomes of it when it has failed: it is tried again after a pause that grows with each failure,
    /// by [`RETRY_BACKOFF`](super::RETRY_BACKOFF), without end.
    #[must_use]
    pub fn after_failure(&self, now: WallTime) -> Self {
        let failures = self.failures.saturating_add(1);
        let due = now.saturating_add(RETRY_BACKOFF.pause(failures));
        Self { due, failures, ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
