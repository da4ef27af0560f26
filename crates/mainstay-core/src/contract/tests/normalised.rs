//! Types that write a value in another form than they read it in: what is unknown stays with its element nevertheless.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use super::unknown::change;
use crate::contract::{decode, decode_keeping, encode, encode_keeping};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Wide<I> {
    id: I,
    #[serde(default)]
    secret: String,
}

fn wide<I>(id: I, secret: &str) -> Wide<I> {
    Wide { id, secret: secret.into() }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Narrow<I> {
    id: I,
}

/// Reads `stored` as an `Old`, changes it, and reads the result as a `New`. The list may be a set, whose order nobody
/// promises, so nothing is compared with a fresh look.
fn changed<Old, New>(stored: &impl Serialize, change: impl FnOnce(&mut Old)) -> New
where
    Old: Serialize + serde::de::DeserializeOwned,
    New: serde::de::DeserializeOwned,
{
    let (mut value, unknown) = decode_keeping::<Old>(&encode(stored).unwrap()).unwrap();
    change(&mut value);
    decode(&encode_keeping(&value, &unknown).unwrap().0).unwrap()
}

#[test]
fn numbers_may_widen_in_lists_that_are_reordered_and_shortened() {
    let stored = [wide(1u32, "a"), wide(2, "b"), wide(3, "c")];
    let found: Vec<Wide<u128>> = change(&stored, |list: &mut Vec<Narrow<u128>>| list.reverse());
    assert_eq!(found, [wide(3, "c"), wide(2, "b"), wide(1, "a")]);
    let found: Vec<Wide<u128>> = change(&stored, remove_first::<Narrow<u128>>);
    assert_eq!(found, [wide(2, "b"), wide(3, "c")]);

    let stored = [wide(1.5f32, "a"), wide(2.1, "b"), wide(3.0, "c")];
    let found: Vec<Wide<f64>> = change(&stored, |list: &mut Vec<Narrow<f64>>| list.reverse());
    assert_eq!(found.iter().map(|element| element.secret.as_str()).collect::<Vec<_>>(), ["c", "b", "a"]);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum Colour {
    #[serde(alias = "Grey")]
    Gray,
    #[serde(alias = "Azure")]
    Blue,
}

fn remove_first<T>(list: &mut Vec<T>) {
    list.remove(0);
}

#[test]
fn variants_may_be_renamed_in_lists() {
    let stored = [wide("Grey", "a"), wide("Azure", "b"), wide("Gray", "c")];
    let found: Vec<Wide<Colour>> = change(&stored, |list: &mut Vec<Narrow<Colour>>| list.reverse());
    assert_eq!(found[1], wide(Colour::Blue, "b"));
    let stored = [wide("Grey", "a"), wide("Azure", "b")];
    let found: Vec<Wide<Colour>> = change(&stored, remove_first::<Narrow<Colour>>);
    assert_eq!(found, [wide(Colour::Blue, "b")]);
    // A pair keeps its order whatever becomes of its elements.
    let pair = (wide("Grey", "a"), wide("Azure", "b"));
    let found: (Wide<Colour>, Wide<Colour>) = change(&pair, |pair: &mut (Narrow<Colour>, Narrow<Colour>)| {
        pair.0.id = Colour::Blue;
        pair.1.id = Colour::Gray;
    });
    assert_eq!((found.0.id, found.1.id), (Colour::Blue, Colour::Gray));
}

#[test]
fn fields_may_be_renamed_in_lists() {
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    struct Renamed {
        #[serde(alias = "id")]
        number: u8,
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct After {
        number: u8,
        secret: Option<String>,
    }
    let after = |number, secret: &str| After { number, secret: Some(secret.into()) };
    let stored = [wide(2u8, "b"), wide(1, "a")];
    let found: Vec<After> = changed(&stored, |list: &mut Vec<Renamed>| list.reverse());
    assert_eq!(found, [after(1, "a"), after(2, "b")]);
    // A set sorts them, and nothing says which is which any more.
    let found: Vec<After> = changed(&stored, |_: &mut BTreeSet<Renamed>| {});
    assert_eq!(found.iter().map(|element| element.secret.as_deref()).collect::<Vec<_>>(), [None, None]);
}

#[test]
fn nil_may_become_a_default_in_lists() {
    fn or_default<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(9))
    }
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Counted {
        id: u8,
        #[serde(deserialize_with = "or_default")]
        count: u8,
    }
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Stored {
        id: u8,
        count: Option<u8>,
        secret: String,
    }
    let stored = |id, count, secret: &str| Stored { id, count, secret: secret.into() };
    let found: Vec<Stored> =
        change(&[stored(1, None, "a"), stored(2, Some(5), "b"), stored(3, None, "c")], |list: &mut Vec<Counted>| {
            list.remove(1);
        });
    assert_eq!(found, [stored(1, Some(9), "a"), stored(3, Some(9), "c")]);
}

#[test]
fn a_set_that_fills_in_defaults_finds_its_elements() {
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    struct Member {
        id: u32,
        #[serde(default)]
        count: u32,
    }
    let stored = [wide(2u32, "b"), wide(1, "a"), wide(3, "c")];
    let found: Vec<Wide<u32>> = changed(&stored, |_: &mut BTreeSet<Member>| {});
    assert_eq!(found, [wide(1, "a"), wide(2, "b"), wide(3, "c")]);
    // In a set nothing is edited in place: what is new gets nothing.
    let found: Vec<Wide<u32>> = changed(&stored, |set: &mut BTreeSet<Member>| {
        set.remove(&Member { id: 2, count: 0 });
        set.insert(Member { id: 2, count: 7 });
    });
    assert_eq!(found, [wide(1, "a"), wide(2, ""), wide(3, "c")]);
}

#[test]
fn a_list_of_sets_is_not_a_set_and_its_sets_are_no_lists() {
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    struct Member {
        id: u32,
        #[serde(default)]
        count: u32,
    }
    let stored = [[wide(2u32, "b"), wide(1, "a")], [wide(4, "d"), wide(3, "c")]];
    let found: Vec<Vec<Wide<u32>>> = changed(&stored, |list: &mut Vec<BTreeSet<Member>>| list.reverse());
    assert_eq!(found, [[wide(3, "c"), wide(4, "d")], [wide(1, "a"), wide(2, "b")]]);
}

#[test]
fn elements_with_sets_inside_find_each_other() {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Tagged {
        tags: HashSet<u32>,
    }
    let tags = |from: u32| (from..from + 20).collect::<Vec<_>>();
    let stored: Vec<_> = (0..5).map(|id| BTreeMap::from([("tags", tags(id * 100)), ("secret", vec![id])])).collect();
    let stored = encode(&stored).unwrap();
    // What is written comes from another reading than what is unknown, and its sets have another order.
    let mut list: Vec<Tagged> = decode(&stored).unwrap();
    list.reverse();
    list.remove(1);
    let found: Vec<BTreeMap<String, Vec<u32>>> = decode(&crate::contract::rewrite(&stored, &list).unwrap()).unwrap();
    assert_eq!(found.iter().map(|element| element["secret"][0]).collect::<Vec<_>>(), [4, 2, 1, 0]);
}

#[test]
fn keys_of_maps_may_take_another_form() {
    // Two entries that differ in nothing but their keys and what is unknown.
    let stored = BTreeMap::from([(1u64, wide(5, "a")), (2, wide(5, "b"))]);
    let found: BTreeMap<u128, Wide<u8>> = change(&stored, |map: &mut BTreeMap<u128, Narrow<u8>>| {
        map.insert(3, Narrow { id: 5 });
    });
    assert_eq!(found, BTreeMap::from([(1, wide(5, "a")), (2, wide(5, "b")), (3, wide(5, ""))]));
    let stored = BTreeMap::from([("one", wide(5, "a")), ("two", wide(5, "b"))]);
    let found: BTreeMap<bytes::Bytes, Wide<u8>> = change(&stored, |_: &mut BTreeMap<bytes::Bytes, Narrow<u8>>| {});
    assert_eq!(found[&b"one"[..]], wide(5, "a"));
    assert_eq!(found[&b"two"[..]], wide(5, "b"));
}

#[test]
fn many_keys_in_another_form_take_no_longer_than_few_each() {
    let stored: BTreeMap<String, _> = (0..20_000).map(|key| (key.to_string(), wide(key % 3, "s"))).collect();
    let found: BTreeMap<bytes::Bytes, Wide<u32>> = changed(&stored, |_: &mut BTreeMap<bytes::Bytes, Narrow<u32>>| {});
    assert!(found.values().all(|value| value.secret == "s"));
    // Where the keys tell nothing, the contents would have to be compared with each other, which has an end.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Shifted(u32);
    impl Serialize for Shifted {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            format!("key {}", self.0).serialize(serializer)
        }
    }
    impl<'de> Deserialize<'de> for Shifted {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            text.trim_start_matches("key ").parse().map(Self).map_err(serde::de::Error::custom)
        }
    }
    let found: BTreeMap<String, Wide<u32>> = changed(&stored, |_: &mut BTreeMap<Shifted, Narrow<u32>>| {});
    assert!(found.values().all(|value| value.secret.is_empty()));
}
