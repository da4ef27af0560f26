//! Unknown fields inside what serde buffers: flattened fields, enums without an outer tag, and all that is in them.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use super::unknown::change;
use crate::contract::{decode, decode_keeping, encode, encode_keeping};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Room {
    n: u8,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WideRoom {
    n: u8,
    #[serde(default)]
    light: bool,
}

fn swap_west_for_north(rooms: &mut BTreeMap<String, Room>) {
    rooms.remove("west");
    rooms.insert("north".into(), Room { n: 3 });
}

fn rooms() -> BTreeMap<String, WideRoom> {
    ["east", "west"].map(|name| (name.to_owned(), WideRoom { n: 1, light: true })).into()
}

fn swapped() -> BTreeMap<String, WideRoom> {
    [("east".into(), WideRoom { n: 1, light: true }), ("north".into(), WideRoom { n: 3, light: false })].into()
}

#[test]
fn entries_of_a_map_inside_an_enum_come_and_go() {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "k")]
    enum Tagged<R> {
        Shop { rooms: BTreeMap<String, R> },
    }
    let found: Tagged<WideRoom> = change(&Tagged::Shop { rooms: rooms() }, |shop: &mut Tagged<Room>| {
        let Tagged::Shop { rooms } = shop;
        swap_west_for_north(rooms);
    });
    assert_eq!(found, Tagged::Shop { rooms: swapped() });
}

#[test]
fn entries_of_a_map_that_is_itself_a_variant_come_and_go() {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Loose<R> {
        Number(u8),
        Rooms(BTreeMap<String, R>),
    }
    let found: Loose<WideRoom> = change(&Loose::Rooms(rooms()), |loose: &mut Loose<Room>| {
        let Loose::Rooms(rooms) = loose else { return };
        swap_west_for_north(rooms);
    });
    assert_eq!(found, Loose::Rooms(swapped()));
}

