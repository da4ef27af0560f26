use mainstay_core::random;
use mainstay_core::time::Duration;

use super::super::{CronSchedule, REMINDER_NAME_BYTES_MAX, REMINDER_SPAN_MAX, RETRY_BACKOFF};
use super::*;

const START: WallTime = WallTime::from_millis(1_770_120_000_000);
const MINUTE: Duration = Duration::from_secs(60);

fn after(duration: Duration) -> WallTime {
    START.saturating_add(duration)
}

fn minutes(minutes: u32) -> WallTime {
    after(MINUTE * minutes)
}

fn every_minute(catch_up: CatchUp) -> Reminder {
    Reminder::new("r", Bytes::from_static(b"p"), Schedule::Every(MINUTE), START).unwrap().with_catch_up(catch_up)
}

fn cron(expression: &str) -> Schedule {
    Schedule::Cron(CronSchedule::parse(expression).unwrap())
}

#[test]
fn it_fires_first_after_its_delay() {
    for schedule in [Schedule::Once, Schedule::Every(MINUTE)] {
        assert_eq!(schedule.first_due(START, Duration::ZERO).unwrap(), START);
        assert_eq!(schedule.first_due(START, MINUTE).unwrap(), minutes(1));
        assert_eq!(
            schedule.first_due(START, Duration::from_millis(1)).unwrap(),
            WallTime::from_millis(1_770_120_000_001)
        );
        // Far more than the 49.7 days that fit into 32 bits of milliseconds.
        let years = Duration::from_secs(100 * 365 * 24 * 3600);
        assert_eq!(schedule.first_due(START, years).unwrap().checked_duration_since(START), Some(years));
    }
    let daily = cron("0 12 * * *");
    assert_eq!(daily.first_due(START, Duration::ZERO).unwrap(), after(24 * 60 * MINUTE));
    assert_eq!(daily.first_due(START, 24 * 60 * MINUTE).unwrap(), after(48 * 60 * MINUTE));
}

#[test]
fn absurd_times_are_refused_with_a_remedy() {
    let refused = |schedule: Schedule, delay: Duration, word: &str| {
        let error = schedule.first_due(START, delay).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(word), "{error}");
    };
    refused(Schedule::Every(Duration::ZERO), MINUTE, "period of a reminder is zero");
    refused(Schedule::Every(Duration::MAX), MINUTE, "REMINDER_SPAN_MAX");
    refused(Schedule::Every(REMINDER_SPAN_MAX + Duration::from_nanos(1)), MINUTE, "REMINDER_SPAN_MAX");
    refused(Schedule::Once, Duration::MAX, "REMINDER_SPAN_MAX");
    refused(cron("0 0 30 2 *"), MINUTE, "never fire");
    Schedule::Every(REMINDER_SPAN_MAX).first_due(START, REMINDER_SPAN_MAX).unwrap();
    let error = Schedule::Once.first_due(WallTime::MAX, MINUTE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(Schedule::Once.first_due(WallTime::MAX, Duration::ZERO).unwrap(), WallTime::MAX);
}

