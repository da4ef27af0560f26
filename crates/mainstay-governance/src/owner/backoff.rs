use std::time::Duration;

use mainstay::{Error, Result};

/// The share of a pause that is certain. The rest is random, so that those who failed together do not come back together.
const CERTAIN_SHARE: f64 = 0.5;

/// Pauses between one failure and the next try: twice as long each time, up to a limit, each shortened at random by up to
/// half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The pause after the first failure.
    pub first: Duration,
    /// The longest pause.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(100), max: Duration::from_secs(30) }
    }
}

impl Backoff {
    /// The longest that a pause may be set to.
    pub const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

    /// Says whether it can be.
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
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        self.shortened(failures, rand::random())
    }

    /// The same, with what was drawn between 0 and 1.
    fn shortened(&self, failures: u32, drawn: f64) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        let longest = self.first.saturating_mul(factor).min(self.max);
        longest.mul_f64(CERTAIN_SHARE + (1.0 - CERTAIN_SHARE) * drawn.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_keep_at_least_half() {
        let backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(1) };
        let longest: Vec<_> = (0..7).map(|failures| backoff.shortened(failures, 1.0).as_millis()).collect();
        assert_eq!(longest, [0, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff.shortened(3, 0.0), Duration::from_millis(200));
        assert_eq!(backoff.shortened(u32::MAX, 1.0), Duration::from_secs(1));
        let drawn = backoff.pause(2);
        assert!((Duration::from_millis(100)..=Duration::from_millis(200)).contains(&drawn), "{drawn:?}");
    }

    #[test]
    fn what_cannot_be_is_named() {
        let refused = |first, max| Backoff { first, max }.check("backoff").unwrap_err().to_string();
        assert!(refused(Duration::ZERO, Duration::from_secs(1)).starts_with("backoff.first is 0ns"));
        assert!(refused(Duration::from_secs(2), Duration::from_secs(1)).contains("backoff.max is 1s"));
        assert!(refused(Duration::from_secs(1), Duration::MAX).contains("at most a day"));
        Backoff::default().check("backoff").unwrap();
    }
}