#[test]
fn a_struct_inside_an_enum_may_drop_one_field_and_gain_another() {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Sparse<R> {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        a: Option<u8>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        b: Option<u8>,
        room: R,
    }
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "k")]
    enum Tagged<R> {
        One { sparse: Sparse<R> },
    }
    let stored = Tagged::One { sparse: Sparse { a: Some(1), b: None, room: WideRoom { n: 1, light: true } } };
    let found: Tagged<WideRoom> = change(&stored, |tagged: &mut Tagged<Room>| {
        let Tagged::One { sparse } = tagged;
        (sparse.a, sparse.b) = (None, Some(2));
    });
    assert_eq!(found, Tagged::One { sparse: Sparse { a: None, b: Some(2), room: WideRoom { n: 1, light: true } } });
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Shape {
    #[serde(alias = "Disc")]
    Circle {
        #[serde(alias = "r")]
        radius: u32,
    },
    Square {
        side: u32,
    },
    Empty,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum WideShape {
    Circle { radius: u32, hue: Option<u8> },
    Square { side: u32, hue: Option<u8> },
    Empty { hue: Option<u8> },
}

#[test]
fn a_hash_set_beside_it_hides_nothing() {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Both<S> {
        tags: HashSet<u32>,
        shape: S,
    }
    let stored = Both { tags: (0..20).collect(), shape: WideShape::Circle { radius: 1, hue: Some(2) } };
    let (value, unknown) = decode_keeping::<Both<Shape>>(&encode(&stored).unwrap()).unwrap();
    let found: Both<WideShape> = decode(&encode_keeping(&value, &unknown).unwrap().0).unwrap();
    assert_eq!(found, stored);
}

#[test]
fn any_number_of_elements_keep_their_fields_beside_renamed_ones() {
    #[derive(Serialize)]
    struct Stored {
        kind: &'static str,
        r: u32,
        hue: Option<u8>,
    }
    let stored: Vec<_> = (0..200).map(|r| Stored { kind: "Circle", r, hue: Some(7) }).collect();
    let (mut shapes, unknown) = decode_keeping::<Vec<Shape>>(&encode(&stored).unwrap()).unwrap();
    shapes.remove(0);
    let found: Vec<WideShape> = decode(&encode_keeping(&shapes, &unknown).unwrap().0).unwrap();
    let expected: Vec<_> = (1..200).map(|radius| WideShape::Circle { radius, hue: Some(7) }).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_variant_may_be_renamed() {
    let stored = [("kind", "Disc"), ("hue", "red")];
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(tag = "kind")]
    enum Internal {
        #[serde(alias = "Disc")]
        Round,
    }
    let found: BTreeMap<String, String> = change(&BTreeMap::from(stored), |_: &mut Internal| {});
    assert_eq!(found, BTreeMap::from([("kind".into(), "Round".into()), ("hue".into(), "red".into())]));

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(tag = "t", content = "c")]
    enum Adjacent<R> {
        #[serde(alias = "Disc")]
        Round(R),
    }
    #[derive(Serialize)]
    struct Stored {
        t: &'static str,
        c: WideRoom,
    }
    let stored = Stored { t: "Disc", c: WideRoom { n: 1, light: true } };
    let Adjacent::Round(found): Adjacent<WideRoom> = change(&stored, |_: &mut Adjacent<Room>| {});
    assert_eq!(found, WideRoom { n: 1, light: true });
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Flat {
    id: u8,
    title: String,
    #[serde(flatten)]
    shape: Shape,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WideFlat {
    id: u8,
    title: String,
    #[serde(flatten)]
    shape: WideShape,
}

fn flat() -> WideFlat {
    WideFlat { id: 1, title: "a".into(), shape: WideShape::Circle { radius: 1, hue: Some(2) } }
}

#[test]
fn another_variant_of_a_flattened_enum_gets_nothing_of_the_former_one() {
    let found: WideFlat = change(&flat(), |flat: &mut Flat| flat.shape = Shape::Square { side: 1 });
    assert_eq!(found.shape, WideShape::Square { side: 1, hue: None });
    let found: WideFlat = change(&flat(), |flat: &mut Flat| flat.shape = Shape::Empty);
    assert_eq!(found.shape, WideShape::Empty { hue: None });
    let found: WideFlat = change(&flat(), |flat: &mut Flat| {
        flat.title = "b".into();
        flat.shape = Shape::Circle { radius: 5 };
    });
    assert_eq!(found.shape, WideShape::Circle { radius: 5, hue: Some(2) });
}

#[test]
fn another_variant_inside_a_buffered_value_gets_nothing_of_the_former_one() {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Loose<S> {
        Number(u8),
        Fields { shape: S },
    }
    let stored = Loose::Fields { shape: WideShape::Circle { radius: 1, hue: Some(2) } };
    let found: Loose<WideShape> =
        change(&stored, |loose: &mut Loose<Shape>| *loose = Loose::Fields { shape: Shape::Empty });
    assert_eq!(found, Loose::Fields { shape: WideShape::Empty { hue: None } });
    let found: Loose<WideShape> =
        change(&stored, |loose: &mut Loose<Shape>| *loose = Loose::Fields { shape: Shape::Circle { radius: 3 } });
    assert_eq!(found, Loose::Fields { shape: WideShape::Circle { radius: 3, hue: Some(2) } });
}

#[test]
fn a_text_that_is_no_tag_changes_with_other_fields() {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Base {
        title: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<u8>,
    }
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Page {
        id: u8,
        #[serde(flatten)]
        base: Base,
    }
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Wide {
        id: u8,
        title: String,
        note: Option<u8>,
        extra: u8,
    }
    let stored = Wide { id: 1, title: "a".into(), note: Some(1), extra: 7 };
    let found: Wide = change(&stored, |page: &mut Page| page.base = Base { title: "b".into(), note: None });
    assert_eq!(found, Wide { title: "b".into(), note: None, ..stored });
}
