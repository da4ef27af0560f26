//! An enum in an ordinary field says nothing about the struct around it: it may change, and what is unknown stays.

use std::collections::BTreeMap;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::unknown::change;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum State {
    Open,
    Closed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct New<S> {
    state: S,
    extra: u8,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Old<S> {
    state: S,
}

#[test]
fn a_status_may_change() {
    let found: New<State> = change(&New { state: State::Open, extra: 7 }, |old: &mut Old<State>| {
        old.state = State::Closed;
    });
    assert_eq!(found, New { state: State::Closed, extra: 7 });
}

#[test]
fn an_optional_status_may_end() {
    let found: New<Option<State>> = change(&New { state: Some(State::Open), extra: 7 }, |old: &mut Old<_>| {
        old.state = None::<State>;
    });
    assert_eq!(found, New { state: None, extra: 7 });
    let stored = New { state: Bound::<u8>::Unbounded, extra: 7 };
    let found: New<Bound<u8>> = change(&stored, |old: &mut Old<Bound<u8>>| old.state = Bound::Included(3));
    assert_eq!(found, New { state: Bound::Included(3), extra: 7 });
}

#[test]
fn a_status_that_is_left_out_takes_nothing_along() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Sparse {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<State>,
    }
    let found: New<Option<State>> =
        change(&New { state: State::Open, extra: 7 }, |sparse: &mut Sparse| sparse.state = None);
    assert_eq!(found, New { state: None, extra: 7 });
}

#[test]
fn entries_of_a_map_are_independent() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Door<R> {
        Wall,
        Room(R),
    }
    let room = |extra| Door::Room(New { state: 1u8, extra });
    let stored = BTreeMap::from([("a", room(1)), ("b", room(2)), ("c", Door::Wall)]);
    let found: BTreeMap<String, Door<New<u8>>> = change(&stored, |doors: &mut BTreeMap<String, Door<Old<u8>>>| {
        doors.remove("c");
    });
    assert_eq!(found, BTreeMap::from([("a".into(), room(1)), ("b".into(), room(2))]));
}

#[test]
fn a_field_of_a_struct_with_flattened_ones_is_ordinary() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Base {
        id: u8,
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Flat {
        state: State,
        #[serde(flatten)]
        base: Base,
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Wide {
        state: State,
        id: u8,
        extra: u8,
    }
    let stored = Wide { state: State::Open, id: 1, extra: 7 };
    let found: Wide = change(&stored, |flat: &mut Flat| flat.state = State::Closed);
    assert_eq!(found, Wide { state: State::Closed, ..stored });
}

#[test]
fn a_struct_may_share_its_name_with_the_enum_inside() {
    mod inner {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub(super) enum Status {
            Open,
            Closed,
        }
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Status {
        state: inner::Status,
    }
    let stored = New { state: inner::Status::Open, extra: 7 };
    let found: New<inner::Status> = change(&stored, |status: &mut Status| status.state = inner::Status::Closed);
    assert_eq!(found, New { state: inner::Status::Closed, extra: 7 });
}

#[test]
fn a_type_that_looks_before_it_reads_is_ordinary_too() {
    // Takes a state alone for a struct of nothing else, as authors do by hand when a type grows.
    #[derive(Debug, PartialEq, Serialize)]
    struct Lenient {
        state: State,
    }
    impl<'de> Deserialize<'de> for Lenient {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Look;
            impl<'de> serde::de::Visitor<'de> for Look {
                type Value = Lenient;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("a state, or a struct that has one")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Lenient, A::Error> {
                    let old = Old::<State>::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                    Ok(Lenient { state: old.state })
                }
            }
            deserializer.deserialize_any(Look)
        }
    }
    let found: New<State> = change(&New { state: State::Open, extra: 7 }, |old: &mut Lenient| {
        old.state = State::Closed;
    });
    assert_eq!(found, New { state: State::Closed, extra: 7 });
}
