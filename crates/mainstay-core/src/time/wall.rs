use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A moment on the wall clock, in milliseconds since 1970-01-01 in UTC: what can be stored, and compared by other
/// processes, other than an [`Instant`](super::Instant).
///
/// Durations count in whole milliseconds, a part of one as a whole one, so that nothing that is due after a length of
/// time is due too early.
///
/// ```
/// use std::time::Duration;
///
/// use mainstay_core::time::WallTime;
///
/// let noon = WallTime::from_millis(1_770_120_000_000);
/// assert_eq!(noon.to_string(), "2026-02-03T12:00:00.000Z");
/// assert!(noon < noon.saturating_add(Duration::from_micros(1)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallTime(u64);

impl WallTime {
    /// The first moment there is: 1970-01-01T00:00:00Z.
    pub const EPOCH: WallTime = WallTime(0);

    /// The last moment there is, which never comes.
    pub const MAX: WallTime = WallTime(u64::MAX);

    /// The moment so many milliseconds after [`EPOCH`](Self::EPOCH).
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// The milliseconds since [`EPOCH`](Self::EPOCH).
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The moment a length of time later, unless that is after [`MAX`](Self::MAX).
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        self.0.checked_add(whole_millis(duration)?).map(Self)
    }

    /// The moment a length of time earlier, unless that is before [`EPOCH`](Self::EPOCH).
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(whole_millis(duration)?).map(Self)
    }

    /// The moment a length of time later, at most [`MAX`](Self::MAX).
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        self.checked_add(duration).unwrap_or(Self::MAX)
    }

    /// The moment a length of time earlier, at least [`EPOCH`](Self::EPOCH).
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).unwrap_or(Self::EPOCH)
    }

    /// How long after `earlier` this is, unless it is before it.
    pub fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        self.0.checked_sub(earlier.0).map(Duration::from_millis)
    }

    /// The day on which it is, in UTC: year, month and day of the month, the latter two counted from 1.
    pub fn date(self) -> (u64, u64, u64) {
        date(self.0 / DAY_MS)
    }

    /// How long after `earlier` this is; zero if it is before it. What is left until this moment is
    /// `moment.saturating_duration_since(wall())`.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.checked_duration_since(earlier).unwrap_or_default()
    }
}

fn whole_millis(duration: Duration) -> Option<u64> {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).ok()
}

/// As RFC 3339 has it, in UTC: `2026-02-03T12:00:00.000Z`. Years after 9999 have more digits.
impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        let of_day = self.0 % DAY_MS;
        let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
        let (second, milli) = (of_day / 1000 % 60, of_day % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// Year, month and day of the month, so many days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Leap years come in cycles of 4 years, the last one of a century left out, except for every fourth century. Each
    // cycle is counted from the year behind a leap day, so that the day is the last one of its cycle, and what would be a
    // cycle more than there are is that day: hence the bounds of 3.
    const YEAR: u64 = 365;
    const FOUR_YEARS: u64 = 4 * YEAR + 1;
    const CENTURY: u64 = 25 * FOUR_YEARS - 1;
    const FOUR_CENTURIES: u64 = 4 * CENTURY + 1;
    const FROM_YEAR_1_TO_1970: u64 = 719_162;

    let day = days + FROM_YEAR_1_TO_1970;
    let (cycles, day) = (day / FOUR_CENTURIES, day % FOUR_CENTURIES);
    let centuries = (day / CENTURY).min(3);
    let day = day - centuries * CENTURY;
    let (fours, day) = (day / FOUR_YEARS, day % FOUR_YEARS);
    let years = (day / YEAR).min(3);
    let mut day = day - years * YEAR;

    let is_leap = years == 3 && (fours != 24 || centuries == 3);
    let months = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in months {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (400 * cycles + 100 * centuries + 4 * fours + years + 1, month, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let mut days = 0;
        for year in 1970..=2810 {
            for month in 1..=12 {
                let length = match month {
                    2 => 28 + u64::from(is_leap(year)),
                    4 | 6 | 9 | 11 => 30,
                    _ => 31,
                };
                for day in 1..=length {
                    assert_eq!(date(days), (year, month, day));
                    days += 1;
                }
            }
        }
    }

    #[test]
    fn moments_are_shown_as_rfc_3339_has_them() {
        for (millis, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000 - 1, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_234_567_890_123, "2009-02-13T23:31:30.123Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "10000-01-01T00:00:00.000Z"),
            (u64::MAX, "584556019-04-03T14:25:51.615Z"),
        ] {
            assert_eq!(WallTime::from_millis(millis).to_string(), shown);
        }
    }

    #[test]
    fn arithmetic_ends_at_the_bounds_and_nothing_is_due_too_early() {
        let (moment, second) = (WallTime::from_millis(1500), Duration::from_secs(1));
        assert_eq!(moment.checked_add(second), Some(WallTime::from_millis(2500)));
        assert_eq!(moment.checked_sub(second), Some(WallTime::from_millis(500)));
        assert_eq!(moment.checked_sub(2 * second), None);
        assert_eq!(moment.saturating_sub(2 * second), WallTime::EPOCH);
        assert_eq!(WallTime::MAX.checked_add(Duration::from_nanos(1)), None);
        assert_eq!(WallTime::EPOCH.checked_add(Duration::MAX), None);
        assert_eq!(WallTime::EPOCH.saturating_add(Duration::MAX), WallTime::MAX);
        assert_eq!(WallTime::MAX.saturating_add(Duration::ZERO), WallTime::MAX);

        assert_eq!(moment.saturating_add(Duration::from_nanos(1)), WallTime::from_millis(1501));
        assert_eq!(moment.saturating_add(Duration::from_millis(1)), WallTime::from_millis(1501));

        let later = moment.saturating_add(second);
        assert_eq!(later.checked_duration_since(moment), Some(second));
        assert_eq!(moment.checked_duration_since(later), None);
        assert_eq!(moment.saturating_duration_since(later), Duration::ZERO);
        assert_eq!(WallTime::MAX.saturating_duration_since(WallTime::EPOCH).as_millis(), u128::from(u64::MAX));
    }
}
