//! Reminders: what an actor is woken for, whether it is in memory or not, and across restarts.

use std::cell::{Cell, RefCell};

use mainstay::actor::{ActorSettings, CatchUp};
use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay_core::time::{self, Duration, WallTime};
use serde::{Deserialize, Serialize};

use crate::harness::on;
use crate::log::Log;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

thread_local! {
    /// When handling began, whether or not it ended well, in milliseconds since the wall clock was started.
    static TRIES: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static HANDLING: Cell<usize> = const { Cell::new(0) };
    static HANDLING_MOST: Cell<usize> = const { Cell::new(0) };
}

/// What the wall clock shows when a test begins: midnight.
const MIDNIGHT: WallTime = WallTime::from_millis(1_800_057_600_000);

fn passed() -> u64 {
    time::wall().as_millis() - MIDNIGHT.as_millis()
}

fn tries() -> Vec<u64> {
    TRIES.with_borrow(Clone::clone)
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Plan {
    name: String,
    after: Option<Duration>,
    every: Option<Duration>,
    cron: Option<String>,
    catch_up: String,
    value: u64,
}

/// A reminder as its actor sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Seen {
    name: String,
    due: u64,
    failures: u32,
    fired: u64,
}

#[interface]
trait Clerk {
    async fn set(&mut self, plan: Plan) -> Result<()>;
    /// Sets and cancels, looks at what there is, and fails.
    async fn rethink(&mut self, plan: Plan, cancel: String) -> Result<()>;
    async fn cancel(&mut self, name: String) -> Result<bool>;
    async fn list(&self) -> Result<Vec<Seen>>;
    /// What is done when a reminder comes.
    async fn behave(&mut self, how: String) -> Result<()>;
    /// The values of the reminders that were handled, with the milliseconds since midnight.
    async fn handled(&self) -> Result<Vec<(u64, u64)>>;
    async fn work(&mut self, time: Duration) -> Result<()>;
}

macro_rules! clerk {
    ($name:ident, $level:literal) => {
        #[derive(Actor)]
        #[actor(implements(Clerk), persistence = $level, partitions = 1)]
        struct $name {
            behaviour: State<String>,
            handled: State<Vec<(u64, u64)>>,
            ctx: Context,
        }

        impl Clerk for $name {
            async fn set(&mut self, plan: Plan) -> Result<()> {
                set(&self.ctx, &plan)
            }

            async fn rethink(&mut self, plan: Plan, cancel: String) -> Result<()> {
                set(&self.ctx, &plan)?;
                let is_there = |name: &str| Ok::<_, Error>(self.ctx.reminder(name)?.is_some());
                assert!(is_there(&plan.name)? && is_there(&cancel)?);
                assert!(self.ctx.cancel_reminder(&cancel)?);
                assert!(is_there(&plan.name)? && !is_there(&cancel)?);
                let names: Vec<String> = self.ctx.reminders()?.into_iter().map(|reminder| reminder.name).collect();
                assert_eq!(names, [plan.name]);
                Err(Error::invalid("on second thoughts"))
            }

            async fn cancel(&mut self, name: String) -> Result<bool> {
                self.ctx.cancel_reminder(&name)
            }

            async fn list(&self) -> Result<Vec<Seen>> {
                let reminders = self.ctx.reminders()?.into_iter();
                let seen = reminders.map(|reminder| {
                    assert_eq!(self.ctx.reminder(&reminder.name).unwrap().as_ref(), Some(&reminder));
                    let due = reminder.due.as_millis() - MIDNIGHT.as_millis();
                    Seen { name: reminder.name, due, failures: reminder.failures, fired: reminder.fired }
                });
                Ok(seen.collect())
            }

            async fn behave(&mut self, how: String) -> Result<()> {
                *self.behaviour = how;
                Ok(())
            }

            async fn handled(&self) -> Result<Vec<(u64, u64)>> {
                Ok(self.handled.clone())
            }

            async fn work(&mut self, time: Duration) -> Result<()> {
                time::sleep(time).await;
                Ok(())
            }
        }

        impl Remindable for $name {
            async fn remind(&mut self, reminder: Reminder) -> Result<()> {
                TRIES.with_borrow_mut(|tries| tries.push(passed()));
                let value = reminder.decode()?;
                self.handled.push((value, passed()));
                match &**self.behaviour {
                    "fail" => return Err(Error::invalid("not today")),
                    "panic" => panic!("never"),
                    "cancel" => assert!(self.ctx.cancel_reminder(&reminder.name)?),
                    "cancel and save" => {
                        assert!(self.ctx.cancel_reminder(&reminder.name)?);
                        self.save().await?;
                    }
                    "again" => drop(self.ctx.remind(&reminder.name).after(SECOND).value(&(value + 1)).set()?),
                    // At the same millisecond as the one that is handled.
                    "at once" => {
                        *self.behaviour = "".to_owned();
                        self.ctx.remind(&reminder.name).after(Duration::ZERO).value(&value).set()?;
                        self.save().await?;
                    }
                    "hang" => std::future::pending().await,
                    "slow" => {
                        HANDLING.set(HANDLING.get() + 1);
                        HANDLING_MOST.set(HANDLING_MOST.get().max(HANDLING.get()));
                        time::sleep(SECOND / 2).await;
                        HANDLING.set(HANDLING.get() - 1);
                    }
                    _ => {}
                }
                Ok(())
            }
        }
    };
}

