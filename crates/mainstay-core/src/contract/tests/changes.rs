//! An old version of a type makes any changes, one after the other, and the new version finds its own fields where they
//! belong: the same changes are made to a value of the new type, and both must be equal.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::fuzz::runner;
use crate::contract::{Unknown, decode, decode_keeping, encode, encode_keeping};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum State {
    Open,
    Closed,
}

/// One change, at a place that is taken modulo the number of places.
#[derive(Debug, Clone, Copy)]
enum Change {
    State(State),
    Sign(u8),
    Weight(usize, u8),
    Length(usize, u8),
    OtherForm(usize),
    ItemState(usize, State),
    Remove(usize),
    Insert(usize),
    Reverse,
    Rotate,
    RemovePart(usize),
    AddPart(usize),
    RemoveRoom(usize),
    AddRoom(u8),
    RoomWeight(usize, u8),
    RemoveMember(usize),
    AddMember,
}

/// A version of the types. The newer one has a secret everywhere.
macro_rules! version {
    ($module:ident, $weight:ty, $($secret:ident)?) => {
        mod $module {
            use super::*;

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            pub(super) struct Shop {
                $(pub(super) $secret: Option<u64>,)?
                pub(super) state: State,
                pub(super) items: Vec<Item>,
                pub(super) rooms: BTreeMap<String, Item>,
                pub(super) members: BTreeSet<Member>,
                #[serde(flatten)]
                pub(super) sign: Sign,
            }

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            pub(super) struct Sign {
                pub(super) text: String,
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub(super) height: Option<u8>,
            }

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            pub(super) struct Item {
                $(pub(super) $secret: Option<u64>,)?
                pub(super) id: u128,
                pub(super) weight: $weight,
                pub(super) state: State,
                pub(super) form: Form,
                pub(super) parts: Vec<Member>,
            }

            #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
            pub(super) struct Member {
                pub(super) id: u128,
                $(pub(super) $secret: Option<u64>,)?
            }

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            #[serde(tag = "kind")]
            pub(super) enum Form {
                Circle { radius: u32, $($secret: Option<u64>,)? },
                Square { side: u32, $($secret: Option<u64>,)? },
            }

            impl Shop {
                /// Makes a change; `id` is one that nothing has.
                pub(super) fn change(&mut self, change: Change, id: u128) {
                    let circle = |radius| Form::Circle { radius, $($secret: None,)? };
                    let square = |side| Form::Square { side, $($secret: None,)? };
                    let item = Item {
                        $($secret: None,)?
                        id,
                        weight: 0.0,
                        state: State::Open,
                        form: circle(1),
                        parts: Vec::new(),
                    };
                    let member = Member { id, $($secret: None,)? };
                    let (items, rooms) = (self.items.len(), self.rooms.len());
                    match change {
                        Change::State(state) => self.state = state,
                        Change::Sign(text) => {
                            let height = (text % 2 == 0).then_some(text);
                            self.sign = Sign { text: text.to_string(), height };
                        }
                        Change::Insert(place) => self.items.insert(place % (items + 1), item),
                        Change::AddRoom(name) => {
                            self.rooms.entry(format!("new {name}")).or_insert(item);
                        }
                        Change::RemoveRoom(place) if rooms > 0 => {
                            let name = self.rooms.keys().nth(place % rooms).cloned();
                            name.map(|name| self.rooms.remove(&name));
                        }
                        Change::RoomWeight(place, weight) if rooms > 0 => {
                            self.rooms.values_mut().nth(place % rooms).unwrap().weight = weight.into();
                        }
                        Change::RemoveMember(place) if !self.members.is_empty() => {
                            let member = self.members.iter().nth(place % self.members.len()).cloned();
                            member.map(|member| self.members.remove(&member));
                        }
                        Change::AddMember => drop(self.members.insert(member)),
                        _ if items == 0 => {}
                        Change::Weight(place, weight) => self.items[place % items].weight = weight.into(),
                        Change::ItemState(place, state) => self.items[place % items].state = state,
                        Change::Length(place, new) => match &mut self.items[place % items].form {
                            Form::Circle { radius: length, .. } | Form::Square { side: length, .. } => {
                                *length = new.into();
                            }
                        },
                        Change::OtherForm(place) => {
                            let form = &mut self.items[place % items].form;
                            *form = match form {
                                Form::Circle { .. } => square(3),
                                Form::Square { .. } => circle(3),
                            };
                        }
                        Change::Remove(place) => drop(self.items.remove(place % items)),
                        Change::Reverse => self.items.reverse(),
                        Change::Rotate => self.items.rotate_left(1),
                        Change::AddPart(place) => self.items[place % items].parts.insert(0, member),
                        Change::RemovePart(place) => {
                            let parts = &mut self.items[place % items].parts;
                            parts.drain(..parts.len().min(1));
                        }
                        _ => {}
                    }
                }
            }
        }
    };
}