#[test]
fn what_is_too_large_is_refused() {
    let new = |name: &str, payload: usize| Reminder::new(name, vec![0; payload].into(), Schedule::Once, START);
    new(&"x".repeat(REMINDER_NAME_BYTES_MAX), REMINDER_PAYLOAD_BYTES_MAX).unwrap();
    let error = new("x", REMINDER_PAYLOAD_BYTES_MAX + 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("REMINDER_PAYLOAD_BYTES_MAX"));
    assert_eq!(new(&"x".repeat(REMINDER_NAME_BYTES_MAX + 1), 0).unwrap_err().kind(), ErrorKind::TooLarge);
    let error = Reminder::new("x", Bytes::new(), Schedule::Every(Duration::ZERO), START).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn one_that_fires_once_is_done_after_success_and_never_after_failure() {
    for catch_up in [CatchUp::Once, CatchUp::All, CatchUp::Skip] {
        let once = Reminder::new("r", Bytes::new(), Schedule::Once, START).unwrap().with_catch_up(catch_up);
        assert_eq!(once.after_success(minutes(1)), None);
        let mut failed = once;
        for failures in 1..100 {
            failed = failed.after_failure(minutes(1));
            assert_eq!((failed.failures, failed.planned, failed.fired), (failures, START, 0));
            // However long the node was away.
            assert_eq!(failed.when_due(minutes(1000), minutes(999)), WhenDue::Fire);
        }
        assert_eq!(failed.after_success(minutes(2)), None);
    }
}

#[test]
fn caught_up_once_a_period_counts_from_the_end_of_the_run() {
    let reminder = every_minute(CatchUp::Once);
    // In time, with a run of five seconds; and after ten minutes in which nobody was there.
    for done in [after(Duration::from_secs(5)), minutes(10)] {
        let next = reminder.after_success(done).unwrap();
        assert_eq!((next.due, next.planned, next.fired), (done.saturating_add(MINUTE), next.due, 1));
    }
    assert_eq!(reminder.when_due(minutes(10), minutes(9)), WhenDue::Fire);
}

#[test]
fn caught_up_with_all_every_period_fires_at_its_time() {
    let mut reminder = every_minute(CatchUp::All);
    // Nobody was there for ten minutes. Each run takes a second.
    let mut now = minutes(10);
    for missed in 0..=10 {
        assert_eq!((reminder.due, reminder.fired), (minutes(missed), u64::from(missed)));
        assert_eq!(reminder.when_due(now, minutes(10)), WhenDue::Fire);
        now = now.saturating_add(Duration::from_secs(1));
        reminder = reminder.after_success(now).unwrap();
    }
    assert_eq!(reminder.due, minutes(11), "the next one is in the future, and on the grid");
}

#[test]
fn failures_do_not_move_the_grid() {
    for (catch_up, expected) in
        [(CatchUp::Once, minutes(10).saturating_add(MINUTE)), (CatchUp::All, minutes(1)), (CatchUp::Skip, minutes(11))]
    {
        let failed = every_minute(catch_up).after_failure(after(Duration::from_secs(7)));
        assert!(failed.due > after(Duration::from_secs(7)), "{failed:?}");
        let next = failed.after_success(minutes(10)).unwrap();
        assert_eq!((next.due, next.failures, next.fired), (expected, 0, 1), "{catch_up:?}");
    }
}

#[test]
fn skipped_it_is_not_fired_for_what_was_missed() {
    let reminder = every_minute(CatchUp::Skip);
    let now = minutes(10).saturating_add(Duration::from_secs(30));
    let WhenDue::Postpone(next) = reminder.when_due(now, minutes(10)) else { panic!("it was fired") };
    assert_eq!((next.due, next.planned, next.fired), (minutes(11), minutes(11), 0));
    assert_eq!(next.when_due(minutes(11), minutes(10)), WhenDue::Fire);
    // On the grid itself it is the one after.
    let WhenDue::Postpone(next) = reminder.when_due(minutes(10), minutes(10)) else { panic!("it was fired") };
    assert_eq!(next.due, minutes(11));
    // Somebody was there: it is only late, and those that it ran into are left out.
    assert_eq!(reminder.when_due(now, START), WhenDue::Fire);
    assert_eq!(reminder.after_success(now).unwrap().due, minutes(11));
    // It was fired in time, and failed.
    assert_eq!(reminder.after_failure(START).when_due(now, minutes(10)), WhenDue::Fire);
}

#[test]
fn a_cron_expression_is_caught_up_with_like_a_period() {
    let first = after(60 * MINUTE);
    let hourly = |catch_up| Reminder::new("r", Bytes::new(), cron("@hourly"), first).unwrap().with_catch_up(catch_up);
    let now = after(5 * 60 * MINUTE + MINUTE);
    assert_eq!(hourly(CatchUp::Once).after_success(now).unwrap().due, after(6 * 60 * MINUTE));
    assert_eq!(hourly(CatchUp::All).after_success(now).unwrap().due, after(2 * 60 * MINUTE));
    assert_eq!(hourly(CatchUp::Skip).after_success(now).unwrap().due, after(6 * 60 * MINUTE));
    let WhenDue::Postpone(next) = hourly(CatchUp::Skip).when_due(now, now) else { panic!("it was fired") };
    assert_eq!(next.due, after(6 * 60 * MINUTE));
    // A clock that was set back does not make it fire twice for the same time.
    for catch_up in [CatchUp::Once, CatchUp::All, CatchUp::Skip] {
        assert_eq!(hourly(catch_up).after_success(START).unwrap().due, after(2 * 60 * MINUTE), "{catch_up:?}");
    }
}

#[test]
fn a_schedule_without_a_next_time_is_done() {
    // 9999-01-01, which no expression reaches.
    let end = WallTime::from_millis(253_370_764_800_000);
    let mut reminder = Reminder::new("r", Bytes::new(), cron("@hourly"), end).unwrap();
    for catch_up in [CatchUp::Once, CatchUp::All, CatchUp::Skip] {
        reminder.catch_up = catch_up;
        assert_eq!(reminder.after_success(end), None);
    }
    assert_eq!(reminder.when_due(end.saturating_add(MINUTE), end.saturating_add(MINUTE)), WhenDue::Remove);
}

#[test]
fn nothing_overflows_at_the_end_of_time() {
    for catch_up in [CatchUp::Once, CatchUp::All, CatchUp::Skip] {
        for period in [Duration::from_nanos(1), Duration::from_millis(1), REMINDER_SPAN_MAX] {
            for due in [WallTime::EPOCH, START, WallTime::MAX] {
                let mut reminder = Reminder::new("r", Bytes::new(), Schedule::Every(period), due).unwrap();
                reminder = reminder.with_catch_up(catch_up);
                (reminder.failures, reminder.fired) = (u32::MAX, u64::MAX);
                for now in [WallTime::EPOCH, START, WallTime::MAX] {
                    let next = reminder.after_success(now).unwrap();
                    assert!(next.due > due || next.due > now || next.due == WallTime::MAX, "{next:?}");
                    assert!(reminder.after_failure(now).due >= now);
                    reminder.failures = 0;
                    let _ = reminder.when_due(now, WallTime::MAX);
                }
            }
        }
    }
}

#[test]
fn a_part_of_a_millisecond_is_a_whole_one() {
    let mut reminder = every_minute(CatchUp::Skip);
    reminder.schedule = Schedule::Every(Duration::from_micros(1500));
    assert_eq!(reminder.after_success(after(Duration::from_millis(3))).unwrap().due, after(Duration::from_millis(4)));
    reminder.catch_up = CatchUp::All;
    assert_eq!(reminder.after_success(START).unwrap().due, after(Duration::from_millis(2)));
}

#[test]
fn the_pause_grows_with_each_failure_and_is_bounded() {
    random::seed_thread(1);
    let mut reminder = every_minute(CatchUp::Once);
    let mut pauses = Vec::new();
    for _ in 0..20 {
        reminder = reminder.after_failure(START);
        pauses.push(reminder.due.checked_duration_since(START).unwrap());
    }
    assert!(pauses[0] >= Duration::from_millis(500) && pauses[0] <= Duration::from_secs(1), "{pauses:?}");
    assert!(pauses[5] >= Duration::from_secs(16) && pauses[5] <= Duration::from_secs(32), "{pauses:?}");
    assert!(pauses[19] >= RETRY_BACKOFF.max / 2 && pauses[19] <= RETRY_BACKOFF.max, "{pauses:?}");
}

#[test]
fn what_waits_for_a_length_of_time_does_not_wait_for_longer_because_a_clock_was_set_back() {
    let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
    let set = WallTime::from_millis(1_000_000_000_000);
    let due = set.saturating_add(10 * second);
    let once = Reminder::new("r", Bytes::new(), Schedule::Once, due).unwrap().with_wait(10 * second);
    // Four seconds after it was set the clock is set back by an hour, and that is noticed a second later.
    let now = set.saturating_add(5 * second).saturating_sub(hour);
    let next = once.after_set_back(now, Some(hour), hour).unwrap();
    assert_eq!(next.due, now.saturating_add(5 * second), "what was left");
    assert_eq!(once.after_set_back(now, None, hour).unwrap().due, now.saturating_add(10 * second), "once more");
    assert_eq!(next.after_set_back(now, Some(hour), hour), None);
    for later in [set, set.saturating_add(hour)] {
        assert_eq!(once.after_set_back(later, None, hour), None, "nor is anything done to a clock that was not");
    }
    let handled = |schedule| Reminder { fired: 1, ..Reminder::new("r", Bytes::new(), schedule, due).unwrap() };
    let minutely = handled(Schedule::Every(60 * second)).after_set_back(now, None, hour).unwrap();
    assert_eq!((minutely.due, minutely.planned), (now.saturating_add(60 * second), minutely.due));
    // A time of day comes when the clock shows it.
    let at = Reminder::new("r", Bytes::new(), Schedule::Once, due).unwrap();
    assert_eq!(at.after_set_back(now, Some(hour), hour), None);
    let cron = Schedule::Cron(CronSchedule::parse("* * * * *").unwrap());
    assert_eq!(handled(cron).after_set_back(now, Some(hour), hour), None);
    // A pause after a failure is one all the same.
    let failed = Reminder { failures: 1, ..at };
    let next = failed.after_set_back(now, None, 30 * second).unwrap();
    assert_eq!((next.due, next.planned), (now.saturating_add(30 * second), due));
}
