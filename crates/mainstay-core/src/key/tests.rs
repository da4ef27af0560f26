use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::*;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Kind {
    Unit,
    Newtype(i64),
    Tuple(String, Option<u8>),
    Struct { a: Bytes, b: Id },
    Last,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Id(u128);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Unit;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Compound {
    kind: Kind,
    nested: ((bool, Unit), [i8; 2], ()),
    list: Vec<Option<String>>,
    id: Uuid,
}

/// Text in which zero bytes, their escapes and common beginnings are likely.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a\0\u{1}\u{ff}]{0,4}", ".{0,6}"]
}

fn octets() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(prop_oneof![Just(0u8), Just(1), Just(254), Just(255)], 0..5), vec(any::<u8>(), 0..6)]
}

fn near<T: Arbitrary + Clone + 'static>(edges: Vec<T>) -> impl Strategy<Value = T> {
    prop_oneof![prop::sample::select(edges), any::<T>()]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Unit),
        near(vec![-257, -256, -255, -1, 0, 1, 255, 256]).prop_map(Kind::Newtype),
        (text(), any::<Option<u8>>()).prop_map(|(a, b)| Kind::Tuple(a, b)),
        (octets(), any::<u128>()).prop_map(|(a, b)| Kind::Struct { a: a.into(), b: Id(b) }),
        Just(Kind::Last),
    ]
}

fn compound() -> impl Strategy<Value = Compound> {
    (kind(), any::<(bool, [i8; 2])>(), vec(prop::option::of(text()), 0..3), any::<u128>()).prop_map(
        |(kind, (flag, pair), list, id)| Compound {
            kind,
            nested: ((flag, Unit), pair, ()),
            list,
            id: Uuid::from_u128(id),
        },
    )
}

/// The order of the bytes is that of the values, and each comes back.
fn check<K: Serialize + DeserializeOwned + Ord + Debug>(a: &K, b: &K) -> Result<(), TestCaseError> {
    let (a_bytes, b_bytes) = (encode(a).unwrap(), encode(b).unwrap());
    prop_assert_eq!(a.cmp(b), a_bytes.cmp(&b_bytes), "{:?} {:?}: {:x?} {:x?}", a, b, a_bytes, b_bytes);
    prop_assert_eq!(&decode::<K>(&a_bytes).unwrap(), a);
    if a != b {
        prop_assert!(!a_bytes.starts_with(&b_bytes) || b_bytes.is_empty(), "{:?} starts with {:?}", a, b);
    }
    Ok(())
}

macro_rules! keeps_order {
    ($($name:ident: $strategy:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(400))]
            $(
                #[test]
                fn $name(a in $strategy, b in $strategy) {
                    check(&a, &b)?;
                }
            )*
        }
    };
}

keeps_order!(
    booleans: any::<bool>();
    bytes_of_eight_bits: any::<u8>();
    small_signed: any::<i8>();
    unsigned_16: near::<u16>(vec![0, 255, 256, u16::MAX]);
    signed_16: near::<i16>(vec![i16::MIN, -257, -256, -255, -1, 0, i16::MAX]);
    unsigned_32: near::<u32>(vec![0, 255, 256, 65_535, 65_536, u32::MAX]);
    signed_32: near::<i32>(vec![i32::MIN, -65_537, -65_536, -65_535, -1, 0, i32::MAX]);
    unsigned_64: near::<u64>(vec![0, 1 << 56, (1 << 56) - 1, u64::MAX]);
    signed_64: near::<i64>(vec![i64::MIN, i64::MIN + 1, -(1 << 56), -1, 0, 1, i64::MAX]);
    unsigned_128: near::<u128>(vec![0, u128::from(u64::MAX), u128::from(u64::MAX) + 1, u128::MAX]);
    signed_128: near::<i128>(vec![i128::MIN, i128::MIN + 1, -(1 << 120), -1, 0, 1, i128::MAX]);
    letters: near::<char>(vec!['\0', 'a', '\u{d7ff}', '\u{e000}', char::MAX]);
    texts: text();
    octet_strings: octets().prop_map(Bytes::from);
    octet_lists: octets();
    uuids: any::<u128>().prop_map(Uuid::from_u128);
    options: prop::option::of(prop::option::of(text()));
    pairs_of_texts: (text(), text());
    text_then_number: (text(), near::<i64>(vec![-1, 0, 1]), octets().prop_map(Bytes::from));
    lists_of_texts: vec(text(), 0..4);
    lists_of_lists: (vec(vec(any::<i8>(), 0..3), 0..3), any::<bool>());
    sets: proptest::collection::btree_set(text(), 0..4);
    enums: kind();
    compounds: compound();
    arrays: any::<[u16; 3]>();
);

