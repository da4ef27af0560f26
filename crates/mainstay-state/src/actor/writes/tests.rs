use mainstay_core::time::WallTime;
use proptest::prelude::*;

use super::super::{IDEMPOTENCY_KEY_BYTES_MAX, STATE_NAME_BYTES_MAX, Schedule};
use super::*;

fn writes() -> ActorWrites {
    ActorWrites::new(ActorId::from(7))
}

fn value(value: &'static str) -> Bytes {
    Bytes::from_static(value.as_bytes())
}

fn reminder(name: &str, due: u64) -> Reminder {
    Reminder::new(name, Bytes::new(), Schedule::Once, WallTime::from_millis(due)).unwrap()
}

fn answer(expires: u64) -> Answer {
    let (reply, expires) = (Bytes::new(), WallTime::from_millis(expires));
    Answer { interface: None, method: "m".into(), arguments: None, reply, expires }
}

#[test]
fn a_look_up_tells_unchanged_from_removed() {
    let mut writes = writes();
    assert!(writes.is_empty());
    assert_eq!((writes.state("a"), writes.reminder("a"), writes.answer("a")), (None, None, None));
    assert_eq!((writes.is_known(), writes.is_deleted(), writes.bytes()), (None, false, 0));
    writes.put_state("a", value("1")).unwrap();
    assert!(!writes.is_empty());
    // The kinds are apart.
    assert_eq!((writes.state("a"), writes.reminder("a"), writes.answer("a")), (Some(Some(&value("1"))), None, None));
    writes.put_reminder(reminder("a", 5)).unwrap();
    writes.put_answer("a", answer(6)).unwrap();
    writes.remove_state("a");
    assert_eq!(writes.state("a"), Some(None));
    assert_eq!(writes.reminder("a"), Some(Some(&reminder("a", 5))));
    assert_eq!(writes.answer("a"), Some(Some(&answer(6))));
    writes.remove_reminder("a");
    writes.remove_answer("a");
    assert_eq!((writes.reminder("a"), writes.answer("a")), (Some(None), Some(None)));
    assert_eq!(writes.changed_states().collect::<Vec<_>>(), [("a", None)]);
    assert_eq!(writes.changed_reminders().collect::<Vec<_>>(), [("a", None)]);
    writes.mark_known();
    assert_eq!(writes.is_known(), Some(true));
}

#[test]
fn after_a_delete_all_that_is_not_set_again_is_removed() {
    let mut writes = writes();
    writes.mark_known();
    writes.put_state("a", value("1")).unwrap();
    writes.delete_actor();
    assert!(!writes.is_empty() && writes.is_deleted());
    assert_eq!((writes.state("a"), writes.reminder("b"), writes.answer("c")), (Some(None), Some(None), Some(None)));
    assert_eq!((writes.is_known(), writes.changed_states().count()), (Some(false), 0));
    writes.put_state("b", value("2")).unwrap();
    writes.mark_known();
    assert_eq!((writes.state("a"), writes.state("b")), (Some(None), Some(Some(&value("2")))));
    assert_eq!((writes.is_known(), writes.is_deleted()), (Some(true), true));
}

#[test]
fn what_is_too_large_is_refused_and_changes_nothing() {
    let mut writes = writes();
    let long = |bytes: usize| "x".repeat(bytes + 1);
    let refused = [
        (writes.put_state(&long(STATE_NAME_BYTES_MAX), value("1")), "STATE_NAME_BYTES_MAX"),
        (writes.put_state("big", vec![0; VALUE_BYTES_MAX + 1].into()), "VALUE_BYTES_MAX"),
        (writes.put_answer(&long(IDEMPOTENCY_KEY_BYTES_MAX), answer(1)), "IDEMPOTENCY_KEY_BYTES_MAX"),
        (writes.put_answer("k", Answer { method: long(1024), ..answer(1) }), "ANSWER_METHOD_BYTES_MAX"),
    ];
    for (result, limit) in refused {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.to_string().contains(limit), "{error}");
    }
    let broken = Reminder { schedule: Schedule::Every(std::time::Duration::ZERO), ..reminder("r", 1) };
    assert_eq!(writes.put_reminder(broken).unwrap_err().kind(), ErrorKind::Invalid);
    // What cannot be there is removed already.
    writes.remove_state(&long(STATE_NAME_BYTES_MAX));
    assert!(writes.is_empty());
    writes.put_state("big", vec![0; VALUE_BYTES_MAX].into()).unwrap();
    assert!(writes.bytes() >= VALUE_BYTES_MAX);
    writes.put_state("big", value("1")).unwrap();
    assert!(writes.bytes() < 100, "{}", writes.bytes());
}

