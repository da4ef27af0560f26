use std::time::Duration;

use mainstay::{Backoff, Error, ErrorKind, Result};

/// When a batch that failed is tried again.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// How often a batch is tried at most; 1 is once, without another try.
    pub attempts_max: u32,
    /// How long to wait before the second try; doubled each time after that.
    pub backoff_initial: Duration,
    /// The longest wait between two tries.
    pub backoff_max: Duration,
    /// Which errors may pass: those that [say so](Error::is_retryable) unless told otherwise.
    pub retries: fn(&Error) -> bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts_max: 1,
            backoff_initial: Duration::from_millis(50),
            backoff_max: Duration::from_secs(5),
            retries: Error::is_retryable,
        }
    }
}

impl RetryPolicy {
    /// The most attempts.
    pub const ATTEMPTS_LIMIT: u32 = 1 << 20;

    /// The longest wait between two tries.
    pub const BACKOFF_LIMIT: Duration = Duration::from_secs(60 * 60);

    /// Tries so often, with the other defaults.
    pub fn attempts(attempts_max: u32) -> Self {
        Self { attempts_max, ..Self::default() }
    }

    /// How long to wait after this many attempts, all failed: exponential, and anything between half of it and all of it,
    /// so that many that failed together do not come back together. `None` if that was enough, or the error does not pass.
    pub(crate) fn wait(&self, failed: u32, error: &Error) -> Option<Duration> {
        (failed < self.attempts_max && (self.retries)(error)).then(|| self.backoff(failed))
    }

    /// How long to wait after this many failures in a row, however many.
    pub(crate) fn backoff(&self, failed: u32) -> Duration {
        Backoff::new(self.backoff_initial, self.backoff_max).pause(failed)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if !(1..=Self::ATTEMPTS_LIMIT).contains(&self.attempts_max) {
            let limit = Self::ATTEMPTS_LIMIT;
            return Err(Error::invalid(format!("retry.attempts_max is {}: use 1 to {limit}", self.attempts_max)));
        }
        if self.backoff_max > Self::BACKOFF_LIMIT || self.backoff_initial > self.backoff_max {
            return Err(Error::invalid(format!(
                "retry.backoff_initial is {:?} and retry.backoff_max is {:?}: the first wait may not be longer than the \
                 longest, and that not than an hour",
                self.backoff_initial, self.backoff_max
            )));
        }
        Ok(())
    }
}

/// When a batch that failed for good is split in halves, and those again, until the items are alone that cannot be written:
/// only they fail then.
#[derive(Debug, Clone)]
pub struct SplitPolicy {
    /// How many more writes a batch may cost at most; what has not been written by then fails. Zero is never to split. To
    /// find one item among n takes about twice the binary logarithm of n.
    pub writes_max: usize,
    /// Which errors an item may be the reason of. Unless told otherwise those that do not pass by themselves, that may not be the
    /// writer's own, such as a full disk, and that leave no doubt whether something was written. A writer that is down would be
    /// down for each half too.
    pub splits: fn(&Error) -> bool,
}

impl Default for SplitPolicy {
    fn default() -> Self {
        Self { writes_max: 0, splits: may_be_an_item }
    }
}

impl SplitPolicy {
    /// The most writes that splitting may be set to cost.
    pub const WRITES_LIMIT: usize = 1 << 20;

    /// Splits, with a bound that finds a dozen bad items in a thousand.
    pub fn bisect() -> Self {
        Self { writes_max: 256, ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.writes_max > Self::WRITES_LIMIT {
            let limit = Self::WRITES_LIMIT;
            return Err(Error::invalid(format!("split.writes_max is {}: use at most {limit}", self.writes_max)));
        }
        Ok(())
    }
}

/// True if the reason of an error may be one item of many.
pub(crate) fn may_be_an_item(error: &Error) -> bool {
    use ErrorKind::{Corrupt, Fatal, OutcomeUnknown, StorageFull};
    !error.is_retryable() && !matches!(error.kind(), OutcomeUnknown | Fatal | StorageFull | Corrupt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_differ() {
        let policy = RetryPolicy {
            backoff_initial: Duration::from_secs(1),
            backoff_max: Duration::from_secs(5),
            ..RetryPolicy::attempts(10)
        };
        let passing = Error::new(ErrorKind::Retry, "not now");
        for (failed, longest) in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (9, 5.0)] {
            let wait = policy.wait(failed, &passing).unwrap().as_secs_f64();
            assert!((longest / 2.0..=longest).contains(&wait), "{wait} s after {failed}");
        }
        assert_eq!(policy.wait(10, &passing), None);
        assert_eq!(policy.wait(1, &Error::invalid("never")), None);
        assert!(policy.backoff(u32::MAX) <= policy.backoff_max);
        let waits: std::collections::BTreeSet<_> = (0..20).map(|_| policy.backoff(9)).collect();
        assert!(waits.len() > 1);
    }
}
