//! Random schedules of many transactions, against the model: futures are polled late, again, or dropped at any moment.

use std::sync::Arc;
use std::task::Poll;

use mainstay_core::ErrorKind;
use proptest::prelude::*;

use super::driver::{Actor, LONG, table};
use super::model::{Model, Outcome};
use crate::lock::LockMode::{self, Exclusive, Shared, Update};
use crate::lock::LockTable;

#[derive(Debug, Clone, Copy)]
enum Step {
    Acquire {
        who: usize,
        key: usize,
        mode: LockMode,
    },
    /// Makes a future and drops it before it was polled.
    Idle {
        who: usize,
        key: usize,
    },
    Try {
        who: usize,
        key: usize,
        mode: LockMode,
    },
    /// Keeps others from sharing a collection without a lock of the table, for nothing.
    Bar {
        who: usize,
    },
    Poll {
        who: usize,
    },
    Cancel {
        who: usize,
    },
    Release {
        who: usize,
    },
}

fn steps(transactions: usize, keys: usize) -> impl Strategy<Value = Vec<Step>> {
    let mode = || prop_oneof![Just(Shared), Just(Update), Just(Exclusive)];
    let who = || 0..transactions;
    let step = prop_oneof![
        10 => (who(), 0..keys, mode()).prop_map(|(who, key, mode)| Step::Acquire { who, key, mode }),
        1 => (who(), 0..keys).prop_map(|(who, key)| Step::Idle { who, key }),
        2 => (who(), 0..keys, mode()).prop_map(|(who, key, mode)| Step::Try { who, key, mode }),
        1 => who().prop_map(|who| Step::Bar { who }),
        6 => who().prop_map(|who| Step::Poll { who }),
        2 => who().prop_map(|who| Step::Cancel { who }),
        2 => who().prop_map(|who| Step::Release { who }),
    ];
    prop::collection::vec(step, 1..150)
}

/// The real thing and the model, side by side.
struct Pair {
    table: Arc<LockTable>,
    actors: Vec<Actor>,
    /// What each waits for: the key, and the mode in which it held it before.
    wishes: Vec<Option<(usize, Option<LockMode>)>>,
    model: Model,
    keys: usize,
    /// How many of the keys, from the first on, are collections, which are shared and barred.
    collections: usize,
}

const COLLECTIONS: [&str; 2] = ["stock", "orders"];

impl Pair {
    fn new(transactions: usize, keys: usize, collections: usize) -> Self {
        let table = table();
        Self {
            actors: (0..transactions).map(|who| Actor::new(&table, who as u64)).collect(),
            wishes: vec![None; transactions],
            model: Model::new(keys),
            table,
            keys,
            collections,
        }
    }

    fn name(&self, key: usize) -> String {
        if key < self.collections { COLLECTIONS[key].to_owned() } else { format!("key {key}") }
    }

    /// What comes before a collection is acquired; true if it is shared by that.
    fn shares_or_bars(&self, who: usize, key: usize, mode: LockMode) -> bool {
        if key >= self.collections {
            return false;
        }
        if mode != Shared {
            self.actors[who].bars();
            return false;
        }
        self.actors[who].try_share(&self.name(key))
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Acquire { who, key, mode } if self.wishes[who].is_none() => {
                let former = self.model.held(who, key);
                let expected = self.model.acquire(who, key, mode);
                let name = self.name(key);
                let outcome = match self.shares_or_bars(who, key, mode) {
                    true => Poll::Ready(Ok(())),
                    false => self.actors[who].acquire(&name, mode),
                };
                let outcome = match outcome {
                    Poll::Ready(Ok(())) => Outcome::Granted,
                    Poll::Ready(Err(error)) => {
                        assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
                        Outcome::Deadlock
                    }
                    Poll::Pending => {
                        self.wishes[who] = Some((key, former));
                        Outcome::Waits
                    }
                };
                assert_eq!(outcome, expected);
            }
            Step::Idle { who, key } if self.wishes[who].is_none() => {
                let name = self.name(key);
                self.actors[who].start(&name, Exclusive, LONG);
                self.actors[who].cancel();
            }
            Step::Try { who, key, mode } if self.wishes[who].is_none() => {
                let expected = self.model.acquire(who, key, mode);
                if expected == Outcome::Waits {
                    self.model.cancel(who);
                }
                let granted =
                    self.shares_or_bars(who, key, mode) || self.actors[who].try_acquire(&self.name(key), mode);
                assert_eq!(granted, expected == Outcome::Granted);
            }
            Step::Bar { who } if self.wishes[who].is_none() => self.actors[who].bars(),
            Step::Poll { who } if self.wishes[who].is_some() => {
                let poll = self.actors[who].poll();
                assert_eq!(poll.is_pending(), self.model.is_waiting(who));
                if let Poll::Ready(result) = poll {
                    result.expect("granted");
                    self.wishes[who] = None;
                }
            }
            Step::Cancel { who } => self.cancel(who),
            Step::Release { who } => {
                self.cancel(who);
                self.model.release(who);
                self.actors[who].release();
            }
            _ => {}
        }
        self.compare();
    }

    fn cancel(&mut self, who: usize) {
        if let Some((key, former)) = self.wishes[who].take() {
            if self.model.is_waiting(who) {
                self.model.cancel(who);
            } else {
                self.model.fall_back(who, key, former);
            }
            self.actors[who].cancel();
        }
    }

    fn compare(&self) {
        self.model.check(self.actors.len());
        for (who, actor) in self.actors.iter().enumerate() {
            match self.wishes[who] {
                // Whoever was granted something was woken, and nobody else.
                Some(_) => assert_eq!(actor.is_woken(), !self.model.is_waiting(who), "transaction {who}"),
                None => {
                    for key in 0..self.keys {
                        let held = self.model.held(who, key);
                        assert_eq!(actor.holds(&self.name(key)), held, "transaction {who}, key {key}");
                    }
                }
            }
        }
        // A collection that is only listed as shared is not in the table.
        let unseen = self.model.keys_in_use() - self.table.len();
        assert!(unseen <= self.table.listed().min(self.collections), "{unseen} keys are in use and nowhere");
    }

    /// Everyone leaves, the last one first.
    fn end(mut self) {
        while let Some(actor) = self.actors.pop() {
            drop(actor);
        }
        assert_eq!((self.table.len(), self.table.listed()), (0, 0), "something was left behind");
        assert_eq!(self.table.waits().len(), 0, "a record was left behind");
    }
}

fn run(transactions: usize, keys: usize, collections: usize, steps: Vec<Step>) {
    // Those who wait set a timer, which asks for a runtime.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _entered = runtime.enter();
    let mut pair = Pair::new(transactions, keys, collections);
    for step in steps {
        pair.step(step);
    }
    pair.end();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_crowd_at_one_key_does_what_the_model_does(steps in steps(6, 1)) {
        run(6, 1, 0, steps);
    }

    #[test]
    fn transactions_with_a_few_keys_do_what_the_model_does(steps in steps(5, 3)) {
        run(5, 3, 0, steps);
    }

    #[test]
    fn transactions_with_many_keys_do_what_the_model_does(steps in steps(12, 8)) {
        run(12, 8, 0, steps);
    }

    #[test]
    fn a_crowd_that_shares_one_collection_does_what_the_model_does(steps in steps(12, 1)) {
        run(12, 1, 1, steps);
    }

    #[test]
    fn transactions_with_collections_and_keys_do_what_the_model_does(steps in steps(6, 5)) {
        run(6, 5, 2, steps);
    }
}
