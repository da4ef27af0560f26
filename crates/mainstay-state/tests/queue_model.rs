//! Random transactions on queues, several at a time, held against a model that is a list.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::VecDeque;
use std::sync::Arc;

use mainstay_core::time::Duration;
use mainstay_core::{ErrorKind, Level, Result};
use mainstay_state::{ConcurrentQueue, Queue, StateManager, Transaction};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use support::TestNode;

/// How many transactions are under way at most.
const SLOTS: usize = 3;
const CAPACITY: u64 = 4;

#[derive(Debug, Clone, Copy)]
enum Step {
    Enqueue,
    Dequeue,
    Peek,
    Count,
    List,
    Clear,
    Commit,
    Abort,
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        6 => Just(Step::Enqueue),
        6 => Just(Step::Dequeue),
        2 => Just(Step::Peek),
        2 => Just(Step::Count),
        1 => Just(Step::List),
        1 => Just(Step::Clear),
        4 => Just(Step::Commit),
        2 => Just(Step::Abort),
    ];
    prop::collection::vec((0..SLOTS, step), 1..60)
}

/// A transaction under way and what it should have done.
struct Open {
    tx: Transaction,
    cleared: bool,
    /// Of the committed items.
    taken: Vec<u64>,
    own: VecDeque<u64>,
    /// What was committed when it first counted.
    snapshot: Option<Vec<u64>>,
    /// Whether it has used the queue at all.
    used: bool,
}

impl Open {
    fn new(state: &StateManager) -> Self {
        let (tx, own) = (state.begin(), VecDeque::new());
        Self { tx, cleared: false, taken: Vec::new(), own, snapshot: None, used: false }
    }

    /// What this transaction should see in its snapshot.
    fn seen(&mut self, committed: &[u64]) -> Vec<u64> {
        let snapshot = self.snapshot.get_or_insert_with(|| committed.to_vec());
        let kept = snapshot.iter().filter(|item| !self.cleared && !self.taken.contains(item));
        kept.chain(&self.own).copied().collect()
    }

    fn growth(&self) -> u64 {
        let room = if self.cleared { 0 } else { self.taken.len() as u64 };
        (self.own.len() as u64).saturating_sub(room)
    }
}

#[derive(Default)]
struct Model {
    committed: Vec<u64>,
    open: [Option<Open>; SLOTS],
    next: u64,
}

impl Model {
    fn others(&self, slot: usize) -> impl Iterator<Item = &Open> {
        self.open.iter().enumerate().filter(move |(other, _)| *other != slot).filter_map(|(_, open)| open.as_ref())
    }

    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The first committed item that a transaction can have.
    fn first(&self, slot: usize) -> Option<u64> {
        let open = self.open[slot].as_ref().unwrap();
        if open.cleared {
            return None;
        }
        let is_taken = |item: &u64| self.open.iter().flatten().any(|open| open.taken.contains(item));
        self.committed.iter().copied().find(|item| !is_taken(item))
    }

    async fn end(&mut self, slot: usize, commits: bool) {
        let open = self.open[slot].take().unwrap();
        if !commits {
            return open.tx.abort();
        }
        open.tx.commit().await.unwrap();
        self.committed.retain(|item| !open.cleared && !open.taken.contains(item));
        self.committed.extend(open.own);
    }
}

fn value(item: Result<Option<Arc<u64>>>) -> Result<Option<u64>> {
    item.map(|item| item.as_deref().copied())
}

/// Checks an outcome; `None` if it would have had to wait.
fn unless_waiting<T>(outcome: Result<T>) -> std::result::Result<Option<T>, TestCaseError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::Timeout => Ok(None),
        Err(error) => Err(TestCaseError::fail(error.to_string())),
    }
}

