use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::lease::margin;
use crate::limit::MARGIN;

fn report(number: u64, held: u64, used: u64, want: u64) -> Report {
    Report { number, held, used, need: want.min(1), want, ..Report::default() }
}

#[test]
fn shares_are_given_as_they_are_wanted_and_never_more_than_there_is() {
    let now = Instant::now();
    let mut shares = Shares::new(10, now);
    let (a, _) = shares.renew("a", report(1, 0, 0, 6), now).unwrap();
    assert_eq!(a.permits, 6);
    let (b, _) = shares.renew("b", report(1, 0, 0, 6), now).unwrap();
    assert_eq!(b.permits, 4, "as many as there are");
    shares.renew("b", report(2, 4, 4, 0), now).unwrap();
    let (c, nudge) = shares.renew("c", report(1, 0, 0, 1), now).unwrap();
    assert_eq!((c.permits, nudge), (0, Nudge::All));
    // What is not used goes to the one who waits.
    let (a, nudge) = shares.renew("a", report(2, 6, 3, 0), now).unwrap();
    assert_eq!((a.permits, nudge), (3, Nudge::Nobody));
    let (_, nudge) = shares.renew("a", report(3, 3, 3, 0), now).unwrap();
    assert_eq!(nudge, Nudge::First("c".into()));
    assert_eq!(shares.renew("c", report(2, 0, 0, 1), now).unwrap().0.permits, 1);
}

#[test]
fn who_has_more_than_is_fair_gives_back_though_its_own_callers_wait() {
    let now = Instant::now();
    let mut shares = Shares::new(10, now);
    assert_eq!(shares.renew("a", report(1, 0, 0, 10), now).unwrap().0.permits, 10);
    assert_eq!(shares.renew("b", report(1, 0, 0, 20), now).unwrap().0.permits, 0);
    let (a, _) = shares.renew("a", report(2, 10, 10, 50), now).unwrap();
    assert_eq!(a.permits, 5);
    let (_, nudge) = shares.renew("a", report(3, 8, 8, 50), now).unwrap();
    assert_eq!(nudge, Nudge::First("b".into()));
    assert_eq!(shares.renew("b", report(2, 0, 0, 20), now).unwrap().0.permits, 1);
    assert_eq!(shares.renew("a", report(4, 5, 5, 50), now).unwrap().0.permits, 6, "b still waits");
    assert_eq!(shares.renew("b", report(3, 1, 1, 19), now).unwrap().0.permits, 2);
}

#[test]
fn who_needs_many_at_once_is_not_passed_over() {
    let now = Instant::now();
    let mut shares = Shares::new(10, now);
    shares.renew("a", report(1, 0, 0, 10), now).unwrap();
    let all = Report { number: 1, need: 10, want: 10, ..Report::default() };
    shares.renew("b", all, now).unwrap();
    assert_eq!(shares.renew("a", report(2, 10, 10, 50), now).unwrap().0.permits, 0);
    assert_eq!(shares.renew("a", report(3, 0, 0, 50), now).unwrap().1, Nudge::First("b".into()));
    assert_eq!(shares.renew("b", Report { number: 2, ..all }, now).unwrap().0.permits, 10);
}

#[test]
fn a_report_that_was_overtaken_changes_nothing() {
    let now = Instant::now();
    let mut shares = Shares::new(10, now);
    shares.renew("a", report(2, 0, 0, 6), now).unwrap();
    let (share, _) = shares.renew("a", report(1, 0, 0, 0), now).unwrap();
    assert_eq!(share.permits, 6);
}

#[test]
fn what_a_process_held_that_died_is_free_when_its_lease_has_run_out() {
    let now = Instant::now();
    let mut shares = Shares::new(10, now);
    shares.renew("a", report(1, 0, 0, 10), now).unwrap();
    shares.renew("b", report(1, 0, 0, 1), now + LEASE).unwrap();
    assert_eq!(shares.look(now + LEASE), Nudge::Nobody);
    assert_eq!(shares.look(now + LEASE + MARGIN), Nudge::First("b".into()));
}

#[test]
fn nobody_is_taken_for_dead_because_whoever_counts_stood_still() {
    let now = Instant::now();
    let mut shares = Shares::new(10, now);
    shares.renew("a", report(1, 0, 0, 5), now).unwrap();
    shares.renew("b", report(1, 0, 0, 5), now).unwrap();
    let later = now + 5 * LEASE;
    shares.stood_still(later);
    assert_eq!(
        shares.renew("a", report(2, 5, 5, 5), later).unwrap().0.permits,
        5,
        "b has not had the time to be heard"
    );
    let last = later + LEASE + MARGIN;
    assert_eq!(shares.renew("a", report(3, 5, 5, 5), last).unwrap().0.permits, 10, "b has");
}

