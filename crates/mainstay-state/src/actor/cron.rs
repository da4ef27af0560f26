use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use croner::{CivilDate, CivilDateTime, CivilTime, Cron, CronDateTime, Resolution, Weekday};
use mainstay_core::time::WallTime;
use mainstay_core::{Error, ErrorKind, Result};

/// The most bytes of a cron expression.
pub const CRON_BYTES_MAX: usize = 256;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// When a reminder fires, as a cron expression in UTC. Cheap to clone.
///
/// Five fields (minute, hour, day of the month, month, day of the week), a sixth in front for the second, or an alias such
/// as `@daily`. Where both the day of the month and the day of the week are given, one of them is enough. There is no
/// daylight saving time in UTC and days have no leap seconds, so no moment is skipped and none comes twice.
///
/// ```
/// use mainstay_core::time::WallTime;
/// use mainstay_state::actor::CronSchedule;
///
/// let workdays: CronSchedule = "30 8 * * MON-FRI".parse()?;
/// let saturday = WallTime::from_millis(1_770_465_600_000); // 2026-02-07T12:00Z
/// assert_eq!(workdays.next_after(saturday).unwrap().to_string(), "2026-02-09T08:30:00.000Z");
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Clone)]
pub struct CronSchedule {
    inner: Arc<Inner>,
}

struct Inner {
    text: Box<str>,
    cron: Cron,
}

impl CronSchedule {
    /// Reads a cron expression.
    ///
    /// # Errors
    /// `Invalid` with what is wrong about it, `TooLarge` above [`CRON_BYTES_MAX`].
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > CRON_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("a cron expression has {} bytes, and CRON_BYTES_MAX is {CRON_BYTES_MAX}", text.len()),
            ));
        }
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(text).map_err(|error| {
            Error::invalid(format!(
                "cron expression {text:?} is not understood ({}): give minute, hour, day of the month, month and day of \
                 the week, and the second in front of them if need be",
                reason(&error)
            ))
        })?;
        Ok(Self { inner: Arc::new(Inner { text: text.into(), cron }) })
    }

    /// The expression as it was given.
    pub fn as_str(&self) -> &str {
        &self.inner.text
    }

    /// The first moment that it matches after another; `None` if there is none before the year 5000.
    pub fn next_after(&self, moment: WallTime) -> Option<WallTime> {
        let next = self.inner.cron.find_next_occurrence(&Utc::of(moment), false).ok()?;
        Some(WallTime::from_millis(next.0.checked_mul(1000)?))
    }
}

fn reason(error: &CronError) -> String {
    match error {
        CronError::EmptyPattern => "it is empty".to_owned(),
        CronError::InvalidPattern(why) | CronError::IllegalCharacters(why) | CronError::ComponentError(why) => {
            let mut letters = why.trim_end_matches('.').chars();
            letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
        }
        _ => "it names a time that does not exist".to_owned(),
    }
}

impl PartialEq for CronSchedule {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for CronSchedule {}

impl FromStr for CronSchedule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for CronSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for CronSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CronSchedule({:?})", self.as_str())
    }
}

/// A moment in UTC, in whole seconds since 1970.
#[derive(Debug, Clone, Copy)]
struct Utc(u64);

impl Utc {
    fn of(moment: WallTime) -> Self {
        Self(moment.as_millis() / 1000)
    }

    fn from_civil(civil: CivilDateTime) -> Option<Self> {
        const FROM_YEAR_1_TO_1970: u64 = 719_162;
        let years = u64::try_from(civil.year()).ok()?.checked_sub(1)?;
        let days = years * 365 + years / 4 - years / 100 + years / 400 + u64::from(civil.date().day_of_year()) - 1;
        let days = days.checked_sub(FROM_YEAR_1_TO_1970)?;
        let of_day = u64::from(civil.hour()) * 3600 + u64::from(civil.minute()) * 60 + u64::from(civil.second());
        Some(Self(days * DAY_SECONDS + of_day))
    }
}

impl CronDateTime for Utc {
    fn to_civil(&self) -> CivilDateTime {
        let (year, month, day) = WallTime::from_millis(self.0.saturating_mul(1000)).date();
        let of_day = (self.0 % DAY_SECONDS) as u32;
        // The calendar has at most 31 days and 12 months, and the last moment is in the year 584556019.
        CivilDateTime::new(
            CivilDate::from_parts_unchecked(year as i32, month as u32, day as u32),
            CivilTime::from_parts_unchecked(of_day / 3600, of_day / 60 % 60, of_day % 60),
        )
    }

    fn civil_weekday(&self) -> Weekday {
        // 1970-01-01 was a Thursday.
        match (self.0 / DAY_SECONDS + 4) % 7 {
            0 => Weekday::Sunday,
            1 => Weekday::Monday,
            2 => Weekday::Tuesday,
            3 => Weekday::Wednesday,
            4 => Weekday::Thursday,
            5 => Weekday::Friday,
            _ => Weekday::Saturday,
        }
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        Self::from_civil(civil).map(Resolution::Single).ok_or(CronError::InvalidDate)
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.0.checked_add_signed(seconds).map(Self)
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

#[cfg(test)]
mod tests;
