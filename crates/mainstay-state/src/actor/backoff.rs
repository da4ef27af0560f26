use mainstay_core::random;
use mainstay_core::time::Duration;
use rand::RngExt as _;

/// The longest pause before a reminder is tried again that has failed once.
pub const RETRY_PAUSE_FIRST: Duration = Duration::from_secs(1);

/// The longest pause before a reminder is tried again, however often it has failed: it is never given up.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5 * 60);

/// The pause after so many failures in a row: doubled with each of them, and shortened by chance by up to a half, so that
/// reminders that failed together do not come back together.
pub(super) fn retry_pause(failures: u32) -> Duration {
    let longest = longest_pause(failures);
    longest.mul_f64(random::rng().random_range(0.5..=1.0))
}

fn longest_pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1);
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    RETRY_PAUSE_FIRST.saturating_mul(factor).min(RETRY_PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds = [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
        for (failures, seconds) in (0..).zip(seconds) {
            assert_eq!(longest_pause(failures), Duration::from_secs(seconds), "{failures}");
        }
        for failures in [31, 32, 33, 34, 1000, u32::MAX] {
            assert_eq!(longest_pause(failures), RETRY_PAUSE_MAX, "{failures}");
        }
    }

    #[test]
    fn pauses_are_shortened_by_up_to_a_half() {
        random::seed_thread(1);
        let pauses: Vec<Duration> = (0..100).map(|_| retry_pause(4)).collect();
        let (longest, half) = (Duration::from_secs(8), Duration::from_secs(4));
        assert!(pauses.iter().all(|pause| (half..=longest).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause < half.mul_f64(1.2)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause > longest.mul_f64(0.9)), "{pauses:?}");
    }
}
