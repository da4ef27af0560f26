//! A type with every form that serde knows, and strategies that fill it.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Nothing;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Meters(pub(super) i32);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Pair(pub(super) u8, pub(super) String);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Outer {
    Unit,
    Newtype(Box<Sample>),
    Tuple(i16, Option<bool>),
    Struct { a: u64, b: Vec<Outer> },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub(super) enum Internal {
    Empty,
    Round { radius: u32 },
    Named(Inner),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", content = "c")]
pub(super) enum Adjacent {
    Unit,
    One(i64),
    Fields { x: char },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Untagged {
    Number(i64),
    Text(String),
    Fields { left: u8, right: u8 },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Inner {
    pub(super) id: Uuid,
    pub(super) note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Flat {
    pub(super) own: u8,
    #[serde(flatten)]
    pub(super) inner: Inner,
    #[serde(flatten)]
    pub(super) rest: BTreeMap<String, i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    pub(super) flags: (bool, Nothing, ()),
    pub(super) small: (u8, i8, u16, i16),
    pub(super) large: (u32, i32, u64, i64),
    pub(super) wide: (u128, i128),
    pub(super) real: (f32, f64),
    pub(super) letter: char,
    pub(super) text: String,
    pub(super) bytes: Bytes,
    pub(super) octets: Vec<u8>,
    pub(super) id: Uuid,
    pub(super) maybe: Option<Meters>,
    pub(super) pair: Pair,
    pub(super) by_number: BTreeMap<i32, Option<String>>,
    pub(super) by_pair: BTreeMap<(bool, char), u8>,
    pub(super) array: [u16; 3],
    pub(super) outer: Vec<Outer>,
    pub(super) internal: Internal,
    pub(super) adjacent: Adjacent,
    pub(super) untagged: Untagged,
    pub(super) flat: Flat,
}

fn inner() -> impl Strategy<Value = Inner> {
    (any::<u128>(), option::of(".{0,4}")).prop_map(|(id, note)| Inner { id: Uuid::from_u128(id), note })
}

/// A sample with the given enums inside.
fn around(outer: impl Strategy<Value = Vec<Outer>>) -> impl Strategy<Value = Sample> {
    let numbers = (
        any::<(bool, u8, i8, u16, i16)>(),
        any::<(u32, i32, u64, i64)>(),
        any::<(u128, i128)>(),
        // NaN is not equal to itself, which is what the comparison of a round trip needs.
        (any::<f32>().prop_filter("a number", |x| !x.is_nan()), any::<f64>().prop_filter("a number", |x| !x.is_nan())),
        any::<(char, [u16; 3], Option<i32>)>(),
    );
    let texts = (".{0,40}", vec(any::<u8>(), 0..300), any::<u128>(), ".{0,3}");
    let maps =
        (btree_map(any::<i32>(), option::of(".{0,3}"), 0..3), btree_map(any::<(bool, char)>(), any::<u8>(), 0..3));
    let internal = prop_oneof![
        Just(Internal::Empty),
        any::<u32>().prop_map(|radius| Internal::Round { radius }),
        inner().prop_map(Internal::Named)
    ];
    let adjacent = prop_oneof![
        Just(Adjacent::Unit),
        any::<i64>().prop_map(Adjacent::One),
        any::<char>().prop_map(|x| Adjacent::Fields { x })
    ];
    let untagged = prop_oneof![
        any::<i64>().prop_map(Untagged::Number),
        ".{0,3}".prop_map(Untagged::Text),
        any::<(u8, u8)>().prop_map(|(left, right)| Untagged::Fields { left, right })
    ];
    let flat = (any::<u8>(), inner(), btree_map("x[a-z]{1,3}", any::<i64>(), 0..3));
    let enums = (internal, adjacent, untagged, flat.prop_map(|(own, inner, rest)| Flat { own, inner, rest }));
    (numbers, texts, maps, enums, outer).prop_map(|(numbers, texts, maps, enums, outer)| Sample {
        flags: (numbers.0.0, Nothing, ()),
        small: (numbers.0.1, numbers.0.2, numbers.0.3, numbers.0.4),
        large: numbers.1,
        wide: numbers.2,
        real: numbers.3,
        letter: numbers.4.0,
        text: texts.0,
        bytes: Bytes::from(texts.1.clone()),
        octets: texts.1,
        id: Uuid::from_u128(texts.2),
        maybe: numbers.4.2.map(Meters),
        pair: Pair(numbers.0.1, texts.3),
        by_number: maps.0,
        by_pair: maps.1,
        array: numbers.4.1,
        outer,
        internal: enums.0,
        adjacent: enums.1,
        untagged: enums.2,
        flat: enums.3,
    })
}

pub(super) fn sample() -> impl Strategy<Value = Sample> {
    let leaf = prop_oneof![
        Just(Outer::Unit),
        any::<(i16, Option<bool>)>().prop_map(|(a, b)| Outer::Tuple(a, b)),
        around(Just(Vec::new())).prop_map(|sample| Outer::Newtype(Box::new(sample))),
    ];
    let outer = leaf
        .prop_recursive(3, 8, 3, |inner| (any::<u64>(), vec(inner, 0..3)).prop_map(|(a, b)| Outer::Struct { a, b }));
    around(vec(outer, 0..3))
}
