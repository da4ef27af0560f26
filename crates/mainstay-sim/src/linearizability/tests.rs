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

/// Most tests have no swaps.
fn check(writes: &[Write], reads: &[Read]) -> Result<(), Contradiction> {
    super::check(writes, reads, &[])
}

fn swap(expected: u64, value: u64, called: Moment, ended: Moment) -> Swap {
    Swap { expected, value, called, ended, is_certain: true }
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

#[test]
fn a_value_is_replaced_once_and_is_not_there_afterwards() {
    let swaps = [swap(0, 1, 1, 2), swap(1, 2, 3, 4)];
    assert_eq!(super::check(&[], &[read(2, 5, 6)], &swaps), Ok(()));
    let late = super::check(&[], &[read(1, 5, 6)], &swaps).unwrap_err();
    assert_eq!(late, Contradiction::StillThere { value: 1, by: 2 });
    let lost = super::check(&[], &[], &[swap(0, 1, 1, 4), swap(0, 2, 2, 3)]).unwrap_err();
    assert_eq!(lost, Contradiction::ReplacedTwice { value: 0, by: [1, 2] });
    let circle = super::check(&[], &[], &[swap(1, 2, 1, 4), swap(2, 1, 2, 3), swap(2, 5, 5, 6)]).unwrap_err();
    assert!(matches!(circle, Contradiction::ReplacedTwice { .. } | Contradiction::Circle { .. }), "{circle}");
    let circle = super::check(&[], &[], &[swap(1, 2, 1, 4), swap(2, 1, 2, 3)]).unwrap_err();
    assert_eq!(circle, Contradiction::Circle { value: 1 });
}

#[test]
fn nothing_comes_between_a_value_and_what_replaces_it() {
    let chain = [swap(1, 2, 5, 6)];
    assert_eq!(super::check(&[write(1, 1, 2), write(3, 7, 8)], &[], &chain), Ok(()));
    // 1 was seen by the swap after 3 had come and gone.
    let between = super::check(&[write(1, 1, 2), write(3, 3, 4)], &[], &chain).unwrap_err();
    assert!(matches!(between, Contradiction::Within { value: 3, outer: 1, .. }), "{between}");
}

#[test]
fn an_unknown_swap_has_happened_if_a_later_one_replaced_its_value() {
    let unknown = Swap { is_certain: false, ended: Moment::MAX, ..swap(0, 1, 1, 2) };
    assert_eq!(super::check(&[], &[read(0, 3, 4)], &[unknown]), Ok(()));
    assert_eq!(super::check(&[], &[read(2, 5, 6)], &[unknown, swap(1, 2, 3, 4)]), Ok(()));
    assert!(super::check(&[], &[read(0, 5, 6)], &[unknown, swap(1, 2, 3, 4)]).is_err());
}

/// One operation, for the search below: it sees a value, writes one, or does both.
#[derive(Clone, Copy)]
struct Operation {
    called: Moment,
    ended: Moment,
    sees: Option<u64>,
    writes: Option<u64>,
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
        operation.sees.is_none_or(|value| value == held) && has_an_order(&after, operation.writes.unwrap_or(held))
    })
}

#[test]
fn it_agrees_with_a_search_of_all_orders_on_small_histories() {
    random::seed_thread(11);
    let mut rng = random::rng();
    let mut found = [0; 2];
    let mut found_with_swaps = [0; 2];
    for _ in 0..30_000 {
        let count = rng.random_range(2..=6);
        // Moments are unique: a shuffled list of them, two for each operation.
        let mut moments: Vec<Moment> = (1..=2 * count).collect();
        let (mut writes, mut reads, mut swaps) = (Vec::new(), Vec::new(), Vec::new());
        for number in 1..=count {
            let mut take = || moments.remove(rng.random_range(0..moments.len().min(4)));
            let (one, other) = (take(), take());
            let (called, ended) = (one.min(other), one.max(other));
            let is_certain = rng.random_bool(0.7);
            let later = if is_certain || rng.random_bool(0.5) { ended } else { Moment::MAX };
            match rng.random_range(0..6) {
                0..2 => writes.push(Write { value: number, called, ended: later, is_certain }),
                2..4 => swaps.push(Swap { expected: NOTHING, value: number, called, ended: later, is_certain }),
                _ => reads.push(Read { value: NOTHING, called, ended }),
            }
        }
        let written: Vec<u64> =
            writes.iter().map(|write| write.value).chain(swaps.iter().map(|swap| swap.value)).collect();
        let mut pick = || written.get(rng.random_range(0..=written.len())).copied().unwrap_or(NOTHING);
        reads.iter_mut().for_each(|read| read.value = pick());
        // Now and then one expects what it writes itself, which is no order either.
        swaps.iter_mut().for_each(|swap| swap.expected = pick());
        let written = writes.iter().map(|write| Operation {
            called: write.called,
            ended: write.ended,
            sees: None,
            writes: Some(write.value),
            may_be_left_out: !write.is_certain,
        });
        let read = reads.iter().map(|read| Operation {
            called: read.called,
            ended: read.ended,
            sees: Some(read.value),
            writes: None,
            may_be_left_out: false,
        });
        let swapped = swaps.iter().map(|swap| Operation {
            called: swap.called,
            ended: swap.ended,
            sees: Some(swap.expected),
            writes: Some(swap.value),
            may_be_left_out: !swap.is_certain,
        });
        let operations: Vec<Operation> = written.chain(read).chain(swapped).collect();
        let expected = has_an_order(&operations, NOTHING);
        let judged = super::check(&writes, &reads, &swaps);
        assert_eq!(judged.is_ok(), expected, "{writes:?} {reads:?} {swaps:?}: {judged:?}");
        found[usize::from(expected)] += 1;
        if !swaps.is_empty() {
            found_with_swaps[usize::from(expected)] += 1;
        }
    }
    assert!(
        found.into_iter().chain(found_with_swaps).all(|count| count > 2_000),
        "{found:?} {found_with_swaps:?} say little"
    );
}