proptest! {
    #[test]
    fn integers_of_all_widths_share_one_order(a: u8, b: i64) {
        let order = encode(&a).unwrap().cmp(&encode(&b).unwrap());
        prop_assert_eq!(order, i128::from(a).cmp(&i128::from(b)));
        prop_assert_eq!(decode::<u128>(&encode(&a).unwrap()).unwrap(), u128::from(a));
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_have_one_reading(bytes in vec(prop_oneof![0u8..10, 0x70u8..0x91, any::<u8>()], 0..40)) {
        fn one_reading<K: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<(), TestCaseError> {
            if let Ok(key) = decode::<K>(bytes) {
                prop_assert_eq!(encode(&key).unwrap(), bytes);
            }
            Ok(())
        }
        one_reading::<Compound>(&bytes)?;
        one_reading::<Kind>(&bytes)?;
        one_reading::<Vec<i128>>(&bytes)?;
        one_reading::<(String, Option<Bytes>)>(&bytes)?;
        one_reading::<Option<Option<char>>>(&bytes)?;
        one_reading::<u128>(&bytes)?;
    }

    #[test]
    fn changed_bytes_never_panic_and_have_one_reading(key in compound(), index: prop::sample::Index, byte: u8) {
        let mut bytes = encode(&key).unwrap();
        let index = index.index(bytes.len());
        bytes[index] = byte;
        if let Ok(key) = decode::<Compound>(&bytes) {
            prop_assert_eq!(encode(&key).unwrap(), bytes);
        }
    }

    #[test]
    fn a_prefix_range_holds_exactly_the_keys_that_start_so(
        a in (text(), near::<i64>(vec![-1, 0, 1])), b in (text(), near::<i64>(vec![-1, 0, 1]), kind()),
    ) {
        let key = encode(&b).unwrap();
        prop_assert_eq!(prefix(&(&a.0,)).unwrap().contains(&key), a.0 == b.0);
        prop_assert_eq!(prefix(&a).unwrap().contains(&key), (&a.0, a.1) == (&b.0, b.1));
        prop_assert!(prefix(&(&b.0, b.1)).unwrap().contains(&key));
        prop_assert!(prefix(&()).unwrap().contains(&key));
    }

    #[test]
    fn a_text_range_holds_exactly_the_keys_whose_text_starts_so(start in text(), a in text(), b in text(), number: i8) {
        let range = text_prefix(&(number,), &start).unwrap();
        prop_assert_eq!(range.contains(&encode(&(number, &a, &b)).unwrap()), a.starts_with(&start));
        let whole = format!("{start}{a}");
        prop_assert!(range.contains(&encode(&(number, &whole)).unwrap()));
        prop_assert!(!range.contains(&encode(&(number.wrapping_add(1), &whole)).unwrap()));
        prop_assert!(text_prefix(&(), &start).unwrap().contains(&encode(&whole).unwrap()));
    }
}

/// The bytes that the documentation promises: they are stored, so they never change.
#[test]
fn the_bytes_are_the_documented_ones() {
    let cases: Vec<(Vec<u8>, &[u8])> = vec![
        (encode(&()).unwrap(), &[]),
        (encode(&None::<u8>).unwrap(), &[0x01]),
        (encode(&Some(())).unwrap(), &[0x02]),
        (encode(&(false, true)).unwrap(), &[0x03, 0x04]),
        (encode(&'é').unwrap(), &[0x05, 0x00, 0x00, 0xe9]),
        (encode("a\0b").unwrap(), &[0x06, b'a', 0x01, 0x01, b'b', 0x00]),
        (encode(&Bytes::from_static(&[0, 7, 1])).unwrap(), &[0x07, 0x01, 0x01, 0x07, 0x01, 0x02, 0x00]),
        (encode(&vec![5u8, 0]).unwrap(), &[0x08, 0x81, 0x05, 0x80, 0x00]),
        (encode(&Kind::Unit).unwrap(), &[0x09, 0x80]),
        (encode(&Kind::Newtype(-1)).unwrap(), &[0x09, 0x81, 0x01, 0x7f, 0xfe]),
        (encode(&300u64).unwrap(), &[0x82, 0x01, 0x2c]),
        (encode(&-300i16).unwrap(), &[0x7e, 0xfe, 0xd3]),
        (encode(&(1u8, (2i64, [3u16]))).unwrap(), &[0x81, 1, 0x81, 2, 0x81, 3]),
    ];
    for (bytes, documented) in cases {
        assert_eq!(bytes, documented);
    }
}

#[test]
fn bytes_that_are_not_the_shortest_or_not_whole_are_refused() {
    let refused = |bytes: &[u8], part: &str, error: Error| {
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{bytes:x?}: {error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    for bytes in [&[0x81u8, 0x00][..], &[0x82, 0x00, 0x01], &[0x7f, 0xff], &[0x7e, 0xff, 0x01]] {
        refused(bytes, "longer than it needs to be", decode::<i64>(bytes).unwrap_err());
    }
    refused(&[0x82, 1], "ends inside", decode::<i64>(&[0x82, 1]).unwrap_err());
    refused(&[0x06, b'a'], "no end", decode::<String>(&[0x06, b'a']).unwrap_err());
    refused(&[0x06, 1, 3, 0], "needs no escape", decode::<String>(&[0x06, 1, 3, 0]).unwrap_err());
    refused(&[0x06, 0xc3, 0], "not UTF-8", decode::<String>(&[0x06, 0xc3, 0]).unwrap_err());
    refused(&[0x05, 0, 0xd8, 0], "no character", decode::<char>(&[0x05, 0, 0xd8, 0]).unwrap_err());
    refused(&[0x08, 0x80], "no end", decode::<Vec<u8>>(&[0x08, 0x80]).unwrap_err());
    let mut least = vec![0x70];
    least.extend([0; 16]);
    refused(&least, "less than 128 bits", decode::<i128>(&least).unwrap_err());
}

#[test]
fn another_type_is_named() {
    let says = |error: Error, part: &str| {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(part), "{error}");
    };
    says(decode::<u32>(&encode("a").unwrap()).unwrap_err(), "decoding key u32: expected u32, found a string");
    says(decode::<String>(&encode(&5).unwrap()).unwrap_err(), "expected a string, found an integer");
    says(decode::<u8>(&encode(&300).unwrap()).unwrap_err(), "expected u8, found integer `300`");
    says(decode::<u8>(&encode(&(1, 2)).unwrap()).unwrap_err(), "expected the end of the key, found an integer");
    says(decode::<(u8, bool)>(&encode(&1).unwrap()).unwrap_err(), "found the end of the key");
    says(decode::<Kind>(&encode(&true).unwrap()).unwrap_err(), "expected enum Kind, found a boolean");
    says(decode::<Kind>(&[0x09, 0x81, 9]).unwrap_err(), "variant index 0 <= i < 5");
}

#[test]
fn the_element_that_does_not_fit_is_named() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Order {
        shop: String,
        lines: Vec<(u64, u8)>,
    }
    #[derive(Serialize)]
    struct Wrong {
        shop: &'static str,
        lines: Vec<(u64, u16)>,
    }
    let says = |error: Error, part: &str| assert!(error.to_string().contains(part), "{error}");
    says(
        decode::<(String, u64, u64)>(&encode(&("a", 1, "b")).unwrap()).unwrap_err(),
        "u64): element `[2]`: expected u64, found a string",
    );
    let wrong = Wrong { shop: "a", lines: vec![(1, 2), (3, 400)] };
    says(
        decode::<(u8, Order)>(&encode(&(1, wrong)).unwrap()).unwrap_err(),
        "element `[1].lines[1][1]`: expected u8, found integer `400`",
    );
}

#[test]
fn a_variant_is_never_read_as_another_one() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum First {
        #[serde(skip)]
        #[allow(dead_code, reason = "it only takes a number")]
        Hidden,
        B,
        C,
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Last {
        B,
        C,
        #[serde(skip)]
        #[allow(dead_code, reason = "it only takes a number")]
        Hidden,
    }
    let error = decode::<(u8, First)>(&encode(&(1, First::B)).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("#[serde(skip)] to the end"), "{error}");
    assert_eq!(decode::<First>(&encode(&First::C).unwrap()).unwrap_err().kind(), ErrorKind::Invalid);
    for key in [Last::B, Last::C] {
        assert_eq!(decode::<Last>(&encode(&key).unwrap()).unwrap(), key);
    }
}

#[test]
fn types_without_an_order_are_refused_with_the_reason() {
    #[derive(Serialize)]
    struct Sparse {
        #[serde(skip_serializing_if = "Option::is_none")]
        a: Option<u8>,
    }
    let says = |error: Error, part: &str| {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(part), "{error}");
    };
    says(encode(&1.5f64).unwrap_err(), "NaN has no order");
    says(encode(&(1, 1.5f32)).unwrap_err(), "NaN has no order");
    says(encode(&BTreeMap::from([(1, 2)])).unwrap_err(), "no agreed order");
    says(encode(&Sparse { a: None }).unwrap_err(), "field `a` is left out");
    says(encode(&vec![(), ()]).unwrap_err(), "must not be empty");
    says(decode::<f64>(&[0x80]).unwrap_err(), "floating point");
    says(decode::<BTreeSet<()>>(&[0x08, 0x80, 0x00]).unwrap_err(), "must not be empty");
}

