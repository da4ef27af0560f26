use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::Objects;
use crate::action::{Action, Answer};
use crate::workload::bank::{ACCOUNTS, BANKS};

/// The largest amount of a transfer: now and then there is not enough.
const AMOUNT_MAX: u64 = 40;

/// What one caller asks for, one after the other: by a seed, and by what it was told before.
#[derive(Debug)]
pub(crate) struct Choice {
    rng: StdRng,
    objects: Objects,
    /// What it saw last in each register, to expect it there.
    seen: BTreeMap<u32, u64>,
}

impl Choice {
    pub(crate) fn new(seed: u64, caller: usize, objects: Objects) -> Self {
        let rng = StdRng::seed_from_u64(seed ^ (caller as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Self { rng, objects, seen: BTreeMap::new() }
    }

    /// The next action; `op` is its number, and the value of what is written.
    pub(crate) fn next(&mut self, op: u64) -> Action {
        let rng = &mut self.rng;
        let register = rng.random_range(0..self.objects.registers);
        let counter = rng.random_range(0..self.objects.counters);
        let bank = rng.random_range(0..BANKS);
        match rng.random_range(0..100) {
            0..20 => Action::Read { register },
            20..32 => Action::Write { register, value: op },
            32..45 => {
                let expected = self.seen.get(&register).copied().unwrap_or_default();
                Action::Swap { register, expected, value: op }
            }
            45..63 => Action::Add { counter },
            63..68 => Action::Total { counter },
            68..78 => Action::Append { journal: rng.random_range(0..self.objects.journals), line: op },
            78..82 => Action::Ticks { ticker: rng.random_range(0..self.objects.tickers) },
            82..95 => {
                let from = rng.random_range(0..ACCOUNTS);
                let to = (from + rng.random_range(1..ACCOUNTS)) % ACCOUNTS;
                Action::Transfer { bank, id: op, from, to, amount: rng.random_range(1..=AMOUNT_MAX) }
            }
            95..99 => Action::Balances { bank },
            _ => Action::Statement { bank },
        }
    }

    /// A part of a pause, so that callers do not call in step.
    pub(crate) fn part(&mut self) -> f64 {
        self.rng.random_range(0.5..1.5)
    }

    /// Remembers what was told.
    pub(crate) fn see(&mut self, action: &Action, answer: &Answer) {
        match (action, answer) {
            (Action::Swap { register, expected, value }, Answer::Value(found)) => {
                self.seen.insert(*register, if found == expected { *value } else { *found });
            }
            (Action::Read { register }, Answer::Value(value)) | (Action::Write { register, value }, _) => {
                self.seen.insert(*register, *value);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_actions_and_callers_differ() {
        let actions = |seed, caller| {
            let mut choice = Choice::new(seed, caller, Objects::default());
            (1..200).map(|op| choice.next(op)).collect::<Vec<_>>()
        };
        assert_eq!(actions(7, 1), actions(7, 1));
        assert_ne!(actions(7, 1), actions(7, 2));
        assert_ne!(actions(7, 1), actions(8, 1));
    }

    #[test]
    fn every_object_is_called_and_every_value_is_new() {
        let objects = Objects::default();
        let mut choice = Choice::new(1, 0, objects.clone());
        let (mut called, mut values) = (BTreeSet::new(), BTreeSet::new());
        for op in 1..5_000 {
            let action = choice.next(op);
            called.insert(action.object());
            if let Action::Write { value, .. } | Action::Swap { value, .. } = action {
                assert!(values.insert(value));
            }
        }
        assert_eq!(called, objects.all().into_iter().collect());
    }

    #[test]
    fn a_swap_expects_what_was_seen_last() {
        let mut choice = Choice::new(1, 0, Objects { registers: 1, ..Objects::default() });
        choice.see(&Action::Write { register: 0, value: 5 }, &Answer::Done);
        choice.see(&Action::Swap { register: 0, expected: 5, value: 6 }, &Answer::Value(5));
        let swap = (10..).map(|op| choice.next(op)).find(|action| matches!(action, Action::Swap { .. }));
        assert!(matches!(swap, Some(Action::Swap { expected: 6, .. })), "{swap:?}");
    }
}