async fn strict(
    state: &StateManager,
    queue: &Queue<u64>,
    steps: &[(usize, Step)],
) -> std::result::Result<(), TestCaseError> {
    let mut model = Model::default();
    for &(slot, step) in steps {
        let item = model.next();
        model.open[slot].get_or_insert_with(|| Open::new(state)).used = true;
        let (first, committed) = (model.first(slot), model.committed.clone());
        let dequeued_elsewhere = model.others(slot).any(|open| !open.taken.is_empty());
        let enqueued_elsewhere = model.others(slot).any(|open| !open.own.is_empty());
        let used_elsewhere = model.others(slot).any(|open| open.used);
        let open = model.open[slot].as_mut().unwrap();
        let tx = open.tx.within(Duration::ZERO);
        match step {
            Step::Enqueue => match unless_waiting(queue.enqueue(tx, item).await)? {
                Some(()) => open.own.push_back(item),
                None => prop_assert!(used_elsewhere),
            },
            Step::Dequeue | Step::Peek => {
                let outcome = match step {
                    Step::Peek => queue.peek(tx).await,
                    _ => queue.try_dequeue(tx).await,
                };
                let Some(found) = unless_waiting(value(outcome))? else {
                    prop_assert!(used_elsewhere);
                    continue;
                };
                prop_assert!(!dequeued_elsewhere, "nobody overtakes who has the head");
                if first.is_none() {
                    prop_assert!(!enqueued_elsewhere, "nobody takes its own while others may come before");
                }
                prop_assert_eq!(found, first.or(open.own.front().copied()));
                if matches!(step, Step::Dequeue) {
                    match first {
                        Some(first) => open.taken.push(first),
                        None => drop(open.own.pop_front()),
                    }
                }
            }
            Step::Count => {
                let Some(found) = unless_waiting(queue.len(tx).await)? else { continue };
                prop_assert_eq!(found, open.seen(&committed).len() as u64);
            }
            Step::List => {
                let Some(items) = unless_waiting(queue.entries(tx).await)? else { continue };
                let items: Vec<Arc<u64>> = items.collect().await.unwrap();
                let mut expected = open.seen(&committed);
                prop_assert_eq!(items.iter().map(|item| **item).collect::<Vec<_>>(), expected.clone());
                let items: Vec<Arc<u64>> = queue.entries_reversed(&mut open.tx).await.unwrap().collect().await.unwrap();
                expected.reverse();
                prop_assert_eq!(items.iter().map(|item| **item).collect::<Vec<_>>(), expected);
            }
            Step::Clear => match unless_waiting(queue.clear(tx).await)? {
                Some(()) => {
                    open.cleared = true;
                    open.own.clear();
                }
                None => prop_assert!(used_elsewhere),
            },
            Step::Commit => model.end(slot, true).await,
            Step::Abort => model.end(slot, false).await,
        }
    }
    for slot in 0..SLOTS {
        if model.open[slot].is_some() {
            model.end(slot, slot == 0).await;
        }
    }
    let mut tx = state.begin();
    let mut left = Vec::new();
    while let Some(item) = queue.try_dequeue(&mut tx).await.unwrap() {
        left.push(*item);
    }
    tx.commit().await.unwrap();
    prop_assert_eq!(left, model.committed);
    prop_assert_eq!(queue.len(&mut state.begin()).await.unwrap(), 0);
    Ok(())
}

