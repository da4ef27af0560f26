use proptest::prelude::*;

use super::*;
use crate::limit::MARGIN;

const LIMIT: RateLimit = RateLimit { permits: 100, per: Duration::from_secs(1), burst: 20 };

fn want(want: u64) -> Request {
    Request { need: 1, want, done: Vec::new() }
}

#[test]
fn what_is_out_counts_as_if_it_were_in() {
    let now = Instant::now();
    let mut bucket = Bucket::full(LIMIT, now);
    let share = bucket.ask("a", want(20), now);
    assert_eq!(share.permits, 20);
    // Time passes, and nothing comes because as much is out as there can be.
    let later = now + LEASE;
    assert_eq!(bucket.ask("b", want(5), later).permits, 0);
    // It is back unused, and that is all there is.
    bucket.ask("a", Request { done: vec![(share.id, 20)], ..Request::default() }, later);
    assert_eq!(bucket.ask("b", want(50), later).permits, 10, "of two who ask each gets its part");
    assert_eq!(bucket.ask("b", want(50), later).permits, 5);
}

#[test]
fn what_was_given_and_never_heard_of_again_counts_as_used() {
    let now = Instant::now();
    let mut bucket = Bucket::full(LIMIT, now);
    assert_eq!(bucket.ask("a", want(20), now).permits, 20);
    let over = now + LEASE + MARGIN;
    assert_eq!(bucket.ask("b", want(20), over).permits, 0, "nothing came while it was out");
    assert_eq!(bucket.ask("b", want(20), over + Duration::from_millis(50)).permits, 5);
}

#[test]
fn after_a_restart_nothing_is_given_until_all_leases_of_before_have_run_out() {
    let now = Instant::now();
    let mut bucket = Bucket::after_restart(LIMIT, 7, now);
    assert_eq!(bucket.ask("a", want(1), now + LEASE).permits, 0);
    assert!(!bucket.is_all_in(now + LEASE));
    let over = now + LEASE + MARGIN;
    assert!(bucket.is_all_in(over));
    assert_eq!(bucket.ask("a", want(1), over).permits, 0, "and the bucket was empty");
    assert_eq!(bucket.ask("a", want(1), over + Duration::from_millis(10)).permits, 1);
}

#[test]
fn shares_after_a_restart_have_other_ids_than_those_before() {
    let now = Instant::now();
    let before = Bucket::full(LIMIT, now).ask("a", want(1), now);
    let mut bucket = Bucket::empty(LIMIT, 1 << 24, now);
    let now = now + Duration::from_millis(100);
    let share = bucket.ask("a", want(5), now);
    assert_eq!((share.id, share.permits), ((1 << 24) + 1, 5));
    // What it has left of a share of before is not of this one.
    bucket.ask("a", Request { done: vec![(before.id, 1)], ..Request::default() }, now);
    assert!(!bucket.is_all_in(now));
    bucket.ask("a", Request { done: vec![(share.id, 1)], ..Request::default() }, now);
    assert!(bucket.is_all_in(now));
}

#[test]
fn what_is_there_stays_there_when_the_limit_is_changed() {
    let now = Instant::now();
    let mut bucket = Bucket::full(LIMIT, now);
    assert_eq!(bucket.ask("a", want(15), now).permits, 15);
    bucket.set_limit(RateLimit { permits: 1, per: Duration::from_secs(60), burst: 50 }, now);
    assert_eq!(bucket.ask("a", want(50), now).permits, 5);
}

#[test]
fn who_asked_first_is_served_first_even_if_it_needs_more() {
    let now = Instant::now();
    let mut bucket = Bucket::empty(LIMIT, 0, now);
    let large = Request { need: 10, want: 10, done: Vec::new() };
    let retry = bucket.ask("large", large.clone(), now).retry;
    assert_eq!(retry, Duration::from_millis(100));
    let mut now = now;
    for _ in 0..9 {
        now += Duration::from_millis(10);
        assert_eq!(bucket.ask("small", want(1), now).permits, 0, "that is for the one before");
    }
    now += Duration::from_millis(10);
    assert_eq!(bucket.ask("large", large, now).permits, 10);
}

#[test]
fn a_limit_that_is_changed_holds_at_once() {
    let now = Instant::now();
    let mut bucket = Bucket::full(LIMIT, now);
    bucket.set_limit(RateLimit { burst: 5, ..LIMIT }, now);
    let share = bucket.ask("a", want(50), now);
    assert_eq!((share.permits, share.limit.burst), (5, 5));
    bucket.set_limit(RateLimit { permits: 10, per: Duration::from_secs(60), burst: 50 }, now);
    let later = now + Duration::from_millis(6000);
    assert_eq!(bucket.ask("a", want(50), later).permits, 1);
}

/// What three processes do.
#[derive(Debug, Clone)]
enum Step {
    Pass { millis: u64 },
    Ask { holder: usize, need: u64, want: u64 },
    Use { holder: usize, permits: u64 },
    GiveBack { holder: usize },
    Forget { holder: usize },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..400_u64).prop_map(|millis| Step::Pass { millis }),
        4 => (0..3_usize, 0..8_u64, 0..30_u64).prop_map(|(holder, need, want)| Step::Ask { holder, need, want }),
        4 => (0..3_usize, 1..20_u64).prop_map(|(holder, permits)| Step::Use { holder, permits }),
        1 => (0..3_usize).prop_map(|holder| Step::GiveBack { holder }),
        1 => (0..3_usize).prop_map(|holder| Step::Forget { holder }),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    /// However shares are asked for, used, given back, forgotten, and the bucket lost: over any window, at most burst and
    /// what the rate brings in it are used.
    #[test]
    fn the_bound_holds_over_every_window(steps in prop::collection::vec(step(), 1..120)) {
        let begin = Instant::now();
        let (mut now, mut bucket) = (begin, Bucket::full(LIMIT, begin));
        let mut shares: Vec<Vec<(u64, u64, Instant)>> = vec![Vec::new(); 3];
        let mut used: Vec<(Instant, u64)> = Vec::new();
        let mut first_id = 0;
        for step in steps {
            match step {
                Step::Pass { millis } => now += Duration::from_millis(millis),
                Step::Ask { holder, need, want } => {
                    let share = bucket.ask(&holder.to_string(), Request { need, want, done: Vec::new() }, now);
                    if share.permits > 0 {
                        shares[holder].push((share.id, share.permits, now + LEASE));
                    }
                }
                Step::Use { holder, permits } => {
                    let Some(share) = shares[holder].iter_mut().find(|(.., until)| now < *until) else { continue };
                    let taken = permits.min(share.1);
                    share.1 -= taken;
                    used.push((now, taken));
                }
                Step::GiveBack { holder } => {
                    let done = shares[holder].drain(..).map(|(id, left, _)| (id, left)).collect();
                    bucket.ask(&holder.to_string(), Request { done, ..Request::default() }, now);
                }
                Step::Forget { holder } => shares[holder].clear(),
                Step::Restart => {
                    first_id += 1 << 24;
                    bucket = Bucket::after_restart(LIMIT, first_id, now);
                }
            }
        }
        for (index, (from, _)) in used.iter().enumerate() {
            let mut sum = 0;
            for (at, permits) in &used[index..] {
                sum += u128::from(*permits);
                let bound = u128::from(LIMIT.burst) * LIMIT.per.as_nanos()
                    + at.duration_since(*from).as_nanos() * u128::from(LIMIT.permits);
                prop_assert!(sum * LIMIT.per.as_nanos() <= bound, "{sum} used in {:?}", at.duration_since(*from));
            }
        }
    }
}
