//! Random turns of several actors, with commits in flight, held against a model that is a map.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use mainstay_core::time::{Duration, WallTime};
use mainstay_core::{ActorId, Level, Result, SequenceNumber};
use mainstay_replica::SimDisk;
use mainstay_state::actor::{ActorStore, ActorWrites, Answer, Reminder, Schedule};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use support::{TestNode, stored_keys};
use tokio::runtime::Runtime;

const ACTORS: usize = 3;
const NAMES: [&str; 3] = ["", "a", "a name that is longer than those that fit in place"];
const TIMES: u64 = 6;

#[derive(Debug, Clone, Copy)]
enum Change {
    Known,
    Delete,
    State(usize, Option<u8>),
    Reminder(usize, Option<u64>),
    Answer(usize, Option<u64>),
}

#[derive(Debug, Clone)]
enum Step {
    /// A turn that makes some changes; they wait for the commit in flight, if there is one.
    Turn(usize, Vec<Change>),
    /// What waits goes on its way, unless something of the actor is on its way.
    Start(usize),
    /// What is on its way arrives.
    Finish(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (name, time) = (|| 0..NAMES.len(), || prop::option::weighted(0.7, 0..TIMES));
    let change = prop_oneof![
        2 => Just(Change::Known),
        1 => Just(Change::Delete),
        4 => (name(), any::<Option<u8>>()).prop_map(|(name, value)| Change::State(name, value)),
        8 => (name(), time()).prop_map(|(name, due)| Change::Reminder(name, due)),
        4 => (name(), time()).prop_map(|(name, expires)| Change::Answer(name, expires)),
    ];
    let step = prop_oneof![
        4 => (0..ACTORS, prop::collection::vec(change, 0..5)).prop_map(|(actor, turn)| Step::Turn(actor, turn)),
        3 => (0..ACTORS).prop_map(Step::Start),
        3 => (0..ACTORS).prop_map(Step::Finish),
    ];
    prop::collection::vec(step, 1..50)
}

fn id(actor: usize) -> ActorId {
    [ActorId::from(-1), ActorId::from("a"), ActorId::from("a\0")][actor].clone()
}

fn reminder(name: &str, due: u64) -> Reminder {
    let schedule = Schedule::Every(Duration::from_secs(1));
    Reminder::new(name, Bytes::from_static(b"payload"), schedule, WallTime::from_millis(due)).unwrap()
}

fn answer(expires: u64) -> Answer {
    Answer {
        interface: None,
        method: "m".into(),
        arguments: None,
        reply: Bytes::from_static(b"reply"),
        expires: WallTime::from_millis(expires),
    }
}

/// What an actor has.
#[derive(Debug, Clone, Default, PartialEq)]
struct Contents {
    known: bool,
    states: BTreeMap<&'static str, u8>,
    reminders: BTreeMap<&'static str, u64>,
    answers: BTreeMap<&'static str, u64>,
}

fn set<V>(map: &mut BTreeMap<&'static str, V>, name: usize, value: Option<V>) {
    match value {
        Some(value) => _ = map.insert(NAMES[name], value),
        None => _ = map.remove(NAMES[name]),
    }
}

impl Contents {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Known => self.known = true,
            Change::Delete => *self = Self::default(),
            Change::State(name, value) => set(&mut self.states, name, value),
            Change::Reminder(name, due) => set(&mut self.reminders, name, due),
            Change::Answer(name, expires) => set(&mut self.answers, name, expires),
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn apply(writes: &mut ActorWrites, change: Change) {
    match change {
        Change::Known => writes.mark_known(),
        Change::Delete => writes.delete_actor(),
        Change::State(name, Some(value)) => writes.put_state(NAMES[name], vec![value].into()).unwrap(),
        Change::State(name, None) => writes.remove_state(NAMES[name]),
        Change::Reminder(name, Some(due)) => writes.put_reminder(reminder(NAMES[name], due)).unwrap(),
        Change::Reminder(name, None) => writes.remove_reminder(NAMES[name]),
        Change::Answer(name, Some(expires)) => writes.put_answer(NAMES[name], answer(expires)).unwrap(),
        Change::Answer(name, None) => writes.remove_answer(NAMES[name]),
    }
}

type Flight = Pin<Box<dyn Future<Output = Result<SequenceNumber>>>>;

/// An actor as its runtime has it.
struct Actor {
    id: ActorId,
    /// What is committed, what will be when the commit in flight has arrived, and what its turns have made of it.
    committed: Contents,
    in_flight: Contents,
    seen: Contents,
    waiting: ActorWrites,
    flight: Option<(Arc<ActorWrites>, Flight)>,
}

impl Actor {
    fn new(actor: usize) -> Self {
        let contents = Contents::default;
        let (committed, in_flight, seen) = (contents(), contents(), contents());
        Self { id: id(actor), committed, in_flight, seen, waiting: ActorWrites::new(id(actor)), flight: None }
    }

