#![allow(dead_code, reason = "types are described here, and never built")]

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::num::{NonZeroU8, NonZeroU64};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use proptest::prelude::*;
use serde::de::IgnoredAny;
use uuid::Uuid;

use super::*;
use crate::contract;

fn name<T: DeserializeOwned>() -> String {
    describe::<T>().unwrap().to_string()
}

/// Version 1 of a type, and what it is made of.
mod v1 {
    use super::*;

    #[derive(Debug, Deserialize)]
    pub(super) struct User {
        name: String,
        age: u8,
    }

    #[derive(Debug, Deserialize)]
    pub(super) enum Shape {
        Circle(f64),
        Square { side: u32 },
    }
}

/// Version 2 under another name in Rust.
mod v2 {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename = "User")]
    pub(super) struct UserWithTags {
        #[serde(alias = "name")]
        full_name: String,
        #[serde(default)]
        tags: Vec<String>,
        friend: Option<Box<UserWithTags>>,
    }
}

use v1::{Shape, User};

#[derive(Debug, Deserialize)]
struct UserId(u64);

#[derive(Debug, Deserialize)]
struct Pair(UserId, NonZeroU8);

#[derive(Debug, Deserialize)]
struct Marker;

#[derive(Debug, Deserialize)]
struct Page<T> {
    items: Vec<T>,
}

