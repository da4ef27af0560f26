//! Unknown fields inside enums of every representation, and around flattened fields.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::unknown::change;
use crate::contract::{decode, decode_keeping, encode, encode_keeping};

macro_rules! versions {
    ($old:ident, $new:ident, $(#[$attribute:meta])*) => {
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        $(#[$attribute])*
        enum $old {
            Circle { radius: u32 },
            Square { side: u32, inner: Vec<Dot> },
        }

        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        $(#[$attribute])*
        enum $new {
            Circle {
                radius: u32,
                #[serde(default)]
                hue: Option<u8>,
            },
            Square {
                hue: u8,
                side: u32,
                inner: Vec<WideDot>,
            },
        }
    };
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Dot {
    x: u8,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WideDot {
    x: u8,
    y: u8,
}

versions!(OldOuter, NewOuter,);
versions!(OldInternal, NewInternal, #[serde(tag = "kind")]);
versions!(OldAdjacent, NewAdjacent, #[serde(tag = "t", content = "c")]);
versions!(OldUntagged, NewUntagged, #[serde(untagged)]);

macro_rules! keeps {
    ($name:ident, $old:ident, $new:ident) => {
        #[test]
        fn $name() {
            let circle = $new::Circle { radius: 1, hue: Some(2) };
            let dots = vec![WideDot { x: 1, y: 2 }, WideDot { x: 3, y: 4 }];
            let square = $new::Square { hue: 5, side: 6, inner: dots };
            let stored = BTreeMap::from([("circle", circle), ("square", square)]);

            // Changed under the same variant: kept, further in too.
            let found: BTreeMap<String, $new> = change(&stored, |shapes: &mut BTreeMap<String, $old>| {
                shapes.insert("circle".into(), $old::Circle { radius: 7 });
                let inner = vec![Dot { x: 3 }];
                shapes.insert("square".into(), $old::Square { side: 8, inner });
            });
            assert_eq!(found["circle"], $new::Circle { radius: 7, hue: Some(2) });
            assert_eq!(found["square"], $new::Square { hue: 5, side: 8, inner: vec![WideDot { x: 3, y: 4 }] });

            // Under another variant: dropped.
            let bytes = encode(&stored).unwrap();
            let (mut shapes, unknown) = decode_keeping::<BTreeMap<String, $old>>(&bytes).unwrap();
            shapes.insert("square".into(), $old::Circle { radius: 9 });
            let (bytes, _) = encode_keeping(&shapes, &unknown).unwrap();
            let found: BTreeMap<String, $new> = decode(&bytes).unwrap();
            assert_eq!(found["square"], $new::Circle { radius: 9, hue: None });
        }
    };
}

keeps!(an_outer_tag_keeps_under_the_same_variant, OldOuter, NewOuter);
keeps!(an_internal_tag_keeps_under_the_same_variant, OldInternal, NewInternal);
keeps!(an_adjacent_tag_keeps_under_the_same_variant, OldAdjacent, NewAdjacent);
keeps!(an_untagged_enum_keeps_under_the_same_shape, OldUntagged, NewUntagged);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Base {
    id: u32,
    #[serde(alias = "label", skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Flat {
    own: u8,
    #[serde(flatten)]
    base: Base,
    dot: Dot,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WideFlat {
    own: u8,
    id: u32,
    title: Option<String>,
    dot: WideDot,
    extra: Vec<u8>,
    more: bool,
}

#[test]
fn a_flattened_struct_keeps_unknown_fields_and_writes_none_twice() {
    #[derive(Serialize)]
    struct Stored {
        label: &'static str,
        extra: Vec<u8>,
        own: u8,
        id: u32,
        dot: WideDot,
        more: bool,
    }
    let stored = Stored { label: "a", extra: vec![1], own: 2, id: 3, dot: WideDot { x: 4, y: 5 }, more: true };
    let found: WideFlat = change(&stored, |flat: &mut Flat| flat.base.id = 30);
    let expected =
        WideFlat { own: 2, id: 30, title: Some("a".into()), dot: WideDot { x: 4, y: 5 }, extra: vec![1], more: true };
    assert_eq!(found, expected);

    // A known field that is emptied does not come back, under none of its names.
    let found: BTreeMap<String, serde::de::IgnoredAny> = {
        let bytes = encode(&stored).unwrap();
        let (mut flat, unknown) = decode_keeping::<Flat>(&bytes).unwrap();
        flat.base.title = None;
        decode(&encode_keeping(&flat, &unknown).unwrap().0).unwrap()
    };
    assert_eq!(found.into_keys().collect::<Vec<_>>(), ["dot", "extra", "id", "more", "own"]);
}

#[test]
fn a_flattened_map_knows_every_entry() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Open {
        id: u8,
        #[serde(flatten)]
        rest: BTreeMap<String, u8>,
    }
    let stored = BTreeMap::from([("id", 1u8), ("a", 2), ("b", 3)]);
    let found: BTreeMap<String, u8> = change(&stored, |open: &mut Open| {
        open.rest.remove("a");
        open.rest.insert("c".into(), 4);
    });
    assert_eq!(found, BTreeMap::from([("id".into(), 1), ("b".into(), 3), ("c".into(), 4)]));
}

#[test]
fn an_untagged_variant_may_leave_out_what_is_empty() {
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Sparse {
        Fields {
            a: u8,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            b: Option<u8>,
        },
    }
    let stored = BTreeMap::from([("a", 1u8), ("b", 2), ("extra", 3)]);
    let found: BTreeMap<String, u8> = change(&stored, |sparse: &mut Sparse| *sparse = Sparse::Fields { a: 5, b: None });
    assert_eq!(found, BTreeMap::from([("a".into(), 5), ("extra".into(), 3)]));
}
