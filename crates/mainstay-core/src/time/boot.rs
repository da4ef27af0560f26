//! A clock that counts the time in which the machine was suspended.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::suspended;

/// What the clock shows at the first moment it was read in this process. In the middle of what there is, because a clock that was
/// paused before may stand at an earlier moment.
const START_NANOS: u64 = 1 << 62;

/// The moment for which the clock shows [`START_NANOS`].
static START: OnceLock<Instant> = OnceLock::new();

/// A moment on the boot clock, in nanoseconds: [`now`](super::now) and the time in which the machine was
/// [suspended](super::suspended). What one machine holds for a length of time by the word of another ends by this clock, because
/// the other one goes on while this one sleeps.
///
/// Moments mean nothing in another process.
///
/// ```
/// use std::time::Duration;
///
/// let deadline = mainstay_core::time::boot().saturating_add(Duration::from_secs(60));
/// assert!(mainstay_core::time::boot() < deadline);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(u64);

/// The current moment on the boot clock.
pub fn boot() -> BootTime {
    // First, so that a suspension in between makes the moment later than it was and never earlier.
    let now = super::now();
    BootTime::of(now, suspended())
}

impl BootTime {
    /// The moment at which the monotonic clock showed `at` and the machine had been suspended for `suspended`.
    pub fn of(at: super::Instant, suspended: Duration) -> Self {
        let at = at.into_std();
        let start = *START.get_or_init(|| at);
        let shown = match at.checked_duration_since(start) {
            Some(passed) => START_NANOS.saturating_add(nanos(passed)),
            None => START_NANOS.saturating_sub(nanos(start.duration_since(at))),
        };
        Self(shown.saturating_add(nanos(suspended)))
    }

    /// The moment of which [`as_nanos`](BootTime::as_nanos) returned this.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A number that is larger the later the moment is.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment a length of time later.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::suspend_thread;

    #[tokio::test(start_paused = true)]
    async fn it_moves_with_the_monotonic_clock_and_with_suspensions() {
        let first = boot();
        assert_eq!(boot(), first);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(boot(), first.saturating_add(Duration::from_secs(5)));
        let monotonic = crate::time::now();
        suspend_thread(Duration::from_secs(60));
        assert_eq!(crate::time::now(), monotonic);
        assert_eq!(boot(), first.saturating_add(Duration::from_secs(65)));
    }

    #[test]
    fn a_clock_that_was_paused_earlier_moves_as_well() {
        let paused = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let early = paused();
        paused().block_on(async {
            tokio::time::advance(Duration::from_secs(5)).await;
            boot();
        });
        early.block_on(async {
            let first = boot();
            tokio::time::advance(Duration::from_secs(9)).await;
            assert_eq!(boot(), first.saturating_add(Duration::from_secs(9)));
        });
    }
}