    fn turn(&mut self, changes: &[Change]) {
        let mut turn = ActorWrites::new(self.id.clone());
        for change in changes {
            apply(&mut turn, *change);
            self.seen.apply(*change);
        }
        self.waiting.merge(turn).unwrap();
    }

    fn start(&mut self, store: &ActorStore) {
        if self.flight.is_some() {
            return;
        }
        let writes = Arc::new(std::mem::replace(&mut self.waiting, ActorWrites::new(self.id.clone())));
        self.in_flight = self.seen.clone();
        let (store, going) = (store.clone(), writes.clone());
        let mut flight: Flight = Box::pin(async move { store.commit(&going).await });
        match (&mut flight).now_or_never() {
            Some(outcome) => {
                outcome.unwrap();
                self.committed = self.in_flight.clone();
            }
            None => self.flight = Some((writes, flight)),
        }
    }

    async fn finish(&mut self) {
        if let Some((_, flight)) = self.flight.take() {
            flight.await.unwrap();
            self.committed = self.in_flight.clone();
        }
    }

    /// What is seen through what waits, what is on its way, and the store.
    fn check_seen(&self, store: &ActorStore) -> Result<(), TestCaseError> {
        let layers = || std::iter::once(&self.waiting).chain(self.flight.as_ref().map(|(writes, _)| &**writes));
        let known = layers().find_map(ActorWrites::is_known);
        prop_assert_eq!(known.unwrap_or_else(|| store.is_known(&self.id).unwrap()), self.seen.known);
        for name in NAMES {
            let state = layers().find_map(|writes| writes.state(name)).map(|value| value.cloned());
            let state = state.unwrap_or_else(|| store.state(&self.id, name).unwrap());
            prop_assert_eq!(state.map(|value| value[0]), self.seen.states.get(name).copied());
            let due = layers().find_map(|writes| writes.reminder(name)).map(|found| found.cloned());
            let due = due.unwrap_or_else(|| store.reminder(&self.id, name).unwrap());
            prop_assert_eq!(due, self.seen.reminders.get(name).map(|due| reminder(name, *due)));
            let expires = layers().find_map(|writes| writes.answer(name)).map(|found| found.cloned());
            let expires = expires.unwrap_or_else(|| store.answer(&self.id, name).unwrap());
            prop_assert_eq!(expires, self.seen.answers.get(name).map(|expires| answer(*expires)));
        }
        Ok(())
    }
}

type Model = BTreeMap<ActorId, Contents>;

/// Everything that the store tells, and that it has nothing besides.
fn check_store(store: &ActorStore, model: &Model) -> Result<(), TestCaseError> {
    let mut entries = 1;
    let (mut due, mut expires, mut all_reminders) = (Vec::new(), Vec::new(), Vec::new());
    for (id, contents) in model {
        entries += usize::from(contents.known) + contents.states.len();
        entries += 2 * (contents.reminders.len() + contents.answers.len());
        due.extend(contents.reminders.iter().map(|(name, due)| (*due, id.clone(), (*name).to_owned())));
        expires.extend(contents.answers.iter().map(|(name, at)| (*at, id.clone(), (*name).to_owned())));
        prop_assert_eq!(store.is_known(id).unwrap(), contents.known);
        prop_assert_eq!(store.state_names(id).unwrap(), contents.states.keys().copied().collect::<Vec<_>>());
        let reminders: Vec<Reminder> = contents.reminders.iter().map(|(name, due)| reminder(name, *due)).collect();
        prop_assert_eq!(&store.reminders(id).unwrap(), &reminders);
        all_reminders.extend(reminders.into_iter().map(|reminder| (id.clone(), reminder)));
        for name in NAMES {
            let state = store.state(id, name).unwrap().map(|value| value[0]);
            prop_assert_eq!(state, contents.states.get(name).copied());
            prop_assert_eq!(
                store.answer(id, name).unwrap(),
                contents.answers.get(name).map(|expires| answer(*expires))
            );
        }
    }
    // In the order of time, then of ids and names, which is that of the model's maps.
    due.sort();
    expires.sort();
    let known: Vec<ActorId> = model.iter().filter(|(_, actor)| actor.known).map(|(id, _)| id.clone()).collect();
    prop_assert_eq!(store.actors(None, 99).unwrap(), known);
    prop_assert_eq!(store.all_reminders(None, 99).unwrap(), all_reminders);
    prop_assert_eq!(store.next_due().unwrap(), due.first().map(|(due, ..)| WallTime::from_millis(*due)));
    prop_assert_eq!(store.next_expiry().unwrap(), expires.first().map(|(at, ..)| WallTime::from_millis(*at)));
    let mut paged: Vec<(WallTime, ActorId, String)> = Vec::new();
    loop {
        let after = paged.last().map(|(at, id, key)| (*at, id, &**key));
        let page = store.expired_answers_after(WallTime::MAX, after, 2).unwrap();
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    let paged: Vec<_> = paged.into_iter().map(|(at, id, key)| (at.as_millis(), id, key)).collect();
    prop_assert_eq!(&paged, &expires);
    for until in 0..TIMES {
        let found = store.due(WallTime::from_millis(until), 99).unwrap();
        let found: Vec<_> = found.into_iter().map(|(id, found)| (found.due.as_millis(), id, found.name)).collect();
        prop_assert_eq!(found, due.iter().filter(|(due, ..)| *due <= until).cloned().collect::<Vec<_>>());
        let expected: Vec<_> = expires.iter().filter(|(at, ..)| *at <= until).cloned().collect();
        let expected: Vec<_> = expected.into_iter().map(|(_, id, key)| (id, key)).collect();
        prop_assert_eq!(store.expired_answers(WallTime::from_millis(until), 99).unwrap(), expected);
    }
    prop_assert_eq!(stored_keys(store.partition()).len(), entries, "places without an entry, or entries without");
    Ok(())
}

async fn run(store: &ActorStore, steps: &[Step]) -> Result<Model, TestCaseError> {
    let mut actors: Vec<Actor> = (0..ACTORS).map(Actor::new).collect();
    for step in steps {
        match step {
            Step::Turn(actor, changes) => actors[*actor].turn(changes),
            Step::Start(actor) => actors[*actor].start(store),
            Step::Finish(actor) => actors[*actor].finish().await,
        }
        for actor in &actors {
            actor.check_seen(store)?;
        }
        // What is on its way may have arrived and not been heard of.
        if actors.iter().all(|actor| actor.flight.is_none()) {
            let model = actors.iter().map(|actor| (actor.id.clone(), actor.committed.clone())).collect();
            check_store(store, &model)?;
        }
    }
    for actor in &mut actors {
        actor.finish().await;
    }
    let model: Model = actors.into_iter().map(|actor| (actor.id, actor.committed)).collect();
    check_store(store, &model)?;
    Ok(model)
}

/// Runs cases on one node, each in a partition of its own.
fn run_cases(cases: u32, level: Level, runtime: &Runtime, node: &TestNode) -> Vec<Model> {
    let models = std::cell::RefCell::new(Vec::new());
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let number = std::cell::Cell::new(0);
    let outcome = runner.run(&steps(), |steps| {
        let partition = number.replace(number.get() + 1);
        let model = runtime.block_on(async {
            let store = ActorStore::open(node.partition(level, partition).await).await.unwrap();
            run(&store, &steps).await
        })?;
        models.borrow_mut().push(model);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    models.into_inner()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn actors_are_stored_as_in_a_map_on_level_none() {
    let runtime = runtime();
    let node = runtime.block_on(TestNode::start_small());
    run_cases(200, Level::None, &runtime, &node);
    runtime.block_on(node.replicas.stop());
}

#[test]
fn actors_are_stored_as_in_a_map_and_are_there_after_a_crash() {
    let runtime = runtime();
    let disk = Arc::new(SimDisk::new(1));
    let node = runtime.block_on(TestNode::open_small(disk.clone()));
    let models = run_cases(40, Level::Persisted, &runtime, &node);
    assert!(models.iter().filter(|model| model.values().any(|actor| !actor.is_empty())).count() > 10);
    runtime.block_on(async {
        node.replicas.stop().await;
        drop(node);
        disk.crash();
        let node = TestNode::open_small(disk).await;
        for (number, model) in models.iter().enumerate() {
            let store = ActorStore::open(node.partition(Level::Persisted, number as u64).await).await.unwrap();
            check_store(&store, model).unwrap();
        }
        node.replicas.stop().await;
    });
}