#[test]
fn scalars_have_the_names_of_rust() {
    let names = [
        name::<bool>(),
        name::<i8>(),
        name::<i16>(),
        name::<i32>(),
        name::<i64>(),
        name::<i128>(),
        name::<u8>(),
        name::<u16>(),
        name::<u32>(),
        name::<u64>(),
        name::<u128>(),
        name::<f32>(),
        name::<f64>(),
        name::<char>(),
    ];
    let expected = ["bool", "i8", "i16", "i32", "i64", "i128", "u8", "u16", "u32", "u64", "u128", "f32", "f64", "char"];
    assert_eq!(names, expected);
    assert_eq!([name::<usize>(), name::<isize>()], ["u64", "i64"], "the same on every platform");
    assert_eq!([name::<String>(), name::<Box<str>>(), name::<Cow<'_, str>>()], ["string"; 3]);
    assert_eq!([name::<Bytes>(), name::<Uuid>()], ["bytes"; 2], "as the codec writes them");
    assert_eq!([name::<()>(), name::<NonZeroU64>()], ["unit", "u64"]);
    assert_eq!([name::<IgnoredAny>()], ["any"]);
}

#[test]
fn what_has_a_name_goes_by_it_in_all_versions_and_modules() {
    assert_eq!([name::<User>(), name::<v2::UserWithTags>()], ["User"; 2]);
    assert_eq!(
        [name::<UserId>(), name::<Pair>(), name::<Marker>(), name::<Shape>()],
        ["UserId", "Pair", "Marker", "Shape"]
    );
    assert_eq!([name::<Page<u8>>(), name::<Page<User>>()], ["Page"; 2]);
    assert_eq!([name::<Box<PageOfUsers>>(), name::<PhantomData<User>>()], ["PageOfUsers", "PhantomData"]);
    assert_eq!([name::<Duration>(), name::<SystemTime>(), name::<IpAddr>()], ["Duration", "SystemTime", "IpAddr"]);

    #[derive(Deserialize)]
    struct PageOfUsers(Page<User>);
}

#[test]
fn what_has_none_goes_by_its_parts() {
    assert_eq!(name::<Option<Option<User>>>(), "option of option of User");
    assert_eq!([name::<Vec<u8>>(), name::<HashSet<u8>>(), name::<BTreeSet<u8>>()], ["list of u8"; 3]);
    assert_eq!(name::<BTreeMap<(String, u32), Vec<User>>>(), "map of (string, u32) to list of User");
    assert_eq!(name::<HashMap<Uuid, HashMap<Shape2, ()>>>(), "map of bytes to map of Shape2 to unit");
    assert_eq!(name::<(User,)>(), "(User)");
    assert_eq!(
        name::<((i8, Vec<Shape>), [u16; 3], Option<()>)>(),
        "((i8, list of Shape), (u16, u16, u16), option of unit)"
    );
    assert_eq!(
        [name::<[User; 16]>(), name::<[User; 17]>()],
        [format!("({})", ["User"; 16].join(", ")), "array of 17 User".to_owned()]
    );
    assert_eq!(name::<([u64; 32], bool)>(), "(array of 32 u64, bool)");
    assert_eq!(name::<[u8; 0]>(), "()");

    #[derive(PartialEq, Eq, Hash, Deserialize)]
    enum Shape2 {}
}

#[test]
fn every_place_of_a_tuple_is_seen_behind_types_that_check_what_they_read() {
    assert_eq!(name::<(Uuid, u32)>(), "(bytes, u32)");
    assert_eq!(name::<(NonZeroU8, User, v2::UserWithTags, bool)>(), "(u8, User, User, bool)");
    assert_eq!(
        name::<(Shape, IpAddr, Duration, Page<Pair>, Marker, char)>(),
        "(Shape, IpAddr, Duration, Page, Marker, char)"
    );
    assert_eq!(
        name::<(Option<Pair>, Vec<UserId>, BTreeMap<Uuid, Pair>, i8)>(),
        "(option of Pair, list of UserId, map of bytes to Pair, i8)"
    );
    assert_eq!(name::<(IgnoredAny, serde_bytes_like::Digest, u8)>(), "(any, bytes, u8)");
    assert_eq!(name::<(Tree, Tree, u8)>(), "(Tree, Tree, u8)");
    assert_eq!(name::<(Endless, u8)>(), "(Endless, u8)");
    assert_eq!(name::<(Checked, OnlyByName, u8)>(), "(string, OnlyByName, u8)");
    assert_eq!(name::<(Tagged, Adjacent, u8)>(), "(any, Adjacent, u8)");

    mod serde_bytes_like {
        pub(super) struct Digest([u8; 20]);
        impl<'de> serde::Deserialize<'de> for Digest {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let bytes = bytes::Bytes::deserialize(deserializer)?;
                bytes[..].try_into().map(Digest).map_err(serde::de::Error::custom)
            }
        }
    }

    /// The first variant has no smallest value.
    #[derive(Deserialize)]
    enum Tree {
        Fork(Box<Tree>, Box<Tree>),
        Named { left: Box<Tree>, right: Box<Tree> },
        Leaf(NonZeroU8),
    }

    #[derive(Deserialize)]
    struct Endless(Option<Box<Endless>>);

    #[derive(Deserialize)]
    #[serde(try_from = "String")]
    struct Checked(String);
    impl TryFrom<String> for Checked {
        type Error = &'static str;
        fn try_from(text: String) -> Result<Self, Self::Error> {
            if text.contains('@') { Ok(Self(text)) } else { Err("no address") }
        }
    }

    /// Reads a map and nothing else.
    struct OnlyByName(u8);
    impl<'de> Deserialize<'de> for OnlyByName {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct ByName;
            impl<'de> serde::de::Visitor<'de> for ByName {
                type Value = OnlyByName;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a map")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<OnlyByName, A::Error> {
                    assert_eq!(map.next_key::<String>()?.as_deref(), Some("only"));
                    Ok(OnlyByName(map.next_value()?))
                }
            }
            deserializer.deserialize_struct("OnlyByName", &["only"], ByName)
        }
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Tagged {
        Text(String),
        Number(u8),
    }

    #[derive(Deserialize)]
    #[serde(tag = "kind", content = "content")]
    enum Adjacent {
        Text(String),
    }
}

#[test]
fn what_serde_hides_is_said_so_and_a_newtype_brings_the_name_back() {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Through {
        inside: Vec<User>,
    }
    #[derive(Deserialize)]
    #[serde(from = "(u8, String)")]
    struct Converted(u8);
    impl From<(u8, String)> for Converted {
        fn from(from: (u8, String)) -> Self {
            Self(from.0)
        }
    }
    #[derive(Deserialize)]
    struct Flat {
        id: u8,
        #[serde(flatten)]
        rest: BTreeMap<String, u8>,
    }
    #[derive(Deserialize)]
    struct FlatWithDefaults {
        #[serde(default)]
        id: u8,
        #[serde(flatten)]
        rest: BTreeMap<String, u8>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        A(u8),
        B(String),
    }
    #[derive(Deserialize)]
    #[serde(tag = "kind")]
    enum Internal {
        A { a: u8 },
    }
    #[derive(Deserialize)]
    #[serde(rename = "User")]
    struct Back<T>(T);

    assert_eq!(name::<Through>(), "list of User");
    assert_eq!(name::<Converted>(), "(u8, string)");
    assert_eq!(name::<Flat>(), "struct");
    assert_eq!(name::<(u8, Vec<Flat>)>(), "(u8, list of struct)");
    assert_eq!(name::<BTreeMap<u8, Flat>>(), "map of u8 to struct");
    assert_eq!(name::<(FlatWithDefaults, BTreeMap<u8, u8>)>(), "(struct, map of u8 to u8)");
    assert_eq!([name::<Untagged>(), name::<Internal>()], ["any"; 2]);
    assert_eq!([name::<Back<Flat>>(), name::<Back<Untagged>>(), name::<Back<(Flat, u8)>>()], ["User"; 3]);
}

