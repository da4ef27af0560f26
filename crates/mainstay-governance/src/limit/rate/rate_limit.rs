use std::ops::RangeInclusive;
use std::time::Duration;

use mainstay::{Error, Result};
use serde::{Deserialize, Serialize};

/// How many permits there are in a length of time, and how many at one go.
///
/// ```
/// use std::time::Duration;
///
/// use mainstay::governance::limit::RateLimit;
///
/// let slow = RateLimit { permits: 5, per: Duration::from_secs(60), burst: 2 };
/// assert_eq!(RateLimit::per_second(5).with_burst(2), RateLimit { per: Duration::from_secs(1), ..slow });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimit {
    /// How many permits come in `per`.
    pub permits: u64,
    /// The length of time in which `permits` come.
    pub per: Duration,
    /// How many permits can have gathered while nobody wanted any.
    pub burst: u64,
}

impl RateLimit {
    /// What `permits` and `burst` may be.
    pub const PERMITS: RangeInclusive<u64> = 1..=1 << 40;

    /// What `per` may be.
    pub const PERIODS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60);

    /// So many permits a second, and all of a second at one go.
    pub fn per_second(permits: u64) -> Self {
        Self { permits, per: Duration::from_secs(1), burst: permits }
    }

    /// The same rate with another burst.
    #[must_use]
    pub fn with_burst(self, burst: u64) -> Self {
        Self { burst, ..self }
    }

    /// Refuses what cannot be a limit.
    pub(super) fn check(&self) -> Result<()> {
        for (name, value) in [("permits", self.permits), ("burst", self.burst)] {
            if !Self::PERMITS.contains(&value) {
                return Err(Error::invalid(format!("{name} is {value}: use 1 to {}", Self::PERMITS.end())));
            }
        }
        if !Self::PERIODS.contains(&self.per) {
            return Err(Error::invalid(format!("per is {:?}: use 1 ms to a day", self.per)));
        }
        Ok(())
    }
}
