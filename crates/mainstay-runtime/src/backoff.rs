use mainstay_core::random;
use mainstay_core::time::Duration;
use rand::RngExt as _;

/// The first pause after a failure.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest pause between two tries.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Pauses that double from one failure to the next, each shortened by up to a half at random, so that what failed
/// together is not tried again together.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { next: PAUSE_MIN }
    }

    /// The pause after one more failure.
    pub(crate) fn pause(&mut self) -> Duration {
        let longest = self.next;
        self.next = (longest * 2).min(PAUSE_MAX);
        random::rng().random_range(longest / 2..=longest)
    }

    /// Forgets the failures.
    pub(crate) fn reset(&mut self) {
        self.next = PAUSE_MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_are_never_the_same_for_all() {
        random::seed_thread(1);
        let mut backoff = Backoff::new();
        let mut longest = PAUSE_MIN;
        for _ in 0..20 {
            let pause = backoff.pause();
            assert!(pause >= longest / 2 && pause <= longest, "{pause:?} of {longest:?}");
            longest = (longest * 2).min(PAUSE_MAX);
        }
        assert_eq!(longest, PAUSE_MAX);
        let pauses: Vec<_> = (0..4).map(|_| backoff.pause()).collect();
        assert!(pauses.windows(2).any(|two| two[0] != two[1]), "{pauses:?}");
        backoff.reset();
        assert!(backoff.pause() <= PAUSE_MIN);
    }
}
