use std::time::Duration;

use mainstay::{Error, Result};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::owner::Backoff;

/// When a member of a pool is left alone for a while, and when it is trusted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// So many failures in a row open the breaker: the member is given no jobs.
    pub failures_max: u32,
    /// How long it stays open: longer each time that the trial fails.
    pub open_time: Backoff,
    /// So many successes in a row close it after that; one failure opens it again.
    pub trial_successes: u32,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        let open_time = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        Self { failures_max: 3, open_time, trial_successes: 1 }
    }
}

impl BreakerSettings {
    /// Says whether a breaker can be like this.
    ///
    /// # Errors
    /// `Invalid`, naming the setting.
    pub fn check(&self) -> Result<()> {
        for (name, count) in [("failures_max", self.failures_max), ("trial_successes", self.trial_successes)] {
            if count == 0 {
                return Err(Error::invalid(format!("{name} of a breaker is 0: use at least 1")));
            }
        }
        self.open_time.check("breaker.open_time")
    }
}

/// What a breaker lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum BreakerState {
    /// Everything: it works.
    Closed,
    /// Nothing: it has failed too often.
    Open,
    /// A trial.
    HalfOpen,
}

/// A circuit breaker. It is told of every success and failure, and says whether to try.
#[derive(Debug)]
pub(crate) struct Breaker {
    settings: BreakerSettings,
    /// Failures in a row while it is closed, successes in a row while it is half open.
    count: u32,
    /// How often it has opened since it was last closed.
    openings: u32,
    /// Until when it is open, if it is not closed.
    until: Option<Instant>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new(BreakerSettings::default())
    }
}

impl Breaker {
    pub(crate) fn new(settings: BreakerSettings) -> Self {
        Self { settings, count: 0, openings: 0, until: None }
    }

    pub(crate) fn state(&self, now: Instant) -> BreakerState {
        match self.until {
            None => BreakerState::Closed,
            Some(until) if now < until => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }

    /// How long nothing is to be tried.
    pub(crate) fn left(&self, now: Instant) -> Option<Duration> {
        self.until.and_then(|until| until.checked_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// When the trial begins, if it is not closed.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.until
    }

    pub(crate) fn succeed(&mut self, now: Instant) {
        match self.state(now) {
            BreakerState::Closed => self.count = 0,
            // Begun before it was opened.
            BreakerState::Open => {}
            BreakerState::HalfOpen => {
                self.count += 1;
                if self.count >= self.settings.trial_successes {
                    *self = Self::new(self.settings);
                }
            }
        }
    }

    pub(crate) fn fail(&mut self, now: Instant) {
        match self.state(now) {
            BreakerState::Closed => {
                self.count = self.count.saturating_add(1);
                if self.count >= self.settings.failures_max {
                    self.open(now);
                }
            }
            BreakerState::Open => {}
            BreakerState::HalfOpen => self.open(now),
        }
    }

    fn open(&mut self, now: Instant) {
        self.count = 0;
        self.openings = self.openings.saturating_add(1);
        self.until = Some(now + self.settings.open_time.pause(self.openings));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1000);

    fn breaker(failures_max: u32, trial_successes: u32) -> Breaker {
        let open_time = Backoff::new(Duration::from_secs(10), Duration::from_secs(15));
        Breaker::new(BreakerSettings { failures_max, open_time, trial_successes })
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_only_then() {
        let (mut breaker, now) = (breaker(3, 1), Instant::now());
        for _ in 0..5 {
            breaker.fail(now);
            breaker.fail(now);
            breaker.succeed(now);
        }
        assert_eq!((breaker.state(now), breaker.left(now)), (BreakerState::Closed, None));
        (0..3).for_each(|_| breaker.fail(now));
        assert_eq!(breaker.state(now), BreakerState::Open);
        let left = breaker.left(now).unwrap();
        assert!((Duration::from_secs(5)..=Duration::from_secs(10)).contains(&left), "{left:?}");
        breaker.succeed(now);
        breaker.fail(now);
        assert_eq!(breaker.left(now), Some(left), "what was under way changes nothing");
    }

    #[test]
    fn a_trial_closes_it_or_opens_it_for_longer() {
        let (mut breaker, now) = (breaker(1, 2), Instant::now());
        breaker.fail(now);
        let trial = now + LONG;
        assert_eq!((breaker.state(trial), breaker.left(trial)), (BreakerState::HalfOpen, None));
        breaker.succeed(trial);
        assert_eq!(breaker.state(trial), BreakerState::HalfOpen);
        breaker.fail(trial);
        let left = breaker.left(trial).unwrap();
        assert!((Duration::from_millis(7500)..=Duration::from_secs(15)).contains(&left), "{left:?}");
        let trial = trial + LONG;
        breaker.succeed(trial);
        breaker.succeed(trial);
        assert_eq!((breaker.state(trial), breaker.due()), (BreakerState::Closed, None));
        breaker.fail(trial);
        let left = breaker.left(trial).unwrap();
        assert!(left <= Duration::from_secs(10), "what it has learned is forgotten once it was closed: {left:?}");
    }

    #[test]
    fn what_cannot_be_is_named() {
        BreakerSettings::default().check().unwrap();
        let refused = BreakerSettings { trial_successes: 0, ..BreakerSettings::default() }.check().unwrap_err();
        assert_eq!(refused.to_string(), "trial_successes of a breaker is 0: use at least 1");
    }
}