clerk!(DurableClerk, "persisted");
clerk!(LightClerk, "none");

fn set(ctx: &Context, plan: &Plan) -> Result<()> {
    let mut remind = ctx.remind(&plan.name).value(&plan.value).catch_up(match &*plan.catch_up {
        "all" => CatchUp::All,
        "skip" => CatchUp::Skip,
        _ => CatchUp::Once,
    });
    if let Some(after) = plan.after {
        remind = remind.after(after);
    }
    if let Some(period) = plan.every {
        remind = remind.every(period);
    }
    if let Some(expression) = &plan.cron {
        remind = remind.cron(expression);
    }
    remind.set().map(drop)
}

fn once(name: &str, after: Duration) -> Plan {
    Plan { name: name.into(), after: Some(after), value: 1, ..Plan::default() }
}

fn every(name: &str, period: Duration) -> Plan {
    Plan { name: name.into(), every: Some(period), value: 1, ..Plan::default() }
}

async fn start(disk: &SimDisk) -> (Node, ClerkRef) {
    let node = on(disk).actor::<DurableClerk>().start().await.unwrap();
    let clerk: ClerkRef = node.actor("c").unwrap();
    (node, clerk)
}

/// A node whose wall clock shows midnight.
async fn first_start(disk: &SimDisk) -> (Node, ClerkRef) {
    time::start_thread_wall(MIDNIGHT);
    let (node, clerk) = start(disk).await;
    clerk.list().await.unwrap();
    time::start_thread_wall(MIDNIGHT);
    (node, clerk)
}

/// Lets virtual time pass at one stroke, and what is due then happen.
async fn jump(time: Duration) {
    tokio::time::advance(time).await;
    time::sleep(Duration::from_millis(100)).await;
}

