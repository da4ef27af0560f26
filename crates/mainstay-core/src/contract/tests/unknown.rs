use std::collections::{BTreeMap, HashMap};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::contract::{decode, decode_keeping, encode, encode_keeping, rewrite};

/// Reads `stored` as a `T`, changes it, writes it back, and reads the result as an `R`.
pub(super) fn change<T, R>(stored: &impl Serialize, change: impl FnOnce(&mut T)) -> R
where
    T: Serialize + DeserializeOwned,
    R: DeserializeOwned,
{
    let stored = encode(stored).unwrap();
    let (mut value, unknown) = decode_keeping::<T>(&stored).unwrap();
    // Nothing changed: nothing lost.
    let same = encode_keeping(&value, &unknown).unwrap();
    decode::<R>(&same.0).unwrap();
    assert_eq!(same.1.is_empty(), unknown.is_empty());
    change(&mut value);
    let (bytes, again) = encode_keeping(&value, &unknown).unwrap();
    assert_eq!(rewrite(&stored, &value).unwrap(), bytes);
    // What is said to be unknown in the result is what a fresh look finds there.
    assert_eq!(decode_keeping::<T>(&bytes).unwrap().1, again);
    decode(&bytes).unwrap()
}

mod v1 {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(super) struct Shop {
        pub(super) name: String,
        pub(super) owner: Person,
        pub(super) staff: Vec<Person>,
        pub(super) rooms: HashMap<String, Room>,
        pub(super) best: Option<Person>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(super) struct Person {
        pub(super) name: String,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(super) struct Room {
        pub(super) desks: Vec<Desk>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(super) struct Desk {
        pub(super) width: u32,
    }
}

mod v2 {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(super) struct Shop {
        pub(super) name: String,
        pub(super) owner: Person,
        pub(super) staff: Vec<Person>,
        pub(super) rooms: HashMap<String, v1::Room>,
        pub(super) best: Option<Person>,
        #[serde(default)]
        pub(super) city: String,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(super) struct Person {
        pub(super) name: String,
        #[serde(default)]
        pub(super) age: u8,
    }
}

mod v3 {
    use super::*;

    /// With the fields in another order, too.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(super) struct Shop {
        pub(super) tags: Vec<String>,
        pub(super) staff: Vec<Person>,
        pub(super) city: String,
        pub(super) name: String,
        pub(super) owner: Person,
        pub(super) rooms: HashMap<String, Room>,
        pub(super) best: Option<Person>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(super) struct Person {
        pub(super) home: Address,
        pub(super) age: u8,
        pub(super) name: String,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(super) struct Address {
        pub(super) street: String,
        pub(super) numbers: BTreeMap<u32, Option<f32>>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(super) struct Room {
        pub(super) light: bool,
        pub(super) desks: Vec<Desk>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(super) struct Desk {
        pub(super) width: u32,
        pub(super) wood: String,
    }

    pub(super) fn person(name: &str, age: u8) -> Person {
        let numbers = BTreeMap::from([(u32::from(age), Some(0.5)), (7, None)]);
        Person { home: Address { street: format!("{name} street"), numbers }, age, name: name.into() }
    }

    pub(super) fn desk(width: u32, wood: &str) -> Desk {
        Desk { width, wood: wood.into() }
    }

    pub(super) fn shop() -> Shop {
        Shop {
            tags: vec!["a".into(), "b".into()],
            staff: vec![person("ann", 31), person("bob", 32), person("cid", 33)],
            city: "bern".into(),
            name: "chairs".into(),
            owner: person("olga", 60),
            rooms: HashMap::from([
                ("east".into(), Room { light: true, desks: vec![desk(1, "oak"), desk(2, "ash")] }),
                ("west".into(), Room { light: false, desks: vec![desk(3, "elm")] }),
            ]),
            best: Some(person("ann", 31)),
        }
    }
}

#[test]
fn an_older_type_keeps_what_it_does_not_know_at_every_level() {
    let mut expected = v3::shop();
    expected.name = "tables".into();
    expected.owner.name = "otto".into();
    expected.staff[1].name = "bea".into();
    expected.rooms.get_mut("east").unwrap().desks[0].width = 9;
    expected.best.as_mut().unwrap().name = "bea".into();
    let found: v3::Shop = change(&v3::shop(), |shop: &mut v1::Shop| {
        shop.name = "tables".into();
        shop.owner.name = "otto".into();
        shop.staff[1].name = "bea".into();
        shop.rooms.get_mut("east").unwrap().desks[0].width = 9;
        shop.best.as_mut().unwrap().name = "bea".into();
    });
    assert_eq!(found, expected);
}

#[test]
fn versions_take_turns_and_lose_nothing() {
    let mut bytes = encode(&v3::shop()).unwrap();
    let (mut shop, unknown) = decode_keeping::<v1::Shop>(&bytes).unwrap();
    shop.name.push('1');
    let (next, unknown) = encode_keeping(&shop, &unknown).unwrap();
    // The same value is changed again, without being read again.
    shop.staff.remove(0);
    bytes = encode_keeping(&shop, &unknown).unwrap().0;
    assert_ne!(next, bytes);

    let mut shop = decode::<v2::Shop>(&bytes).unwrap();
    shop.city.push('2');
    shop.staff[0].age += 1;
    bytes = rewrite(&bytes, &shop).unwrap();

    let mut expected = v3::shop();
    expected.name = "chairs1".into();
    expected.city = "bern2".into();
    expected.staff.remove(0);
    expected.staff[0].age += 1;
    assert_eq!(decode::<v3::Shop>(&bytes).unwrap(), expected);
}

#[test]
fn kept_fields_are_the_same_bytes() {
    // An old type's field in a form that this crate does not write: a long head, an extension.
    let stored = [0x82, 0xa4, b'n', b'a', b'm', b'e', 0xa1, b'x', 0xd9, 1, b'e', 0x92, 0xcd, 0, 5, 0xd4, 9, 1];
    let (value, unknown) = decode_keeping::<v1::Person>(&stored).unwrap();
    assert_eq!(encode_keeping(&value, &unknown).unwrap().0, stored);
}

#[test]
fn a_removed_map_entry_stays_removed_and_a_new_one_gets_nothing() {
    let found: BTreeMap<String, serde::de::IgnoredAny> =
        change(&v3::shop().rooms, |rooms: &mut HashMap<String, v1::Room>| {
            rooms.remove("west");
            rooms.insert("north".into(), v1::Room { desks: Vec::new() });
        });
    assert_eq!(found.into_keys().collect::<Vec<_>>(), ["east", "north"]);

    // Removed, stored, and added again under the same name: a new one.
    let bytes = encode(&v3::shop().rooms).unwrap();
    let (mut rooms, unknown) = decode_keeping::<HashMap<String, v1::Room>>(&bytes).unwrap();
    let west = rooms.remove("west").unwrap();
    let (_, unknown) = encode_keeping(&rooms, &unknown).unwrap();
    rooms.insert("west".into(), west);
    let (bytes, _) = encode_keeping(&rooms, &unknown).unwrap();
    assert!(decode::<HashMap<String, v3::Room>>(&bytes).unwrap_err().to_string().contains("missing field"));
}

#[test]
fn maps_with_other_keys_match_by_key() {
    let stored = BTreeMap::from([((1u8, true), v3::desk(1, "oak")), ((2, false), v3::desk(2, "elm"))]);
    let found: BTreeMap<(u8, bool), v3::Desk> = change(&stored, |desks: &mut BTreeMap<(u8, bool), v1::Desk>| {
        desks.remove(&(1, true));
        desks.get_mut(&(2, false)).unwrap().width = 5;
    });
    assert_eq!(found, BTreeMap::from([((2, false), v3::desk(5, "elm"))]));
}

#[test]
fn a_known_field_that_is_left_out_does_not_come_back() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Known {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<u32>,
        #[serde(default, rename = "legacy", skip_serializing)]
        _legacy: u32,
    }
    #[derive(Debug, Serialize)]
    struct Stored {
        note: u32,
        legacy: u32,
        extra: u32,
    }
    let stored = Stored { note: 4, legacy: 5, extra: 6 };
    let found: BTreeMap<String, u32> = change(&stored, |known: &mut Known| known.note = None);
    assert_eq!(found, BTreeMap::from([("extra".into(), 6)]));
}

#[test]
fn an_option_that_becomes_none_loses_its_content_and_some_keeps_it() {
    let found: v3::Shop = change(&v3::shop(), |shop: &mut v1::Shop| shop.best = None);
    assert_eq!(found.best, None);
}

#[test]
fn an_alias_is_a_known_name() {
    #[derive(Debug, Serialize)]
    struct Stored {
        colour: v3::Desk,
        size: u8,
        extra: u8,
    }
    #[derive(Debug, Serialize, Deserialize)]
    struct Renamed {
        #[serde(alias = "colour")]
        color: v1::Desk,
        #[serde(rename = "size")]
        magnitude: u8,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct After {
        color: v3::Desk,
        size: u8,
        extra: u8,
    }
    let stored = Stored { colour: v3::desk(1, "oak"), size: 2, extra: 3 };
    let found: After = change(&stored, |value: &mut Renamed| value.magnitude = 4);
    // Even what is unknown inside the renamed field is found again.
    assert_eq!(found, After { color: v3::desk(1, "oak"), size: 4, extra: 3 });
}

#[test]
fn a_name_that_the_type_writes_is_written_once() {
    #[derive(Debug, Serialize, Deserialize)]
    struct WriteOnly {
        a: u8,
        #[serde(skip_deserializing)]
        stamp: u8,
    }
    let stored = BTreeMap::from([("a", 1u8), ("stamp", 2), ("extra", 3)]);
    let (mut value, unknown) = decode_keeping::<WriteOnly>(&encode(&stored).unwrap()).unwrap();
    value.stamp = 9;
    let (bytes, _) = encode_keeping(&value, &unknown).unwrap();
    assert_eq!(bytes[0], 0x83);
    let found: BTreeMap<String, u8> = decode(&bytes).unwrap();
    assert_eq!(found, BTreeMap::from([("a".into(), 1), ("stamp".into(), 9), ("extra".into(), 3)]));
}

#[test]
fn a_type_that_knows_everything_keeps_nothing() {
    let bytes = encode(&v3::shop()).unwrap();
    let (value, unknown) = decode_keeping::<v3::Shop>(&bytes).unwrap();
    assert!(unknown.is_empty());
    assert_eq!(value, v3::shop());
}

#[test]
fn unknown_fields_in_keys_are_dropped() {
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    struct Wide {
        a: u8,
        b: u8,
    }
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    struct Narrow {
        a: u8,
    }
    let stored = encode(&BTreeMap::from([(Wide { a: 1, b: 2 }, 3u8)])).unwrap();
    let (value, unknown) = decode_keeping::<BTreeMap<Narrow, u8>>(&stored).unwrap();
    let (bytes, _) = encode_keeping(&value, &unknown).unwrap();
    assert_eq!(bytes, encode(&BTreeMap::from([(Narrow { a: 1 }, 3u8)])).unwrap());
}
