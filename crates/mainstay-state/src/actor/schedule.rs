use mainstay_core::time::{Duration, WallTime};
use mainstay_core::{Error, Result};

use super::CronSchedule;

/// The longest delay and the longest period of a reminder: a thousand years. More is a mistake in a unit.
pub const REMINDER_SPAN_MAX: Duration = Duration::from_secs(1000 * 365 * 24 * 60 * 60);

/// When a reminder fires again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// Not at all: it is removed when it has been handled.
    Once,
    /// After a length of time, in whole milliseconds, a part of one as a whole one.
    Every(Duration),
    /// Whenever a cron expression says so, in UTC.
    Cron(CronSchedule),
}

impl Schedule {
    /// Refuses a period that cannot be one.
    ///
    /// # Errors
    /// `Invalid` for a period of zero or above [`REMINDER_SPAN_MAX`].
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Every(Duration::ZERO) => Err(Error::invalid(
                "the period of a reminder is zero: give it at least a millisecond, or let it fire once",
            )),
            Self::Every(period) => check_span("period", *period),
            Self::Once | Self::Cron(_) => Ok(()),
        }
    }

    /// When a reminder fires first that is registered now: after the delay, which may be zero, and for a cron expression at
    /// the first moment after that which it matches.
    ///
    /// # Errors
    /// `Invalid` for a delay above [`REMINDER_SPAN_MAX`], a period that cannot be one, or a cron expression that never
    /// matches again.
    pub fn first_due(&self, now: WallTime, delay: Duration) -> Result<WallTime> {
        self.check()?;
        check_span("delay", delay)?;
        let after = now.checked_add(delay).ok_or_else(|| {
            Error::invalid(format!(
                "a delay of {delay:?} from {now} ends after the last moment there is: make it shorter"
            ))
        })?;
        match self {
            Self::Once | Self::Every(_) => Ok(after),
            Self::Cron(cron) => cron.next_after(after).ok_or_else(|| {
                Error::invalid(format!(
                    "cron expression {:?} matches no moment after {after}: its reminder would never fire",
                    cron.as_str()
                ))
            }),
        }
    }

    /// The first moment on the schedule's grid after both `now` and `planned`, which is on it; `None` if there is none.
    pub(super) fn next_on_grid(&self, planned: WallTime, now: WallTime) -> Option<WallTime> {
        match self {
            Self::Once => None,
            Self::Every(period) => {
                let period = millis(*period);
                // Whole milliseconds, so that this is exact.
                let passed = now.saturating_duration_since(planned).as_millis() / period;
                let ahead = (passed + 1).saturating_mul(period);
                let next = u128::from(planned.as_millis()).saturating_add(ahead);
                Some(WallTime::from_millis(u64::try_from(next).unwrap_or(u64::MAX)))
            }
            Self::Cron(cron) => cron.next_after(now.max(planned)),
        }
    }

    /// The moment on the schedule's grid that follows another one, passed or not.
    pub(super) fn following(&self, planned: WallTime) -> Option<WallTime> {
        match self {
            Self::Once => None,
            Self::Every(period) => Some(planned.saturating_add(*period)),
            Self::Cron(cron) => cron.next_after(planned),
        }
    }

    /// When it fires next after a run that was planned for one moment and ended at another.
    pub(super) fn after_completion(&self, planned: WallTime, now: WallTime) -> Option<WallTime> {
        match self {
            Self::Once => None,
            Self::Every(period) => Some(now.saturating_add(*period)),
            // A clock that was set back does not make it fire twice for the same moment.
            Self::Cron(cron) => cron.next_after(now.max(planned)),
        }
    }
}

/// A period in milliseconds, a part of one as a whole one, and at least one: as it counts in [`WallTime`].
fn millis(period: Duration) -> u128 {
    period.as_nanos().div_ceil(1_000_000).max(1)
}

fn check_span(what: &str, span: Duration) -> Result<()> {
    if span <= REMINDER_SPAN_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a reminder's {what} of {span:?} is longer than REMINDER_SPAN_MAX of {REMINDER_SPAN_MAX:?}, a thousand years: is it \
         in the right unit?"
    )))
}