async fn handled(clerk: &ClerkRef) -> usize {
    clerk.handled().await.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn it_comes_when_it_is_due_to_the_millisecond_with_its_value_and_then_it_is_gone() {
    let disk = SimDisk::new(1);
    let (_node, clerk) = first_start(&disk).await;
    clerk.set(Plan { value: 77, ..once("r", Duration::from_millis(1234)) }).await.unwrap();
    let set = clerk.list().await.unwrap();
    assert_eq!((set.len(), &*set[0].name, set[0].failures, set[0].fired), (1, "r", 0, 0));
    time::sleep(2 * SECOND).await;
    assert_eq!(tries(), [set[0].due]);
    assert!((1234..1244).contains(&set[0].due), "{set:?}");
    assert_eq!(clerk.handled().await.unwrap(), [(77, set[0].due)]);
    assert_eq!(clerk.list().await.unwrap(), []);
    time::sleep(10 * SECOND).await;
    assert_eq!(tries().len(), 1);
}

/// Sets the wall clock alone.
fn set_back(by: Duration) {
    time::start_thread_wall(time::wall().saturating_sub(by));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_keeps_nothing_waiting_that_waits_for_a_length_of_time() {
    let disk = SimDisk::new(1);
    let (_node, clerk) = first_start(&disk).await;
    time::sleep(2 * HOUR).await;
    clerk.set(once("once", 10 * SECOND)).await.unwrap();
    clerk.set(every("every", 4 * SECOND)).await.unwrap();
    clerk.set(Plan { catch_up: "skip".into(), ..every("skip", 4 * SECOND) }).await.unwrap();
    clerk.set(Plan { catch_up: "all".into(), ..every("all", 4 * SECOND) }).await.unwrap();
    time::sleep(5 * SECOND).await;
    assert_eq!(tries().len(), 3);
    set_back(HOUR);
    time::sleep(4 * SECOND).await;
    assert_eq!(tries().len(), 6, "the three with a period, in step");
    time::sleep(2 * SECOND).await;
    assert_eq!(tries().len(), 7, "the one that fires once, after ten seconds in all");
    time::sleep(4 * SECOND).await;
    assert_eq!(tries().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_while_the_node_was_down_makes_a_reminder_wait_once_more_at_most() {
    let disk = SimDisk::new(1);
    let (node, clerk) = first_start(&disk).await;
    time::sleep(2 * HOUR).await;
    clerk.set(once("once", 10 * SECOND)).await.unwrap();
    clerk.set(Plan { every: Some(SECOND), ..once("long before a period", 20 * SECOND) }).await.unwrap();
    clerk.set(every("every", 4 * SECOND)).await.unwrap();
    drop(node);
    disk.crash();
    set_back(HOUR);
    let (_node, clerk) = start(&disk).await;
    time::sleep(11 * SECOND).await;
    assert_eq!(handled(&clerk).await, 1 + 2);
    time::sleep(10 * SECOND).await;
    assert!(handled(&clerk).await > 1 + 4, "{:?}", clerk.handled().await);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_forward_fires_what_is_due_and_that_once() {
    let disk = SimDisk::new(1);
    let (_node, clerk) = first_start(&disk).await;
    clerk.set(once("once", HOUR)).await.unwrap();
    clerk.set(every("every", 600 * SECOND)).await.unwrap();
    time::sleep(SECOND).await;
    time::start_thread_wall(time::wall().saturating_add(2 * HOUR));
    // The clock is looked at once a minute.
    time::sleep(61 * SECOND).await;
    assert_eq!(handled(&clerk).await, 2);
    time::sleep(500 * SECOND).await;
    assert_eq!(handled(&clerk).await, 2, "those that were missed are one");
}

#[tokio::test(start_paused = true)]
async fn a_time_of_day_comes_when_the_clock_shows_it_and_each_once() {
    let disk = SimDisk::new(1);
    let (_node, clerk) = first_start(&disk).await;
    clerk.set(Plan { cron: Some("* * * * *".into()), value: 1, name: "r".into(), ..Plan::default() }).await.unwrap();
    time::sleep(HOUR + SECOND).await;
    assert_eq!(tries().len(), 60);
    set_back(HOUR);
    time::sleep(HOUR).await;
    assert_eq!(tries().len(), 60, "these have been");
    time::sleep(61 * SECOND).await;
    assert_eq!(tries().len(), 61);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_one_wakes_an_alarm_that_sleeps_for_a_later_one() {
    let disk = SimDisk::new(1);
    let (_node, clerk) = first_start(&disk).await;
    clerk.set(once("late", 10 * DAY)).await.unwrap();
    time::sleep(SECOND).await;
    clerk.set(once("soon", SECOND)).await.unwrap();
    time::sleep(SECOND + Duration::from_millis(5)).await;
    assert_eq!(tries().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_period_counts_from_the_end_of_a_run_or_from_the_plan_if_all_are_to_come() {
    let disk = SimDisk::new(1);
    let (_node, clerk) = first_start(&disk).await;
    clerk.behave("slow".into()).await.unwrap();
    clerk.set(every("r", SECOND)).await.unwrap();
    time::sleep(5 * SECOND).await;
    let times = tries();
    assert_eq!(times.len(), 3, "{times:?}");
    assert!(times.windows(2).all(|two| two[1] - two[0] >= 1500), "{times:?}");

    assert!(clerk.cancel("r".into()).await.unwrap());
    TRIES.take();
    clerk.set(Plan { catch_up: "all".into(), ..every("all", SECOND) }).await.unwrap();
    time::sleep(4 * SECOND + SECOND / 4).await;
    let times = tries();
    assert_eq!(times.len(), 4, "{times:?}");
    assert!(times.windows(2).all(|two| two[1] - two[0] == 1000), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_fails_has_set_and_cancelled_nothing() {
    let disk = SimDisk::new(1);
    let (_node, clerk) = first_start(&disk).await;
    clerk.set(once("kept", SECOND)).await.unwrap();
    let error = clerk.rethink(once("never", SECOND), "kept".into()).await.unwrap_err();
    assert!(error.to_string().contains("on second thoughts"), "{error}");
    assert_eq!(clerk.list().await.unwrap().iter().map(|seen| &*seen.name).collect::<Vec<_>>(), ["kept"]);
    time::sleep(5 * SECOND).await;
    assert_eq!(handled(&clerk).await, 1);
}

#[tokio::test(start_paused = true)]
async fn one_of_the_same_name_is_an_update_and_one_that_is_cancelled_does_not_come() {
    let disk = SimDisk::new(1);
    let (_node, clerk) = first_start(&disk).await;
    clerk.set(every("r", SECOND)).await.unwrap();
    clerk.set(Plan { value: 5, ..once("r", 3 * SECOND) }).await.unwrap();
    clerk.set(once("cancelled", SECOND)).await.unwrap();
    assert!(clerk.cancel("cancelled".into()).await.unwrap());
    assert!(!clerk.cancel("cancelled".into()).await.unwrap());
    assert!(!clerk.cancel("x".repeat(100_000)).await.unwrap(), "no such name can be");
    time::sleep(10 * SECOND).await;
    let handled = clerk.handled().await.unwrap();
    assert_eq!((handled.len(), handled[0].0), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_comes_again_with_growing_pauses_until_it_is_handled() {
    for how in ["fail", "panic"] {
        let log = Log::start();
        TRIES.take();
        let disk = SimDisk::new(1);
        let (node, clerk) = first_start(&disk).await;
        clerk.behave(how.into()).await.unwrap();
        clerk.set(once("r", SECOND)).await.unwrap();
        time::sleep(9 * SECOND).await;
        let times = tries();
        let pauses: Vec<u64> = times.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(times.len() >= 4, "{times:?}");
        for (pause, longest) in pauses.iter().zip([1000, 2000, 4000, 8000, 16000]) {
            // The turn and the commit of the failure take some milliseconds.
            assert!((longest / 2..=longest + 20).contains(pause), "{how}: {pauses:?}");
        }
        assert_eq!(handled(&clerk).await, 0, "what a failed run has changed is dropped");
        let failures = clerk.list().await.unwrap()[0].failures;
        assert_eq!(failures as usize, times.len(), "it stays, although it fires once");
        assert_eq!(log.matching(&["WARN", "DurableClerk", "actor=\"c\"", "reminder=\"r\""]), times.len());

        // That is on record, and so a restart is no way to be tried at once.
        drop(node);
        disk.crash();
        let (_node, clerk) = start(&disk).await;
        assert_eq!(clerk.list().await.unwrap()[0].failures, failures);
        assert_eq!(tries().len(), times.len());
        clerk.behave(String::new()).await.unwrap();
        time::sleep(20 * SECOND).await;
        assert_eq!((tries().len(), handled(&clerk).await), (times.len() + 1, 1));
        assert_eq!(clerk.list().await.unwrap(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_are_as_the_settings_have_them() {
    time::start_thread_wall(MIDNIGHT);
    let disk = SimDisk::new(1);
    let slower = |settings: &mut ActorSettings| {
        settings.reminders.retry_initial = 10 * SECOND;
        settings.reminders.retry_max = 15 * SECOND;
    };
    let node = on(&disk).actor::<DurableClerk>().actor_defaults(slower).start().await.unwrap();
    let clerk: ClerkRef = node.actor("c").unwrap();
    clerk.behave("fail".into()).await.unwrap();
    clerk.set(once("r", Duration::ZERO)).await.unwrap();
    time::sleep(60 * SECOND).await;
    let pauses: Vec<u64> = tries().windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses.len() >= 3 && pauses.iter().all(|pause| (5000..=15020).contains(pause)), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn what_the_actor_does_with_it_while_it_handles_it_wins() {
    let disk = SimDisk::new(1);
    let (_node, clerk) = first_start(&disk).await;
    for how in ["cancel", "cancel and save"] {
        clerk.behave(how.into()).await.unwrap();
        clerk.set(every(how, SECOND)).await.unwrap();
        time::sleep(5 * SECOND).await;
        assert_eq!(clerk.list().await.unwrap(), [], "{how}");
    }
    assert_eq!(handled(&clerk).await, 2);

    clerk.behave("again".into()).await.unwrap();
    clerk.set(once("again", SECOND)).await.unwrap();
    time::sleep(3 * SECOND + SECOND / 2).await;
    let values: Vec<u64> = clerk.handled().await.unwrap().into_iter().skip(2).map(|(value, _)| value).collect();
    assert_eq!(values, [1, 2, 3]);
    assert!(clerk.cancel("again".into()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_set_again_for_the_same_moment_while_it_is_handled_comes_again() {
    time::start_thread_wall(MIDNIGHT);
    let disk = SimDisk::new(1);
    // Without a disk, so that no time passes in between.
    let node = on(&disk).actor::<LightClerk>().start().await.unwrap();
    let clerk: ClerkRef = node.actor("c").unwrap();
    clerk.behave("at once".into()).await.unwrap();
    clerk.set(once("r", Duration::ZERO)).await.unwrap();
    time::sleep(SECOND).await;
    assert_eq!((handled(&clerk).await, clerk.list().await.unwrap()), (2, vec![]));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_not_durable_yet_is_listed_by_later_turns() {
    let disk = SimDisk::new(1);
    let (_node, clerk) = first_start(&disk).await;
    // The second runs while the commit of the first is under way.
    let (set, listed) = tokio::join!(clerk.set(once("r", DAY)), clerk.list());
    set.unwrap();
    assert_eq!(listed.unwrap().len(), 1);
    let (cancelled, listed) = tokio::join!(clerk.cancel("r".into()), clerk.list());
    assert!(cancelled.unwrap());
    assert_eq!(listed.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn what_another_turn_does_with_it_before_it_is_handled_wins() {
    let disk = SimDisk::new(1);
    let (_node, clerk) = first_start(&disk).await;
    clerk.set(once("r", SECOND)).await.unwrap();
    time::sleep(SECOND / 2).await;
    // The reminder is due, and waits in line behind the one that cancels it.
    let (worked, cancelled) = tokio::join!(clerk.work(SECOND), clerk.cancel("r".into()));
    worked.unwrap();
    assert!(cancelled.unwrap());
    time::sleep(10 * SECOND).await;
    assert_eq!(tries(), Vec::<u64>::new());
}

/// What is handled, and when, of an hourly reminder with a downtime from half past midnight until six.
async fn after_downtime(plan: Plan) -> Vec<u64> {
    let disk = SimDisk::new(1);
    let (node, clerk) = first_start(&disk).await;
    clerk.set(plan).await.unwrap();
    time::sleep(HOUR / 2).await;
    node.stop().await;
    drop(clerk);
    tokio::time::advance(HOUR * 11 / 2).await;
    // Nobody calls the actor.
    let (_node, _) = start(&disk).await;
    time::sleep(SECOND).await;
    for _ in 0..4 {
        jump(HOUR / 2).await;
    }
    tries().into_iter().map(|millis| millis / 60_000).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_fired_once_together() {
    assert_eq!(after_downtime(every("r", HOUR)).await, [360, 420, 480]);
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_fired_each() {
    let times = after_downtime(Plan { catch_up: "all".into(), ..every("r", HOUR) }).await;
    assert_eq!(times, [360, 360, 360, 360, 360, 360, 420, 480]);
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_skipped() {
    let times = after_downtime(Plan { catch_up: "skip".into(), ..every("r", HOUR) }).await;
    assert_eq!(times, [420, 480]);
}

#[tokio::test(start_paused = true)]
async fn one_that_fires_once_is_never_skipped() {
    let times = after_downtime(Plan { catch_up: "skip".into(), ..once("r", HOUR) }).await;
    assert_eq!(times, [360]);
}

#[tokio::test(start_paused = true)]
async fn a_cron_expression_is_followed_in_utc() {
    let disk = SimDisk::new(1);
    let (_node, clerk) = first_start(&disk).await;
    clerk.set(Plan { name: "r".into(), cron: Some("30 9 * * *".into()), ..Plan::default() }).await.unwrap();
    let half_past_nine = HOUR * 19 / 2;
    assert_eq!(clerk.list().await.unwrap()[0].due, half_past_nine.as_millis() as u64);
    tokio::time::advance(half_past_nine - SECOND).await;
    time::sleep(SECOND / 2).await;
    assert_eq!(tries(), Vec::<u64>::new());
    time::sleep(SECOND).await;
    assert_eq!(tries(), [half_past_nine.as_millis() as u64]);
    assert_eq!(clerk.list().await.unwrap()[0].due, (half_past_nine + DAY).as_millis() as u64);
}

#[tokio::test(start_paused = true)]
async fn sixty_days_and_years_are_no_obstacle() {
    let disk = SimDisk::new(1);
    let (node, clerk) = first_start(&disk).await;
    // More milliseconds than 32 bits can count, and more than two years.
    for (name, days) in [("months", 60), ("years", 7 * 365)] {
        clerk.set(once(name, days * DAY)).await.unwrap();
    }
    tokio::time::advance(60 * DAY - SECOND).await;
    time::sleep(SECOND / 2).await;
    assert_eq!(tries(), Vec::<u64>::new());
    time::sleep(SECOND).await;
    assert_eq!(tries().len(), 1);
    tokio::time::advance((7 * 365 - 60) * DAY - 10 * SECOND).await;
    time::sleep(SECOND).await;
    assert_eq!(tries().len(), 1);
    time::sleep(10 * SECOND).await;
    assert_eq!(tries().len(), 2);

    clerk.set(once("century", 100 * 365 * DAY)).await.unwrap();
    node.stop().await;
    drop(clerk);
    let (_node, clerk) = start(&disk).await;
    assert_eq!(clerk.list().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_is_set_is_followed_within_a_minute() {
    let disk = SimDisk::new(1);
    let (_node, clerk) = first_start(&disk).await;
    clerk.set(once("r", HOUR)).await.unwrap();
    time::sleep(SECOND).await;
    time::start_thread_wall(MIDNIGHT.saturating_add(2 * HOUR));
    time::sleep(61 * SECOND).await;
    assert_eq!(tries().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_loses_none_and_what_is_saved_is_handled_exactly_once() {
    time::start_thread_wall(MIDNIGHT);
    let disk = SimDisk::new(3);
    for round in 0..12 {
        let (node, clerk) = start(&disk).await;
        if round == 0 {
            clerk.set(Plan { catch_up: "all".into(), ..every("r", Duration::from_millis(20)) }).await.unwrap();
        }
        // Somewhere in a turn, or in its commit.
        time::sleep(Duration::from_millis(31 + 7 * round)).await;
        drop(node);
        disk.crash();
    }
    let (_node, clerk) = start(&disk).await;
    // All of the periods that have passed, and each of them once.
    let (handled, seen) = loop {
        // The next period may come between two questions.
        let (before, seen) = (handled(&clerk).await as u64, clerk.list().await.unwrap());
        if handled(&clerk).await as u64 == before {
            break (before, seen);
        }
    };
    assert_eq!(handled, seen[0].fired);
    assert!(handled > 30, "{handled}");
    assert!(tries().len() as u64 >= handled);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_cut_short_by_a_crash_comes_again_without_any_call() {
    let disk = SimDisk::new(1);
    let (node, clerk) = first_start(&disk).await;
    clerk.behave("slow".into()).await.unwrap();
    clerk.set(once("r", SECOND)).await.unwrap();
    time::sleep(SECOND + SECOND / 4).await;
    assert_eq!(tries().len(), 1, "it is being handled");
    drop(node);
    disk.crash();
    let (_node, clerk) = start(&disk).await;
    time::sleep(2 * SECOND).await;
    assert_eq!(tries().len(), 2);
    assert_eq!(handled(&clerk).await, 1);
    assert_eq!(clerk.list().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn many_are_handled_beside_each_other_and_not_more_than_so_many() {
    time::start_thread_wall(MIDNIGHT);
    let disk = SimDisk::new(1);
    let node = on(&disk).actor::<LightClerk>().start().await.unwrap();
    let clerks: Vec<ClerkRef> = (0..200).map(|id| node.actor(id).unwrap()).collect();
    for clerk in &clerks {
        clerk.behave("slow".into()).await.unwrap();
        clerk.set(once("r", SECOND)).await.unwrap();
        clerk.set(once("s", SECOND)).await.unwrap();
    }
    time::sleep(20 * SECOND).await;
    for clerk in &clerks {
        assert_eq!((handled(clerk).await, clerk.list().await.unwrap()), (2, vec![]));
    }
    assert!((33..=64).contains(&HANDLING_MOST.get()), "{}", HANDLING_MOST.get());
}

/// How long a reminder of another actor waits that is due a second from now.
async fn late(node: &Node) -> Duration {
    let other: ClerkRef = node.actor("other").unwrap();
    let before = handled(&other).await;
    other.set(once("r", SECOND)).await.unwrap();
    let due = time::now() + SECOND;
    while handled(&other).await == before {
        assert!(time::now().saturating_duration_since(due) < HOUR, "no reminder comes any more");
        time::sleep(SECOND / 10).await;
    }
    time::now().saturating_duration_since(due)
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_has_no_time_for_its_own_keeps_nobody_from_theirs() {
    time::start_thread_wall(MIDNIGHT);
    let disk = SimDisk::new(1);
    let node = on(&disk).actor::<LightClerk>().start().await.unwrap();
    let busy: Vec<ClerkRef> = (0..3).map(|id| node.actor(id).unwrap()).collect();
    for clerk in &busy {
        for number in 0..200 {
            clerk.set(once(&number.to_string(), SECOND)).await.unwrap();
        }
    }
    let working = busy
        .iter()
        .map(|clerk| clerk.with_timeout(DAY))
        .map(|clerk| mainstay_core::task::spawn(async move { clerk.work(HOUR / 6).await.unwrap() }));
    let working: Vec<_> = working.collect();
    time::sleep(2 * SECOND).await;
    let waited = late(&node).await;
    assert!(waited < SECOND, "{waited:?}");
    for clerk in working {
        clerk.await.unwrap();
    }
    time::sleep(SECOND).await;
    for clerk in &busy {
        assert_eq!((handled(clerk).await, clerk.list().await.unwrap()), (200, vec![]), "and then they come");
    }
}

#[tokio::test(start_paused = true)]
async fn handlers_that_hang_hold_the_others_up_for_a_moment_and_not_for_good() {
    time::start_thread_wall(MIDNIGHT);
    let disk = SimDisk::new(1);
    let node = on(&disk).actor::<LightClerk>().start().await.unwrap();
    for id in 0..200 {
        let clerk: ClerkRef = node.actor(id).unwrap();
        clerk.behave("hang".into()).await.unwrap();
        clerk.set(once("r", SECOND)).await.unwrap();
        clerk.set(once("s", SECOND)).await.unwrap();
    }
    time::sleep(2 * SECOND).await;
    let waited = late(&node).await;
    assert!(waited < 60 * SECOND, "{waited:?}");
    assert_eq!(tries().len(), 201, "and none of them is begun twice");
    let waited = late(&node).await;
    assert!(waited < SECOND, "those that hang are in nobody's way any more: {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_disk_they_work_as_well_and_a_full_mailbox_keeps_none_out() {
    time::start_thread_wall(MIDNIGHT);
    let disk = SimDisk::new(1);
    let node = on(&disk).actor::<LightClerk>().actor_defaults(|settings| settings.mailbox = 1).start().await.unwrap();
    let clerk: ClerkRef = node.actor("c").unwrap();
    clerk.set(every("r", SECOND)).await.unwrap();
    let (one, two) = tokio::join!(clerk.work(SECOND / 2), clerk.work(SECOND));
    one.and(two).unwrap();
    time::sleep(SECOND * 11 / 5).await;
    assert_eq!((tries().len(), clerk.list().await.unwrap()[0].failures), (3, 0));
}

#[interface]
trait Deaf {
    async fn set(&mut self) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Deaf))]
struct DeafActor {
    ctx: Context,
}

impl Deaf for DeafActor {
    async fn set(&mut self) -> Result<()> {
        self.ctx.remind("r").set().map(drop)
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_is_refused_by_name() {
    let disk = SimDisk::new(1);
    let node = on(&disk).actor::<DeafActor>().actor::<LightClerk>().start().await.unwrap();
    let deaf: DeafRef = node.actor("d").unwrap();
    let error = deaf.set().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("reminder \"r\" of DeafActor(\"d\")"), "{error}");
    assert!(error.to_string().contains("implement `Remindable` for DeafActor"), "{error}");

    let clerk: ClerkRef = node.actor("c").unwrap();
    let both = Plan { cron: Some("@daily".into()), ..every("both", SECOND) };
    let wrong = Plan { cron: Some("every day".into()), every: None, ..every("wrong", SECOND) };
    for (plan, why) in [
        (every("zero", Duration::ZERO), "the period of a reminder is zero"),
        (both, "give it one of them"),
        (wrong, "every day"),
        (once("far", Duration::MAX), "REMINDER_SPAN_MAX"),
        (once(&"x".repeat(100_000), SECOND), "REMINDER_NAME_BYTES_MAX"),
    ] {
        let error = clerk.set(plan).await.unwrap_err();
        assert!(
            error.to_string().contains("LightClerk(\"c\") cannot be set") && error.to_string().contains(why),
            "{error}"
        );
    }
    assert_eq!(clerk.list().await.unwrap(), []);
}