#[test]
fn length_and_depth_are_limited() {
    let fits = "x".repeat(KEY_BYTES_MAX - 2);
    assert_eq!(decode::<String>(&encode(&fits).unwrap()).unwrap(), fits);
    let mut buffer = vec![9; 5];
    let error = encode_into(&mut buffer, &"x".repeat(KEY_BYTES_MAX - 1)).unwrap_err();
    assert_eq!((error.kind(), buffer.as_slice()), (ErrorKind::TooLarge, &[9; 5][..]));
    assert!(error.to_string().contains("KEY_BYTES_MAX of 4096"), "{error}");
    assert_eq!(decode::<String>(&[6; KEY_BYTES_MAX + 1]).unwrap_err().kind(), ErrorKind::TooLarge);
    // The limit is on the key, not on what stands before it in the buffer.
    let mut buffer = vec![9; KEY_BYTES_MAX];
    encode_into(&mut buffer, &fits).unwrap();

    #[derive(Debug, Serialize, Deserialize)]
    struct Deep(Option<Box<Deep>>);
    let deep = (0..100).fold(Deep(None), |deep, _| Deep(Some(Box::new(deep))));
    assert_eq!(encode(&deep).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(decode::<Deep>(&[0x02; 4000]).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn a_range_works_with_an_ordered_map_and_ends_at_the_end() {
    let keys: BTreeMap<Vec<u8>, u32> =
        [("a", 1), ("ab", 2), ("b", 3)].map(|(text, n)| (encode(&(text, n)).unwrap(), n)).into();
    let found: Vec<_> = keys.range::<[u8], _>(text_prefix(&(), "a").unwrap()).map(|(_, n)| *n).collect();
    assert_eq!(found, [1, 2]);
    let found: Vec<_> = keys.range::<[u8], _>(prefix(&("a",)).unwrap()).map(|(_, n)| *n).collect();
    assert_eq!(found, [1]);
    assert_eq!(KeyRange::starting_with(vec![1, 0xff, 0xff]).end, Some(vec![2]));
    assert_eq!(KeyRange::starting_with(vec![0xff, 0xff]).end, None);
    assert!(KeyRange::starting_with(vec![0xff]).contains(&[0xff, 0xff]));
    assert_eq!(encode("a").unwrap().cmp(&encode("b").unwrap()), Ordering::Less);
}