#[test]
fn names_that_look_like_the_grammar_are_quoted() {
    #[derive(Deserialize)]
    #[serde(rename = "list of u8")]
    struct Sly;
    #[derive(Deserialize)]
    #[serde(rename = "u8")]
    enum Small {}
    assert_eq!(name::<(Sly, Vec<Small>)>(), r#"("list of u8", list of "u8")"#);
}

fn error<T: DeserializeOwned>(kind: ErrorKind, part: &str) {
    let error = describe::<T>().unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(part), "{error}");
    assert!(error.to_string().ends_with("wrap it in a struct, whose name is used instead"), "{error}");
}

#[test]
fn a_place_behind_what_accepts_no_sample_is_an_error_and_every_search_ends() {
    #[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    #[serde(try_from = "(bool, [u8; 8], Vec<String>)")]
    struct Never(());
    impl TryFrom<(bool, [u8; 8], Vec<String>)> for Never {
        type Error = &'static str;
        fn try_from(_: (bool, [u8; 8], Vec<String>)) -> Result<Self, Self::Error> {
            Err("never")
        }
    }
    #[derive(Deserialize)]
    enum Empty {}
    #[derive(Deserialize)]
    struct Bottomless(Box<Bottomless>);
    #[derive(Deserialize)]
    struct Wide(Box<(Wide, Wide, Wide, Wide)>);

    let whole = "(bool, (u8, u8, u8, u8, u8, u8, u8, u8), list of string)";
    assert_eq!(name::<Never>(), whole);
    assert_eq!(name::<(u8, Never)>(), format!("(u8, {whole})"), "nothing stands behind it");
    assert_eq!(name::<BTreeMap<Never, u8>>(), format!("map of {whole} to u8"), "a key needs no sample");
    let both = name::<(BTreeMap<Never, u8>, Vec<Never>, u8)>();
    assert_eq!(both, format!("(map of {whole} to u8, list of {whole}, u8)"), "lists and maps may be empty");
    assert_eq!(name::<Wide>(), "Wide");
    error::<(Never, u8)>(ErrorKind::Invalid, "accepts no sample value");
    error::<(Option<Never>, u8)>(ErrorKind::Invalid, "accepts no sample value");
    error::<(Empty, u8)>(ErrorKind::Invalid, "accepts no sample value");
    error::<(Bottomless, u8)>(ErrorKind::Invalid, "accepts no sample value");
    error::<(Wide, u8)>(ErrorKind::Invalid, "accepts no sample value");
    error::<([u8; 32], Vec<(Never, u8)>)>(ErrorKind::Invalid, "describe::tests");
}

#[test]
fn names_are_bounded_and_never_empty() {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Nest(Vec<Nest>);
    error::<Nest>(ErrorKind::TooLarge, "TYPE_NAME_DEPTH_MAX of 16");
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Pairs(Vec<(u8, Pairs)>);
    error::<Pairs>(ErrorKind::TooLarge, "TYPE_NAME_DEPTH_MAX of 16");

    type Four<T> = (T, T, T, T);
    assert_eq!(name::<Four<Four<Four<u8>>>>().len(), 296);
    error::<Four<Four<Four<Four<u8>>>>>(ErrorKind::TooLarge, "TYPE_NAME_BYTES_MAX of 1024");

    struct Silent;
    impl<'de> Deserialize<'de> for Silent {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            Ok(Silent)
        }
    }
    error::<Silent>(ErrorKind::Invalid, "reads nothing");
    error::<(u8, Option<Silent>)>(ErrorKind::Invalid, "reads nothing");
    error::<Vec<Silent>>(ErrorKind::Invalid, "reads nothing");
    error::<BTreeMap<u8, Silent>>(ErrorKind::Invalid, "reads nothing");
    error::<(Silent, u8)>(ErrorKind::Invalid, "reads nothing");
}

