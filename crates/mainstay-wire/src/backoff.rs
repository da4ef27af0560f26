use std::time::Duration;

use mainstay_core::random;
use rand::RngExt as _;

/// How long to wait before the next dial: longer each time, and never the same for two nodes that have lost a third one at the
/// same moment.
#[derive(Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    last: Duration,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), last: min }
    }

    /// The next pause: at least the minimum, at most the maximum, and at most three times the one before.
    pub(crate) fn next(&mut self) -> Duration {
        let ceiling = self.last.saturating_mul(3).min(self.max).max(self.min);
        self.last = random::rng().random_range(self.min..=ceiling);
        self.last
    }

    /// The next pause is a short one.
    pub(crate) fn reset(&mut self) {
        self.last = self.min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_differ_grow_and_stay_within_bounds() {
        random::seed_thread(7);
        let (min, max) = (Duration::from_millis(50), Duration::from_secs(2));
        let mut backoff = Backoff::new(min, max);
        let first = backoff.next();
        assert!(first >= min && first <= 3 * min);
        let pauses: Vec<_> = (0..1000).map(|_| backoff.next()).collect();
        assert!(pauses.iter().all(|pause| (min..=max).contains(pause)));
        assert!(pauses.iter().any(|pause| *pause > max / 2) && pauses.windows(2).any(|two| two[0] != two[1]));
        backoff.reset();
        assert!(backoff.next() <= 3 * min);
    }
}