// The older one also writes numbers wider than it reads them.
version!(old, f64,);
version!(new, f32, secret);

fn state() -> impl Strategy<Value = State> {
    prop_oneof![Just(State::Open), Just(State::Closed)]
}

fn changes() -> impl Strategy<Value = Vec<(Change, bool)>> {
    let change = prop_oneof![
        state().prop_map(Change::State),
        any::<u8>().prop_map(Change::Sign),
        any::<(usize, u8)>().prop_map(|(place, weight)| Change::Weight(place, weight)),
        any::<(usize, u8)>().prop_map(|(place, length)| Change::Length(place, length)),
        any::<usize>().prop_map(Change::OtherForm),
        (any::<usize>(), state()).prop_map(|(place, state)| Change::ItemState(place, state)),
        any::<usize>().prop_map(Change::Remove),
        any::<usize>().prop_map(Change::Insert),
        Just(Change::Reverse),
        Just(Change::Rotate),
        any::<usize>().prop_map(Change::RemovePart),
        any::<usize>().prop_map(Change::AddPart),
        any::<usize>().prop_map(Change::RemoveRoom),
        (0..3u8).prop_map(Change::AddRoom),
        any::<(usize, u8)>().prop_map(|(place, weight)| Change::RoomWeight(place, weight)),
        any::<usize>().prop_map(Change::RemoveMember),
        Just(Change::AddMember),
    ];
    vec((change, any::<bool>()), 1..6)
}

/// Ids are given later, so that each is there once.
fn shop() -> impl Strategy<Value = new::Shop> {
    let secret = || any::<Option<u64>>();
    let member = move || (any::<u64>(), secret()).prop_map(|(id, secret)| new::Member { id: id.into(), secret });
    let form = prop_oneof![
        (any::<u32>(), secret()).prop_map(|(radius, secret)| new::Form::Circle { radius, secret }),
        (any::<u32>(), secret()).prop_map(|(side, secret)| new::Form::Square { side, secret }),
    ];
    let item = (secret(), -9f32..9.0, state(), form, vec(member(), 0..3))
        .prop_map(|(secret, weight, state, form, parts)| new::Item { secret, id: 0, weight, state, form, parts })
        .boxed();
    let sign = ("[a-z]{0,3}", any::<Option<u8>>()).prop_map(|(text, height)| new::Sign { text, height });
    let parts = (secret(), state(), vec(item.clone(), 0..5), btree_map("[a-z]{1,2}", item, 0..3));
    (parts, btree_set(member(), 0..4), sign).prop_map(|((secret, state, mut items, rooms), members, sign)| {
        items.iter_mut().zip(0..).for_each(|(item, id)| item.id = id);
        new::Shop { secret, state, items, rooms, members, sign }
    })
}

#[test]
fn fuzz_changes_by_an_older_version() {
    let check = |mut shop: new::Shop, changes: Vec<(Change, bool)>| {
        let mut bytes = encode(&shop).unwrap();
        let mut held: Option<(old::Shop, Unknown)> = None;
        for ((change, reads_again), id) in changes.into_iter().zip(1 << 70u128..) {
            let (mut value, unknown) = match held.take() {
                Some(held) if !reads_again => held,
                _ => decode_keeping::<old::Shop>(&bytes).unwrap(),
            };
            value.change(change, id);
            shop.change(change, id);
            let (written, unknown) = encode_keeping(&value, &unknown).unwrap();
            bytes = written;
            held = Some((value, unknown));
            prop_assert_eq!(&decode::<new::Shop>(&bytes).unwrap(), &shop, "after {:?}", change);
        }
        Ok(())
    };
    runner().run(&(shop(), changes()), |(shop, changes)| check(shop, changes)).unwrap();
}
