use std::time::Duration;

use rand::RngExt as _;

use crate::{Error, Result, random};

/// Exponential backoff with jitter: the pause doubles with each failure in a row, up to a limit, and each is shortened at
/// random by up to a half, so that what failed together is not tried again together.
///
/// ```
/// use std::time::Duration;
/// use mainstay_core::Backoff;
///
/// let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));
/// assert!(backoff.pause(1) <= Duration::from_millis(100));
/// assert!(backoff.pause(100) >= Duration::from_secs(15));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backoff {
    /// The longest pause after the first failure.
    pub first: Duration,
    /// The longest pause after any number of failures.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(30))
    }
}

impl Backoff {
    /// The longest pause that [`check`](Backoff::check) accepts.
    pub const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

    /// Pauses that begin at one length and end at another.
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max }
    }

    /// Checks a backoff that comes from settings; `name` is that of the setting.
    ///
    /// # Errors
    /// `Invalid`, naming the setting.
    pub fn check(&self, name: &str) -> Result<()> {
        if self.first.is_zero() || self.first > self.max || self.max > Self::LIMIT {
            return Err(Error::invalid(format!(
                "{name}.first is {:?} and {name}.max is {:?}: the first pause is more than zero and not longer than the \
                 longest, and that is at most a day",
                self.first, self.max
            )));
        }
        Ok(())
    }

    /// The pause after so many failures in a row; none after none.
    pub fn pause(&self, failures: u32) -> Duration {
        let half = self.longest(failures) / 2;
        half.saturating_add(half.mul_f64(random::rng().random_range(0.0..=1.0)))
    }

    /// The same for tries that count their failures themselves.
    pub fn retries(self) -> Retries {
        Retries { backoff: self, failures: 0 }
    }

    fn longest(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.max)
    }
}

/// The failures in a row of something that is tried again, and the pauses after them.
#[derive(Debug)]
pub struct Retries {
    backoff: Backoff,
    failures: u32,
}

impl Retries {
    /// The pause after one more failure.
    pub fn pause(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.backoff.pause(self.failures)
    }

    /// Forgets the failures.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
        for (failures, seconds) in (0..).zip(seconds) {
            assert_eq!(BACKOFF.longest(failures), Duration::from_secs(seconds), "{failures}");
        }
        for failures in [31, 32, 33, 34, 1000, u32::MAX] {
            assert_eq!(BACKOFF.longest(failures), BACKOFF.max, "{failures}");
        }
        assert!(Backoff::new(Duration::MAX, Duration::MAX).pause(7) >= Duration::MAX / 2);
    }

    #[test]
    fn pauses_are_shortened_by_up_to_a_half() {
        random::seed_thread(1);
        let pauses: Vec<Duration> = (0..100).map(|_| BACKOFF.pause(4)).collect();
        let (longest, half) = (Duration::from_secs(8), Duration::from_secs(4));
        assert!(pauses.iter().all(|pause| (half..=longest).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause < half.mul_f64(1.2)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause > longest.mul_f64(0.9)), "{pauses:?}");
    }

    #[test]
    fn retries_count_until_they_are_reset() {
        let mut retries = BACKOFF.retries();
        for longest in [1, 2, 4, 8] {
            let (pause, longest) = (retries.pause(), Duration::from_secs(longest));
            assert!((longest / 2..=longest).contains(&pause), "{pause:?} of {longest:?}");
        }
        retries.reset();
        assert!(retries.pause() <= BACKOFF.first);
        let mut many = Retries { backoff: BACKOFF, failures: u32::MAX };
        assert!(many.pause() >= BACKOFF.max / 2);
    }

    #[test]
    fn a_backoff_that_cannot_be_is_named() {
        let refused = |first, max| Backoff::new(first, max).check("backoff").unwrap_err().to_string();
        assert!(refused(Duration::ZERO, Duration::from_secs(1)).starts_with("backoff.first is 0ns"));
        assert!(refused(Duration::from_secs(2), Duration::from_secs(1)).contains("backoff.max is 1s"));
        assert!(refused(Duration::from_secs(1), Duration::MAX).contains("at most a day"));
        Backoff::default().check("backoff").unwrap();
    }
}
