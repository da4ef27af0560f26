//! Dynamic state held against a model: whatever turns do, however they end, and whatever fails or is killed between.

use std::collections::BTreeMap;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use proptest::prelude::*;

use super::drawer::{Drawer, DrawerRef, End, Op, Seen};

#[derive(Debug, Clone)]
enum Step {
    Turn(Vec<Op>, End),
    /// A shared turn, which brings everything into memory.
    Look,
    /// The next commit fails, whenever there is one.
    Fault,
    Restart,
    Kill,
}

/// What is in an actor.
#[derive(Debug, Clone, PartialEq)]
struct Contents {
    names: BTreeMap<String, i64>,
    field: i64,
}

struct Model {
    stored: Contents,
    /// True if the next commit fails.
    is_faulty: bool,
}

impl Model {
    /// Commits, if there is anything to commit. False if that fails.
    fn commit(&mut self, contents: &Contents) -> bool {
        if self.stored == *contents {
            return true;
        }
        if std::mem::take(&mut self.is_faulty) {
            return false;
        }
        self.stored = contents.clone();
        true
    }

    /// What the turn answers; `None` if it fails.
    fn turn(&mut self, ops: &[Op], end: End) -> Option<Vec<Seen>> {
        let mut now = self.stored.clone();
        let seen = ops.iter().map(|op| self.act(&mut now, op)).collect();
        (matches!(end, End::Succeed) && self.commit(&now)).then_some(seen)
    }

    fn act(&mut self, now: &mut Contents, op: &Op) -> Seen {
        let Contents { names, field } = now;
        match op {
            Op::Get(name) => names.get(name).map_or(Seen::NotFound, |value| Seen::Value(Some(*value))),
            Op::TryGet(name) => Seen::Value(names.get(name).copied()),
            Op::Contains(name) => Seen::Flag(names.contains_key(name)),
            Op::Names => Seen::Names(names.keys().cloned().collect()),
            Op::Set(name, value) => {
                names.insert(name.clone(), *value);
                Seen::Done
            }
            Op::Add(name, _) if names.contains_key(name) => Seen::Conflict,
            Op::Add(name, value) => {
                names.insert(name.clone(), *value);
                Seen::Done
            }
            Op::TryAdd(name, _) if names.contains_key(name) => Seen::Flag(false),
            Op::TryAdd(name, value) => Seen::Flag(names.insert(name.clone(), *value).is_none()),
            Op::GetOrAdd(name, value) => Seen::Value(Some(*names.entry(name.clone()).or_insert(*value))),
            Op::AddOrUpdate(name, value) => {
                let place = names.entry(name.clone()).or_insert(*value);
                *place = (*place).max(*value);
                Seen::Value(Some(*place))
            }
            Op::Remove(name) => names.remove(name).map_or(Seen::NotFound, |_| Seen::Done),
            Op::TryRemove(name) => Seen::Flag(names.remove(name).is_some()),
            Op::ClearCache => {
                names.clone_from(&self.stored.names);
                Seen::Done
            }
            Op::Save => {
                // The field is out of its reach.
                let reached = Contents { names: names.clone(), field: self.stored.field };
                if self.commit(&reached) {
                    return Seen::Done;
                }
                names.clone_from(&self.stored.names);
                Seen::SaveFailed
            }
            Op::SaveAll => {
                if self.commit(now) {
                    return Seen::Done;
                }
                *now = self.stored.clone();
                Seen::SaveFailed
            }
            Op::ReadField => Seen::Value(Some(*field)),
            Op::Field(value) => {
                *field = *value;
                Seen::Done
            }
            Op::GetText(_) | Op::SetText(..) => unreachable!("values of the model are numbers"),
        }
    }
}

fn op() -> impl Strategy<Value = Op> {
    // Few of each, so that they meet.
    let name = || prop::sample::select(vec!["a", "b", "c", "field"]).prop_map(str::to_owned);
    let named = || (name(), 0..4_i64);
    prop_oneof![
        name().prop_map(Op::Get),
        name().prop_map(Op::TryGet),
        name().prop_map(Op::Contains),
        Just(Op::Names),
        named().prop_map(|(name, value)| Op::Set(name, value)),
        named().prop_map(|(name, value)| Op::Add(name, value)),
        named().prop_map(|(name, value)| Op::TryAdd(name, value)),
        named().prop_map(|(name, value)| Op::GetOrAdd(name, value)),
        named().prop_map(|(name, value)| Op::AddOrUpdate(name, value)),
        name().prop_map(Op::Remove),
        name().prop_map(Op::TryRemove),
        Just(Op::ClearCache),
        Just(Op::Save),
        Just(Op::SaveAll),
        Just(Op::ReadField),
        (1..4_i64).prop_map(Op::Field),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![6 => Just(End::Succeed), 2 => Just(End::Fail), 1 => Just(End::Panic)];
    prop_oneof![
        10 => (prop::collection::vec(op(), 0..8), end).prop_map(|(ops, end)| Step::Turn(ops, end)),
        2 => Just(Step::Look),
        3 => Just(Step::Fault),
        1 => Just(Step::Restart),
        1 => Just(Step::Kill),
    ]
}

async fn check(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut node = TestNode::start(|node| node.actor::<Drawer>()).await.unwrap();
    let mut drawer: DrawerRef = node.actor("a").unwrap();
    // That the actor is known is a change too, and is not in the model.
    drawer.run(vec![Op::Field(1)], End::Succeed).await.unwrap();
    let stored = Contents { names: BTreeMap::new(), field: 1 };
    let mut model = Model { stored, is_faulty: false };
    for step in steps.into_iter().chain([Step::Look, Step::Kill, Step::Look]) {
        match step {
            Step::Turn(ops, end) => {
                let expected = model.turn(&ops, end);
                prop_assert_eq!(drawer.run(ops, end).await.ok(), expected);
            }
            Step::Look => {
                let Contents { names, field } = model.stored.clone();
                prop_assert_eq!(drawer.look().await.unwrap(), (names, field));
            }
            Step::Fault => {
                model.is_faulty = true;
                node.fail_next_commit();
            }
            Step::Restart => node.restart().await.unwrap(),
            Step::Kill => node.kill().await.unwrap(),
        }
        drawer = node.actor("a").unwrap();
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn dynamic_state_is_what_the_model_says(steps in prop::collection::vec(step(), 1..16)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(steps))?;
    }
}
