use proptest::prelude::*;

use super::*;

/// 2026-02-03T12:00:00Z, a Tuesday.
const NOON: u64 = 1_770_120_000_000;

fn next(expression: &str, after: u64) -> String {
    let next = CronSchedule::parse(expression).unwrap().next_after(WallTime::from_millis(after));
    next.map_or_else(|| "never".to_owned(), |next| next.to_string())
}

#[test]
fn the_next_time_is_that_of_the_calendar() {
    for (expression, expected) in [
        ("* * * * *", "2026-02-03T12:01:00.000Z"),
        ("* * * * * *", "2026-02-03T12:00:01.000Z"),
        ("*/15 * * * * *", "2026-02-03T12:00:15.000Z"),
        ("0 12 * * *", "2026-02-04T12:00:00.000Z"),
        ("30 8 * * MON-FRI", "2026-02-04T08:30:00.000Z"),
        ("0 0 * * SUN", "2026-02-08T00:00:00.000Z"),
        ("0 0 * * 7", "2026-02-08T00:00:00.000Z"),
        ("0 0 1 * *", "2026-03-01T00:00:00.000Z"),
        ("0 0 L * *", "2026-02-28T00:00:00.000Z"),
        ("0 0 29 2 *", "2028-02-29T00:00:00.000Z"),
        ("0 0 1 jan *", "2027-01-01T00:00:00.000Z"),
        // The day of the month or the day of the week, as cron has it.
        ("0 0 13 * FRI", "2026-02-06T00:00:00.000Z"),
        ("0 0 * * FRI#2", "2026-02-13T00:00:00.000Z"),
        ("@hourly", "2026-02-03T13:00:00.000Z"),
        ("@daily", "2026-02-04T00:00:00.000Z"),
        ("@yearly", "2027-01-01T00:00:00.000Z"),
        ("0 0 30 2 *", "never"),
    ] {
        assert_eq!(next(expression, NOON), expected, "{expression}");
    }
}

#[test]
fn a_time_in_the_middle_of_a_second_is_after_its_start() {
    assert_eq!(next("0 12 * * *", NOON - 1), "2026-02-03T12:00:00.000Z");
    assert_eq!(next("0 12 * * *", NOON), "2026-02-04T12:00:00.000Z");
    assert_eq!(next("0 12 * * *", NOON + 999), "2026-02-04T12:00:00.000Z");
    assert_eq!(next("* * * * * *", NOON + 999), "2026-02-03T12:00:01.000Z");
}

#[test]
fn there_is_a_next_time_at_the_start_of_time_and_none_at_its_end() {
    assert_eq!(next("* * * * * *", 0), "1970-01-01T00:00:01.000Z");
    assert_eq!(next("0 0 * * THU", 0), "1970-01-08T00:00:00.000Z");
    for end in [u64::MAX, u64::MAX - 1, 253_402_300_800_000] {
        assert_eq!(next("* * * * * *", end), "never");
    }
}

#[test]
fn an_expression_that_is_none_is_refused_with_what_is_wrong_about_it() {
    for (expression, why) in [
        ("", "empty"),
        ("  ", "empty"),
        ("* * *", "fields"),
        ("* * * * * * * *", "fields"),
        // Years are not part of it.
        ("0 0 0 1 1 * 2030", "years"),
        ("61 * * * *", "61"),
        ("* 24 * * *", "24"),
        ("* * 32 * *", "32"),
        ("* * * 13 *", "13"),
        ("5-1 * * * *", "5"),
        ("*/0 * * * *", "step"),
        ("at noon", "fields"),
        ("* * * * BLA", "illegal"),
    ] {
        let error = CronSchedule::parse(expression).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{expression}");
        let message = error.to_string();
        assert!(message.contains(&format!("{expression:?}")), "{message}");
        assert!(message.to_lowercase().contains(why), "{why} is not in: {message}");
    }
    let error = CronSchedule::parse(&"*".repeat(CRON_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("CRON_BYTES_MAX"));
}

#[test]
fn a_schedule_is_the_text_that_it_was_made_from() {
    let schedule: CronSchedule = "0 12 * * *".parse().unwrap();
    assert_eq!((schedule.as_str(), schedule.to_string().as_str()), ("0 12 * * *", "0 12 * * *"));
    assert_eq!(schedule, schedule.clone());
    assert_ne!(schedule, "1 12 * * *".parse().unwrap());
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![Just("*".to_owned()), "[0-9]{1,2}", "[0-9]{1,2}-[0-9]{1,2}", "\\*/[0-9]{1,2}", "[0-9LW#,/?*+@-]{1,6}"]
}

proptest! {
    #[test]
    fn any_text_is_refused_or_has_a_later_next_time(
        text in prop_oneof![any::<String>(), prop::collection::vec(field(), 5..7).prop_map(|fields| fields.join(" "))],
        after in prop_oneof![0..4_000_000_000_000_u64, any::<u64>()],
    ) {
        if let Ok(schedule) = CronSchedule::parse(&text)
            && let Some(next) = schedule.next_after(WallTime::from_millis(after))
        {
            prop_assert!(next > WallTime::from_millis(after));
            prop_assert_eq!(next.as_millis() % 1000, 0);
        }
    }

    #[test]
    fn every_second_is_found_again_by_its_date(seconds in 0..300_000_000_000_u64) {
        let civil = Utc(seconds).to_civil();
        prop_assert_eq!(Utc::from_civil(civil).map(|found| found.0), Some(seconds));
        prop_assert!(CivilDate::from_ymd_opt(civil.year(), civil.month(), civil.day()).is_some());
    }
}