#[test]
fn a_name_is_stored_as_a_string() {
    let described = describe::<(String, User)>().unwrap();
    let bytes = contract::encode(&described).unwrap();
    assert_eq!(contract::decode::<String>(&bytes).unwrap(), "(string, User)");
    assert_eq!(contract::decode::<TypeName>(&bytes).unwrap(), described);
    assert_ne!(described, describe::<(String, UserId)>().unwrap());
}

/// A type made at random, by what it would ask for.
#[derive(Debug, Clone)]
enum Made {
    Leaf(usize),
    Option(Box<Made>),
    List(Box<Made>),
    Map(Box<Made>, Box<Made>),
    Tuple(Vec<Made>),
}

thread_local! {
    /// Which type [`Dynamic`] is: `Deserialize` has no argument that could tell.
    static CURRENT: std::cell::RefCell<Made> = const { std::cell::RefCell::new(Made::Leaf(0)) };
}

struct Dynamic;

impl<'de> Deserialize<'de> for Dynamic {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let made = CURRENT.with_borrow(Made::clone);
        serde::de::DeserializeSeed::deserialize(&made, deserializer).map(|()| Dynamic)
    }
}

impl<'de> serde::de::DeserializeSeed<'de> for &Made {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self {
            Made::Leaf(0) => NonZeroU8::deserialize(deserializer).map(|_| ()),
            Made::Leaf(1) => Uuid::deserialize(deserializer).map(|_| ()),
            Made::Leaf(2) => String::deserialize(deserializer).map(|_| ()),
            Made::Leaf(3) => Shape::deserialize(deserializer).map(|_| ()),
            Made::Leaf(_) => v2::UserWithTags::deserialize(deserializer).map(|_| ()),
            Made::Option(_) => deserializer.deserialize_option(self),
            Made::List(_) => deserializer.deserialize_seq(self),
            Made::Map(..) => deserializer.deserialize_map(self),
            Made::Tuple(parts) => deserializer.deserialize_tuple(parts.len(), self),
        }
    }
}

impl<'de> serde::de::Visitor<'de> for &Made {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Made::Option(inside) = self else { panic!("asked for no option") };
        serde::de::DeserializeSeed::deserialize(&**inside, deserializer)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        match self {
            Made::List(inside) => {
                while seq.next_element_seed(&**inside)?.is_some() {}
                Ok(())
            }
            Made::Tuple(parts) => parts.iter().try_for_each(|part| seq.next_element_seed(part).map(|_| ())),
            _ => panic!("asked for no list"),
        }
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Made::Map(key, value) = self else { panic!("asked for no map") };
        while map.next_key_seed(&**key)?.is_some() {
            map.next_value_seed(&**value)?;
        }
        Ok(())
    }
}

impl Made {
    fn name(&self) -> String {
        match self {
            Made::Leaf(leaf) => ["u8", "bytes", "string", "Shape", "User"][*leaf].to_owned(),
            Made::Option(inside) => format!("option of {}", inside.name()),
            Made::List(inside) => format!("list of {}", inside.name()),
            Made::Map(key, value) => format!("map of {} to {}", key.name(), value.name()),
            Made::Tuple(parts) => format!("({})", parts.iter().map(Made::name).collect::<Vec<_>>().join(", ")),
        }
    }
}

fn made() -> impl Strategy<Value = Made> {
    (0..5usize).prop_map(Made::Leaf).prop_recursive(4, 24, 4, |inside| {
        prop_oneof![
            inside.clone().prop_map(|inside| Made::Option(Box::new(inside))),
            inside.clone().prop_map(|inside| Made::List(Box::new(inside))),
            (inside.clone(), inside.clone()).prop_map(|(key, value)| Made::Map(Box::new(key), Box::new(value))),
            proptest::collection::vec(inside, 0..5).prop_map(Made::Tuple),
        ]
    })
}

proptest! {
    #[test]
    fn a_type_made_of_any_parts_is_named_by_all_of_them(made in made()) {
        let expected = made.name();
        CURRENT.set(made);
        prop_assert_eq!(name::<Dynamic>(), expected);
    }
}