#[test]
fn a_share_is_good_for_as_long_as_its_holder_has_said() {
    let now = Instant::now();
    let mut shares = Shares::new(10, now);
    let lease = 10 * LEASE;
    let long = Report { lease_ms: lease.as_millis() as u64, ..report(1, 0, 0, 10) };
    shares.renew("a", long, now).unwrap();
    assert!(!shares.is_all_in(now + lease));
    assert!(shares.is_all_in(now + lease + margin(lease)));
}

#[test]
fn after_a_restart_those_of_before_keep_their_shares_and_nobody_gets_them() {
    let now = Instant::now();
    let mut shares = Shares::after_restart(10, LEASE, now);
    assert_eq!(shares.renew("new", report(1, 0, 0, 1), now).unwrap().0.permits, 0);
    assert_eq!(shares.renew("old", report(9, 7, 7, 0), now).unwrap().0.permits, 5, "asked to give some back");
    let later = now + LEASE + MARGIN;
    shares.renew("old", report(10, 7, 7, 0), now + LEASE).unwrap();
    assert_eq!(shares.renew("new", report(2, 0, 0, 9), later).unwrap().0.permits, 3);
}

/// A process as it behaves: it keeps to what it was told and has said.
#[derive(Debug, Clone, Default)]
struct Process {
    target: u64,
    used: u64,
    waiting: u64,
    number: u64,
    /// Which process it is of those that were here one after another.
    generation: u64,
    /// The end of its lease.
    until: Option<Instant>,
}

#[derive(Debug, Clone)]
enum Step {
    Pass { millis: u64 },
    Renew { process: usize },
    Want { process: usize, permits: u64 },
    Begin { process: usize },
    End { process: usize },
    Die { process: usize },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let process = 0..3_usize;
    prop_oneof![
        3 => (0..400_u64).prop_map(|millis| Step::Pass { millis }),
        6 => process.clone().prop_map(|process| Step::Renew { process }),
        3 => (process.clone(), 1..9_u64).prop_map(|(process, permits)| Step::Want { process, permits }),
        6 => process.clone().prop_map(|process| Step::Begin { process }),
        3 => process.clone().prop_map(|process| Step::End { process }),
        1 => process.prop_map(|process| Step::Die { process }),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    /// Whatever processes do, and whenever the actor is lost: those with a lease have never more out than the limit.
    #[test]
    fn the_limit_holds_at_every_moment(steps in prop::collection::vec(step(), 1..200)) {
        const LIMIT: u64 = 10;
        let mut now = Instant::now();
        let mut shares = Shares::new(LIMIT, now);
        let mut processes: Vec<Process> = vec![Process::default(); 3];
        for step in steps {
            match step {
                Step::Pass { millis } => now += Duration::from_millis(millis),
                Step::Renew { process } => {
                    let it = &mut processes[process];
                    it.number += 1;
                    // A process that was cut off has lost its permits, and has ended what they were for.
                    if it.until.is_none_or(|until| until <= now) {
                        (it.target, it.used) = (0, 0);
                    }
                    let held = it.target.max(it.used);
                    let want = it.waiting.saturating_sub(held - it.used);
                    let need = it.waiting.min(1);
                    let said = Report { number: it.number, held, used: it.used, need, want, ..Report::default() };
                    let (share, _) = shares.renew(&format!("{process}/{}", it.generation), said, now).unwrap();
                    (it.target, it.until) = (share.permits, Some(now + LEASE));
                }
                Step::Want { process, permits } => processes[process].waiting = permits,
                Step::Begin { process } => {
                    let it = &mut processes[process];
                    let is_leased = it.until.is_some_and(|until| now < until);
                    if is_leased && it.waiting > 0 && it.used < it.target {
                        (it.used, it.waiting) = (it.used + 1, it.waiting - 1);
                    }
                }
                Step::End { process } => processes[process].used = processes[process].used.saturating_sub(1),
                Step::Die { process } => {
                    let generation = processes[process].generation + 1;
                    processes[process] = Process { generation, ..Process::default() };
                }
                Step::Restart => shares = Shares::after_restart(LIMIT, LEASE, now),
            }
            let leased = processes.iter().filter(|it| it.until.is_some_and(|until| now < until));
            prop_assert!(leased.map(|it| it.used).sum::<u64>() <= LIMIT);
        }
    }
}