#[test]
fn changes_of_another_actor_are_not_added() {
    let mut own = writes();
    own.put_state("a", value("1")).unwrap();
    let mut other = ActorWrites::new(ActorId::from("7"));
    other.delete_actor();
    assert_eq!(own.merge(other).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!((own.state("a"), own.id()), (Some(Some(&value("1"))), &ActorId::from(7)));
}

#[derive(Debug, Clone)]
enum Step {
    Known,
    Delete,
    State(u8, Option<u8>),
    Reminder(u8, Option<u8>),
    Answer(u8, Option<u8>),
}

/// Enough names for both ways to find one.
const NAMES: u8 = 40;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let change = || (0..NAMES, any::<Option<u8>>());
    let step = prop_oneof![
        1 => Just(Step::Known),
        1 => Just(Step::Delete),
        30 => change().prop_map(|(name, value)| Step::State(name, value)),
        20 => change().prop_map(|(name, value)| Step::Reminder(name, value)),
        20 => change().prop_map(|(name, value)| Step::Answer(name, value)),
    ];
    prop::collection::vec(step, 0..120)
}

fn apply(writes: &mut ActorWrites, step: &Step) {
    let name = |name: &u8| format!("n{name}");
    match step {
        Step::Known => writes.mark_known(),
        Step::Delete => writes.delete_actor(),
        Step::State(n, Some(value)) => writes.put_state(&name(n), vec![*value].into()).unwrap(),
        Step::State(n, None) => writes.remove_state(&name(n)),
        Step::Reminder(n, Some(due)) => writes.put_reminder(reminder(&name(n), (*due).into())).unwrap(),
        Step::Reminder(n, None) => writes.remove_reminder(&name(n)),
        Step::Answer(n, Some(expires)) => writes.put_answer(&name(n), answer((*expires).into())).unwrap(),
        Step::Answer(n, None) => writes.remove_answer(&name(n)),
    }
}

/// The last step that says something about an entry.
fn expected<'a>(steps: &'a [Step], says: impl Fn(&'a Step) -> Option<Option<u8>>) -> Option<Option<u8>> {
    steps.iter().rev().find_map(|step| match step {
        Step::Delete => Some(None),
        step => says(step),
    })
}

proptest! {
    #[test]
    fn later_changes_go_over_earlier_ones_merged_or_not(steps in steps(), at in any::<prop::sample::Index>()) {
        let mut whole = writes();
        steps.iter().for_each(|step| apply(&mut whole, step));
        let (early, late) = steps.split_at(at.index(steps.len() + 1));
        let (mut merged, mut later) = (writes(), writes());
        early.iter().for_each(|step| apply(&mut merged, step));
        late.iter().for_each(|step| apply(&mut later, step));
        let at_most = merged.bytes_at_most_with(&later);
        merged.merge(later).unwrap();
        prop_assert!(merged.bytes_at_most() <= at_most && merged.bytes() <= merged.bytes_at_most());
        for writes in [&whole, &merged] {
            for number in 0..NAMES {
                let name = format!("n{number}");
                let state = writes.state(&name).map(|value| value.map(|value| value[0]));
                let says = |step: &Step| match step { Step::State(n, value) if *n == number => Some(*value), _ => None };
                prop_assert_eq!(state, expected(&steps, says));
                let due = writes.reminder(&name).map(|found| found.map(|found| found.due.as_millis() as u8));
                let says = |step: &Step| match step { Step::Reminder(n, due) if *n == number => Some(*due), _ => None };
                prop_assert_eq!(due, expected(&steps, says));
                let expires = writes.answer(&name).map(|found| found.map(|found| found.expires.as_millis() as u8));
                let says = |step: &Step| match step { Step::Answer(n, at) if *n == number => Some(*at), _ => None };
                prop_assert_eq!(expires, expected(&steps, says));
            }
            let known = steps.iter().rev().find_map(|step| match step {
                Step::Known => Some(true),
                Step::Delete => Some(false),
                _ => None,
            });
            prop_assert_eq!(writes.is_known(), known);
            prop_assert_eq!(writes.is_deleted(), steps.iter().any(|step| matches!(step, Step::Delete)));
            prop_assert_eq!(writes.is_empty(), steps.is_empty());
        }
        prop_assert_eq!(whole.bytes(), merged.bytes());
    }
}