async fn concurrent(
    state: &StateManager,
    queue: &ConcurrentQueue<u64>,
    steps: &[(usize, Step)],
) -> std::result::Result<(), TestCaseError> {
    let mut model = Model::default();
    for &(slot, step) in steps {
        let item = model.next();
        model.open[slot].get_or_insert_with(|| Open::new(state));
        let (first, committed) = (model.first(slot), model.committed.clone());
        let filled = committed.len() as u64 + model.open.iter().flatten().map(Open::growth).sum::<u64>();
        let used_elsewhere = model.others(slot).any(|open| open.used);
        let cleared_elsewhere = model.others(slot).any(|open| open.cleared);
        let open = model.open[slot].as_mut().unwrap();
        let replaces = open.own.len() < open.taken.len();
        let has_room = open.growth() < CAPACITY && (replaces || open.cleared || filled < CAPACITY);
        let tx = open.tx.within(Duration::ZERO);
        match step {
            Step::Enqueue => {
                let outcome = queue.enqueue(tx, item).await;
                if cleared_elsewhere {
                    prop_assert!(outcome.is_err());
                } else if has_room {
                    outcome.unwrap();
                    open.own.push_back(item);
                    open.used = true;
                } else {
                    let alone = open.growth() >= CAPACITY;
                    let refused = if alone { ErrorKind::TooLarge } else { ErrorKind::Overloaded };
                    prop_assert_eq!(outcome.unwrap_err().kind(), refused);
                }
            }
            // Both ways to dequeue, in turn.
            Step::Dequeue | Step::Peek => {
                let outcome = match step {
                    Step::Peek => queue.try_dequeue(tx).await,
                    _ => queue.dequeue(tx).await.map(Some),
                };
                let expected = first.or(open.own.front().copied());
                let found = unless_waiting(value(outcome))?;
                if cleared_elsewhere {
                    // It waits for the other one, unless it only needs its own.
                    prop_assert!(found.is_none() || first.is_none());
                    if found.is_none() {
                        continue;
                    }
                }
                // Who has waited for nothing holds nothing.
                open.used |= found.is_some();
                prop_assert_eq!(found.flatten(), expected);
                match first {
                    Some(first) => open.taken.push(first),
                    None => drop(open.own.pop_front()),
                }
            }
            Step::Count | Step::List => {
                let Some(found) = unless_waiting(queue.len(tx).await)? else {
                    prop_assert!(cleared_elsewhere);
                    continue;
                };
                open.used = true;
                prop_assert_eq!(found, open.seen(&committed).len() as u64);
            }
            Step::Clear => match unless_waiting(queue.clear(tx).await)? {
                Some(()) => {
                    prop_assert!(!used_elsewhere);
                    open.cleared = true;
                    open.used = true;
                    open.own.clear();
                }
                None => prop_assert!(used_elsewhere),
            },
            Step::Commit => model.end(slot, true).await,
            Step::Abort => model.end(slot, false).await,
        }
        prop_assert!(model.committed.len() as u64 <= CAPACITY);
    }
    for slot in 0..SLOTS {
        if model.open[slot].is_some() {
            model.end(slot, slot == 0).await;
        }
    }
    let mut tx = state.begin();
    let mut left = Vec::new();
    while let Some(item) = queue.try_dequeue(&mut tx).await.unwrap() {
        left.push(*item);
    }
    tx.commit().await.unwrap();
    prop_assert_eq!(left, model.committed);
    prop_assert_eq!(queue.len(&mut state.begin()).await.unwrap(), 0);
    Ok(())
}

/// Runs random steps on one of the queues, each time with a new one.
fn run(
    cases: u32,
    level: Level,
    check: impl Fn(&tokio::runtime::Runtime, &StateManager, u32, &[(usize, Step)]) -> Checked,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = runtime.block_on(TestNode::start());
    let state = runtime.block_on(node.state(level));
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let number = std::cell::Cell::new(0);
    let outcome = runner.run(&steps(), |steps| {
        number.set(number.get() + 1);
        check(&runtime, &state, number.get(), &steps)
    });
    drop(state);
    runtime.block_on(node.replicas.stop());
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

type Checked = std::result::Result<(), TestCaseError>;

#[test]
fn a_queue_does_what_a_list_does() {
    for (cases, level) in [(400, Level::None), (30, Level::Volatile)] {
        run(cases, level, |runtime, state, number, steps| {
            runtime.block_on(async {
                let queue = state.collection(&format!("queue {number}")).await.unwrap();
                strict(state, &queue, steps).await
            })
        });
    }
}

#[test]
fn a_concurrent_queue_does_what_a_list_does() {
    for (cases, level) in [(400, Level::None), (30, Level::Volatile)] {
        run(cases, level, |runtime, state, number, steps| {
            runtime.block_on(async {
                let queue: ConcurrentQueue<u64> = state.collection(&format!("queue {number}")).await.unwrap();
                concurrent(state, &queue.with_capacity(CAPACITY), steps).await
            })
        });
    }
}
