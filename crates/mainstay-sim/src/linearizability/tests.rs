use mainstay_core::random;
use rand::RngExt as _;

use super::*;

fn write(value: u64, called: Moment, ended: Moment) -> Write {
    Write { value, called, ended, is_certain: true }
}

fn maybe(value: u64, called: Moment, ended: Moment) -> Write {
    Write { value, called, ended, is_certain: false }
}

fn read(value: u64, called: Moment, ended: Moment) -> Read {
    Read { value, called, ended }
}

#[test]
fn what_happens_one_after_the_other_is_seen_in_this_order() {
    assert_eq!(check(&[], &[read(0, 1, 2)]), Ok(()));
    assert_eq!(check(&[write(1, 1, 2)], &[read(1, 3, 4), read(1, 5, 6)]), Ok(()));
    let late = check(&[write(1, 1, 2)], &[read(0, 3, 4)]).unwrap_err();
    assert_eq!(late, Contradiction::Within { value: 1, outer: 0, from: 1, to: 2 });
    let back = check(&[write(1, 1, 2), write(2, 3, 4)], &[read(2, 5, 6), read(1, 7, 8)]).unwrap_err();
    assert_eq!(back, Contradiction::Both { values: [1, 2], at: 4 });
}

#[test]
fn what_happens_at_the_same_time_has_any_order_and_only_one() {
    let writes = [write(1, 1, 10), write(2, 2, 9)];
    assert_eq!(check(&writes, &[read(1, 11, 12)]), Ok(()));
    assert_eq!(check(&writes, &[read(2, 11, 12)]), Ok(()));
    assert_eq!(check(&writes, &[read(2, 3, 4), read(1, 11, 12)]), Ok(()));
    let both = check(&writes, &[read(2, 3, 4), read(1, 5, 6), read(2, 7, 8)]).unwrap_err();
    assert!(matches!(both, Contradiction::Within { value: 1, outer: 2, .. }), "{both}");
    let both = check(&writes, &[read(2, 11, 14), read(1, 12, 13), read(2, 15, 16), read(1, 17, 18)]).unwrap_err();
    assert!(matches!(both, Contradiction::Both { .. }), "{both}");
}

#[test]
fn a_read_during_a_write_sees_the_old_or_the_new_and_then_not_the_old_again() {
    let one = [write(1, 2, 9)];
    assert_eq!(check(&one, &[read(0, 3, 4), read(1, 5, 6), read(1, 7, 8)]), Ok(()));
    assert!(check(&one, &[read(1, 3, 4), read(0, 5, 6)]).is_err());
}

#[test]
fn a_read_sees_only_what_was_written_before_it_ended() {
    assert_eq!(check(&[], &[read(7, 1, 2)]), Err(Contradiction::NeverWritten { value: 7 }));
    assert_eq!(check(&[write(7, 3, 4)], &[read(7, 1, 2)]), Err(Contradiction::ReadBeforeWritten { value: 7 }));
}

#[test]
fn an_unknown_write_happens_at_any_later_time_or_never_but_once() {
    let unknown = [maybe(1, 1, Moment::MAX), write(2, 3, 4)];
    assert_eq!(check(&unknown, &[read(2, 5, 6), read(2, 7, 8)]), Ok(()));
    assert_eq!(check(&unknown, &[read(2, 5, 6), read(1, 7, 8)]), Ok(()));
    assert_eq!(check(&unknown, &[read(0, 2, 5), read(1, 6, 7), read(1, 8, 9)]), Ok(()));
    assert!(check(&unknown, &[read(1, 5, 6), read(2, 7, 8), read(1, 9, 10)]).is_err());
    // One that is decided by a moment does not happen after it.
    let decided = [maybe(1, 1, 6)];
    assert_eq!(check(&decided, &[read(1, 7, 8)]), Ok(()));
    assert_eq!(check(&decided, &[read(0, 7, 8)]), Ok(()));
    assert!(check(&decided, &[read(0, 7, 8), read(1, 9, 10)]).is_err());
}

/// One operation, for the search below.
#[derive(Clone, Copy)]
struct Operation {
    called: Moment,
    ended: Moment,
    value: u64,
    is_write: bool,
    may_be_left_out: bool,
}

/// Tries every order: what nobody doubts, and what is far too slow for a real history.
fn has_an_order(rest: &[Operation], held: u64) -> bool {
    if rest.iter().all(|operation| operation.may_be_left_out) {
        return true;
    }
    (0..rest.len()).any(|next| {
        let operation = rest[next];
        // Nothing that is left had ended before it was called.
        if rest.iter().any(|other| !other.may_be_left_out && other.ended < operation.called) {
            return false;
        }
        let mut after = rest.to_vec();
        after.remove(next);
        // What is left out for good ends before this one: it is dropped, and may not come later.
        after.retain(|other| !(other.may_be_left_out && other.ended < operation.called));
        match operation.is_write {
            true => has_an_order(&after, operation.value),
            false => operation.value == held && has_an_order(&after, held),
        }
    })
}

#[test]
fn it_agrees_with_a_search_of_all_orders_on_small_histories() {
    random::seed_thread(11);
    let mut rng = random::rng();
    let mut found = [0; 2];
    for _ in 0..20_000 {
        let count = rng.random_range(2..=6);
        // Moments are unique: a shuffled list of them, two for each operation.
        let mut moments: Vec<Moment> = (1..=2 * count).collect();
        let (mut writes, mut reads) = (Vec::new(), Vec::new());
        for number in 1..=count {
            let mut take = || moments.remove(rng.random_range(0..moments.len().min(4)));
            let (one, other) = (take(), take());
            let (called, ended) = (one.min(other), one.max(other));
            if rng.random_bool(0.5) {
                let is_certain = rng.random_bool(0.7);
                let ended = if is_certain || rng.random_bool(0.5) { ended } else { Moment::MAX };
                writes.push(Write { value: number, called, ended, is_certain });
            } else {
                reads.push(Read { value: NOTHING, called, ended });
            }
        }
        for read in &mut reads {
            let choice = rng.random_range(0..=writes.len());
            read.value = writes.get(choice).map_or(NOTHING, |write| write.value);
        }
        let operations: Vec<Operation> = writes
            .iter()
            .map(|write| Operation {
                called: write.called,
                ended: write.ended,
                value: write.value,
                is_write: true,
                may_be_left_out: !write.is_certain,
            })
            .chain(reads.iter().map(|read| Operation {
                called: read.called,
                ended: read.ended,
                value: read.value,
                is_write: false,
                may_be_left_out: false,
            }))
            .collect();
        let expected = has_an_order(&operations, NOTHING);
        let judged = check(&writes, &reads);
        assert_eq!(judged.is_ok(), expected, "{writes:?} {reads:?}: {judged:?}");
        found[usize::from(expected)] += 1;
    }
    assert!(found[0] > 2_000 && found[1] > 2_000, "{found:?} say little");
}
