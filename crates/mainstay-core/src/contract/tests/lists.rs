//! Which element of a list is which.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::unknown::change;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Narrow {
    id: u32,
    // Filled in where a later version no longer writes it.
    #[serde(default)]
    count: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Wide {
    #[serde(default)]
    secret: Option<String>,
    id: u32,
}

fn wide(id: u32, secret: &str) -> Wide {
    Wide { id, secret: Some(secret.into()) }
}

/// The secrets after `edit`, with the ids of their elements.
fn edited(stored: &[Wide], edit: impl FnOnce(&mut Vec<Narrow>)) -> Vec<(u32, Option<String>)> {
    let found: Vec<Wide> = change(&stored, edit);
    found.into_iter().map(|element| (element.id, element.secret)).collect()
}

fn some(id: u32, secret: &str) -> (u32, Option<String>) {
    (id, Some(secret.into()))
}

fn narrow(id: u32) -> Narrow {
    Narrow { id, count: 0 }
}

fn remove_first(list: &mut Vec<Narrow>) {
    list.remove(0);
}

fn abc() -> Vec<Wide> {
    vec![wide(1, "a"), wide(2, "b"), wide(3, "c")]
}

#[test]
fn removal_from_the_front_keeps_the_right_fields_with_the_right_elements() {
    assert_eq!(edited(&abc(), remove_first), [some(2, "b"), some(3, "c")]);
    assert_eq!(edited(&abc(), |list| drop(list.drain(..2))), [some(3, "c")]);
}

#[test]
fn insertion_anywhere_gives_the_new_element_nothing() {
    assert_eq!(edited(&abc(), |list| list.insert(0, narrow(9))), [(9, None), some(1, "a"), some(2, "b"), some(3, "c")]);
    assert_eq!(edited(&abc(), |list| list.insert(2, narrow(9))), [some(1, "a"), some(2, "b"), (9, None), some(3, "c")]);
}

#[test]
fn an_element_that_is_edited_in_place_keeps_its_fields() {
    assert_eq!(edited(&abc(), |list| list[1].id = 20), [some(1, "a"), some(20, "b"), some(3, "c")]);
    let all = |list: &mut Vec<Narrow>| list.iter_mut().for_each(|element| element.id += 10);
    assert_eq!(edited(&abc(), all), [some(11, "a"), some(12, "b"), some(13, "c")]);
}

#[test]
fn an_edit_beside_a_removal_is_matched_only_between_the_same_neighbours() {
    // The second is edited and the last removed: it could as well be the last, edited, so it is a new one.
    let ambiguous = |list: &mut Vec<Narrow>| {
        list[1].id = 20;
        list.remove(2);
    };
    assert_eq!(edited(&abc(), ambiguous), [some(1, "a"), (20, None)]);
    let mut four = abc();
    four.push(wide(4, "d"));
    let clear = |list: &mut Vec<Narrow>| {
        list[1].id = 20;
        list.remove(3);
    };
    assert_eq!(edited(&four, clear), [some(1, "a"), some(20, "b"), some(3, "c")]);
}

#[test]
fn reordered_elements_take_their_fields_along() {
    assert_eq!(edited(&abc(), |list| list.reverse()), [some(3, "c"), some(2, "b"), some(1, "a")]);
    assert_eq!(edited(&abc(), |list| list.rotate_left(1)), [some(2, "b"), some(3, "c"), some(1, "a")]);
    // Reordered and edited: places say nothing any more.
    let both = |list: &mut Vec<Narrow>| {
        list.reverse();
        list[1].id = 20;
    };
    assert_eq!(edited(&abc(), both), [some(3, "c"), (20, None), some(1, "a")]);
}

#[test]
fn twins_keep_their_order_or_lose_what_differs() {
    let twins = [wide(1, "a"), wide(5, "x"), wide(1, "b")];
    assert_eq!(edited(&twins, |list| list[1].id = 6), [some(1, "a"), some(6, "x"), some(1, "b")]);
    // One of them is gone, and its neighbour tells which.
    assert_eq!(edited(&twins, remove_first), [some(5, "x"), some(1, "b")]);
    // One of them is gone, and nobody can tell which.
    let twins = [wide(1, "a"), wide(1, "b"), wide(5, "x")];
    assert_eq!(edited(&twins, remove_first), [(1, None), some(5, "x")]);
    let alike = [wide(1, "a"), wide(1, "a"), wide(5, "x")];
    assert_eq!(edited(&alike, remove_first), [some(1, "a"), some(5, "x")]);
}

#[test]
fn a_list_that_moves_on_gives_nothing_to_the_newcomer() {
    let moved = |list: &mut Vec<Narrow>| {
        list.remove(0);
        list.push(narrow(4));
    };
    assert_eq!(edited(&abc(), moved), [some(2, "b"), some(3, "c"), (4, None)]);
    assert_eq!(edited(&abc(), |list| *list = vec![narrow(7), narrow(8)]), [(7, None), (8, None)]);
}

#[test]
fn lists_inside_lists_are_followed() {
    let stored = vec![abc(), vec![wide(9, "z")]];
    let found: Vec<Vec<Wide>> = change(&stored, |lists: &mut Vec<Vec<Narrow>>| {
        lists[0].remove(0);
        lists[1][0].id = 90;
    });
    assert_eq!(found, [vec![wide(2, "b"), wide(3, "c")], vec![wide(90, "z")]]);
}

#[test]
fn sets_match_whatever_order_they_are_written_in() {
    use std::collections::HashSet;
    #[derive(Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    struct Member {
        id: u32,
    }
    let stored: Vec<_> = (0..50).map(|id| wide(id, &id.to_string())).collect();
    // `change` compares with a fresh look, whose order differs; so this is done by hand.
    let bytes = crate::contract::encode(&stored).unwrap();
    let (mut set, unknown) = crate::contract::decode_keeping::<HashSet<Member>>(&bytes).unwrap();
    set.remove(&Member { id: 7 });
    let (bytes, _) = crate::contract::encode_keeping(&set, &unknown).unwrap();
    let found: Vec<Wide> = crate::contract::decode(&bytes).unwrap();
    assert_eq!(found.len(), 49);
    for element in found {
        assert_eq!(element.secret, Some(element.id.to_string()));
    }
}

#[test]
fn places_of_a_tuple_struct_are_matched_by_place() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct NarrowPair(Narrow, Narrow);
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct WidePair(Wide, Wide);
    let found: WidePair = change(&WidePair(wide(1, "a"), wide(2, "b")), |pair: &mut NarrowPair| {
        std::mem::swap(&mut pair.0.id, &mut pair.1.id);
    });
    assert_eq!(found, WidePair(wide(2, "a"), wide(1, "b")));
}

#[test]
fn an_element_that_changes_its_kind_loses_its_fields() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Old {
        A(Narrow),
        B(Narrow),
    }
    let stored = [BTreeMap::from([("A", wide(1, "a"))]), BTreeMap::from([("B", wide(2, "b"))])];
    let found: Vec<BTreeMap<String, Wide>> = change(&stored, |list: &mut Vec<Old>| list[0] = Old::B(narrow(1)));
    assert_eq!(found[0]["B"], Wide { id: 1, secret: None });
    assert_eq!(found[1]["B"], wide(2, "b"));
}
