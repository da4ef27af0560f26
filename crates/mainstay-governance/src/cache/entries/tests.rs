use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_was_used_least_recently_goes_first_by_number_and_by_bytes() {
    let now = Instant::now();
    let mut entries = Entries::new(3, 100);
    for key in [1, 2, 3] {
        entries.put(key, Some(key), 10, now + SECOND);
    }
    entries.get(&1, now);
    entries.put(4, Some(4), 10, now + SECOND);
    assert_eq!(entries.get(&2, now), Found::Nothing);
    assert_eq!(entries.get(&1, now), Found::Fresh(Some(1)));
    entries.put(5, Some(5), 85, now + SECOND);
    assert_eq!((entries.len(), entries.bytes()), (2, 95));
    assert_eq!(entries.get(&1, now), Found::Fresh(Some(1)));
    entries.put(5, Some(5), 101, now + SECOND);
    assert_eq!(entries.get(&5, now), Found::Nothing, "what is too large is not kept, nor what it was before");
}

#[test]
fn what_is_over_is_stale_and_goes_in_the_end() {
    let now = Instant::now();
    let mut entries = Entries::new(3, 100);
    entries.put(1, None::<u32>, 1, now + SECOND);
    assert_eq!(entries.get(&1, now), Found::Fresh(None));
    assert_eq!(entries.get(&1, now + 3 * SECOND), Found::Stale(None, 2 * SECOND));
    entries.tidy(now + 3 * SECOND, 3 * SECOND);
    assert_eq!(entries.len(), 1);
    entries.tidy(now + 4 * SECOND, 3 * SECOND);
    assert_eq!(entries.len(), 0);
}

#[test]
fn only_what_was_used_is_due_and_once() {
    let now = Instant::now();
    let mut entries = Entries::new(3, 100);
    entries.put(1, Some(1), 1, now + 10 * SECOND);
    entries.put(2, Some(2), 1, now + 10 * SECOND);
    entries.get(&1, now);
    assert_eq!(entries.due(now, 5 * SECOND), Vec::<i32>::new());
    assert_eq!(entries.due(now + 5 * SECOND, 5 * SECOND), [1]);
    assert_eq!(entries.due(now + 5 * SECOND, 5 * SECOND), Vec::<i32>::new());
}

proptest! {
    /// Whatever is put, used and removed: the bounds hold, and the sums are right.
    #[test]
    fn the_bounds_hold(steps in prop::collection::vec((0..3_u8, 0..20_u32, 0..40_usize), 1..300)) {
        let now = Instant::now();
        let mut entries = Entries::new(8, 100);
        for (what, key, bytes) in steps {
            match what {
                0 => entries.put(key, Some(bytes), bytes, now + SECOND),
                1 => drop(entries.get(&key, now)),
                _ => entries.remove(&key),
            }
            prop_assert!(entries.len() <= 8 && entries.bytes() <= 100);
            prop_assert_eq!(entries.by_use.len(), entries.len());
            prop_assert_eq!(entries.by_key.values().map(|it| it.bytes).sum::<usize>(), entries.bytes());
        }
    }
}
