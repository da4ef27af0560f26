use super::*;

const TIME: Duration = Duration::from_secs(10);

fn leases(size: u32, next_token: u64, now: Instant) -> Leases<u32> {
    let settings = LeaseSettings { time: TIME, waiting_max: 3, ageing: Duration::from_secs(5) };
    Leases::new(settings, size, next_token, now)
}

fn join(leases: &mut Leases<u32>, waiter: u32, now: Instant) {
    assert!(leases.join(waiter, Priority::NORMAL, now, |_| true));
}

/// Who was granted what, with which token.
fn grants(leases: &mut Leases<u32>, now: Instant) -> Vec<(u32, u32, u64)> {
    let granted = leases.attend(now, |_| true).granted;
    granted.into_iter().map(|grant| (grant.waiter, grant.index, grant.token)).collect()
}

#[test]
fn free_members_are_given_in_the_order_of_the_line_and_the_rest_waits() {
    let now = Instant::now();
    let mut leases = leases(2, 1, now);
    (1..=3).for_each(|waiter| join(&mut leases, waiter, now));
    assert_eq!(grants(&mut leases, now), [(1, 0, 1), (2, 1, 2)]);
    assert_eq!((leases.leased(), leases.waiting().count()), (2, 1));
    leases.release(1, 2, Duration::ZERO, now);
    assert_eq!(grants(&mut leases, now), [(3, 1, 3)]);
}

#[test]
fn a_line_that_is_full_takes_nobody_but_lets_those_go_who_have_left() {
    let now = Instant::now();
    let mut leases = leases(1, 1, now);
    (1..=3).for_each(|waiter| join(&mut leases, waiter, now));
    assert!(!leases.join(4, Priority::HIGH, now, |_| true));
    assert!(leases.join(5, Priority::NORMAL, now, |waiter| *waiter != 2));
    assert_eq!(leases.waiting().copied().collect::<Vec<_>>(), [1, 3, 5]);
    let granted = leases.attend(now, |waiter| *waiter == 5).granted;
    assert_eq!(granted.iter().map(|grant| grant.waiter).collect::<Vec<_>>(), [5]);
}

#[test]
fn a_lease_that_has_expired_is_given_on_only_after_its_member_was_told() {
    let now = Instant::now();
    let mut leases = leases(1, 1, now);
    join(&mut leases, 1, now);
    join(&mut leases, 2, now);
    assert_eq!(leases.attend(now, |_| true).next, Some(now + TIME));
    let late = now + TIME;
    let work = leases.attend(late, |_| true);
    assert!(work.granted.is_empty());
    assert_eq!(work.revocations, [Revocation { index: 0, token: 1 }]);
    assert_eq!(leases.renew(0, 1, late), None);
    assert!(!leases.is_current(0, 1));
    assert!(leases.attend(late, |_| true).revocations.is_empty(), "once is enough");
    leases.revoked(0, false, late);
    let work = leases.attend(late, |_| true);
    assert_eq!((work.revocations.len(), work.next), (0, Some(late + REVOKE_AGAIN)));
    let later = late + REVOKE_AGAIN;
    assert_eq!(leases.attend(later, |_| true).revocations.len(), 1);
    leases.revoked(0, true, later);
    assert_eq!(grants(&mut leases, later), [(2, 0, 2)]);
    assert!(leases.is_current(0, 2));
}

#[test]
fn a_lease_that_is_renewed_does_not_expire() {
    let now = Instant::now();
    let mut leases = leases(1, 1, now);
    join(&mut leases, 1, now);
    grants(&mut leases, now);
    let soon = now + TIME / 2;
    assert_eq!(leases.renew(0, 1, soon), Some(TIME));
    assert_eq!(leases.attend(now + TIME, |_| true).next, Some(soon + TIME));
    assert!(leases.is_current(0, 1));
}

#[test]
fn a_coordinator_that_has_forgotten_its_leases_tells_members_before_it_gives_them() {
    let now = Instant::now();
    let mut leases = leases(2, 100, now);
    join(&mut leases, 1, now);
    let work = leases.attend(now, |_| true);
    assert!(work.granted.is_empty());
    assert_eq!(work.revocations, [Revocation { index: 0, token: 99 }], "as many as are waited for");
    leases.revoked(0, true, now);
    assert_eq!(grants(&mut leases, now), [(1, 0, 100)]);
}

#[test]
fn a_member_that_rests_is_passed_over() {
    let now = Instant::now();
    let mut leases = leases(1, 1, now);
    join(&mut leases, 1, now);
    grants(&mut leases, now);
    leases.release(0, 1, TIME, now);
    join(&mut leases, 2, now);
    let work = leases.attend(now, |_| true);
    assert_eq!((work.granted.len(), work.next), (0, Some(now + TIME)));
    assert_eq!(grants(&mut leases, now + TIME), [(2, 0, 2)]);
}

#[test]
fn a_lease_of_a_member_that_is_to_go_is_left_to_its_end_and_not_renewed() {
    let now = Instant::now();
    let mut leases = leases(3, 1, now);
    (1..=3).for_each(|waiter| join(&mut leases, waiter, now));
    grants(&mut leases, now);
    leases.resize(1, now);
    assert!(leases.is_departing());
    assert_eq!(leases.renew(2, 3, now + TIME / 2), Some(TIME / 2));
    leases.release(1, 2, Duration::ZERO, now);
    assert!(leases.is_departing(), "the third has its lease");
    leases.attend(now + TIME, |_| true);
    assert!(!leases.is_departing());
    leases.resize(2, now + TIME);
    join(&mut leases, 4, now + TIME);
    let work = leases.attend(now + TIME, |_| true);
    assert!(work.granted.is_empty(), "both were leased, one to a holder who may come late");
}

#[test]
fn whoever_renews_a_lease_from_before_a_restart_keeps_it_and_the_others_are_told_in_time() {
    let now = Instant::now();
    let mut leases = leases(3, 100, now);
    leases.inherit(3, now);
    join(&mut leases, 1, now);
    let work = leases.attend(now, |_| true);
    assert!(work.granted.is_empty() && work.revocations.is_empty() && leases.is_any_held());
    assert_eq!(work.next, Some(now + TIME));
    let soon = now + TIME / 3;
    assert_eq!(leases.renew(0, 7, soon), Some(TIME));
    assert_eq!(leases.renew(0, 5, soon), None, "an earlier holder, whose lease had expired before");
    assert!(leases.is_current(1, 8), "asked by a member that was restarted too");
    assert_eq!(leases.renew(1, 100, soon), None, "nobody has had that yet");
    assert!(leases.is_current(1, 9) && !leases.is_current(1, 8), "the last of two is the holder");
    leases.release(1, 9, Duration::ZERO, soon);
    assert_eq!(grants(&mut leases, soon), [(1, 1, 100)]);
    let work = leases.attend(now + TIME, |_| true);
    assert_eq!(work.revocations, [Revocation { index: 2, token: 100 }], "whoever had it has not come");
    assert!(leases.is_current(0, 7));
}

#[test]
fn a_member_that_is_to_go_is_left_to_a_holder_from_before_a_restart() {
    let now = Instant::now();
    let mut leases = leases(1, 100, now);
    leases.inherit(3, now);
    assert!(leases.is_departing());
    assert_eq!(leases.renew(2, 7, now + TIME / 2), Some(TIME / 2));
    leases.release(2, 7, Duration::ZERO, now + TIME / 2);
    assert!(leases.is_departing(), "there may be another");
    leases.attend(now + TIME, |_| true);
    assert!(!leases.is_departing());
}
