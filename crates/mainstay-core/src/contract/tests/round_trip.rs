use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Deserialize, Serialize, Serializer};

use super::sample::{Meters, Outer, Sample, sample};
use crate::contract::{Limits, decode, decode_keeping, encode, encode_into};

/// The same with integers of 128 bits that others write as we do: too large for 64 bits, and without doubt of their sign.
fn with_common_integers(mut sample: Sample) -> Sample {
    fn outer(value: Outer) -> Outer {
        match value {
            Outer::Newtype(sample) => Outer::Newtype(Box::new(with_common_integers(*sample))),
            Outer::Struct { a, b } => Outer::Struct { a, b: b.into_iter().map(outer).collect() },
            value => value,
        }
    }
    sample.wide = (sample.wide.0 >> 1 | 1 << 100, sample.wide.1 & i128::MAX | 1 << 100);
    sample.outer = sample.outer.into_iter().map(outer).collect();
    sample
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_value_comes_back_and_its_type_knows_all_of_it(value in sample()) {
        let bytes = encode(&value).unwrap();
        prop_assert_eq!(&decode::<Sample>(&bytes).unwrap(), &value);
        let (again, unknown) = decode_keeping::<Sample>(&bytes).unwrap();
        prop_assert_eq!(again, value);
        prop_assert!(unknown.is_empty());
    }

    #[test]
    fn the_bytes_are_those_of_another_implementation(value in sample().prop_map(with_common_integers)) {
        let bytes = encode(&value).unwrap();
        let mut others = Vec::new();
        value.serialize(&mut rmp_serde::Serializer::new(&mut others).with_struct_map().with_human_readable()).unwrap();
        prop_assert_eq!(&bytes, &others);
        let mut others = rmp_serde::Deserializer::from_read_ref(&bytes).with_human_readable();
        prop_assert_eq!(Sample::deserialize(&mut others).unwrap(), value);
    }

    #[test]
    fn every_integer_takes_its_shortest_form(unsigned: u64, signed: i64, shift in 0..64) {
        let (unsigned, signed) = (unsigned >> shift, signed >> shift);
        let bytes = encode(&(unsigned, signed)).unwrap();
        prop_assert_eq!(&bytes, &rmp_serde::to_vec_named(&(unsigned, signed)).unwrap());
        prop_assert_eq!(decode::<(u64, i64)>(&bytes).unwrap(), (unsigned, signed));
    }

    #[test]
    fn every_length_of_text_bytes_and_lists_takes_its_shortest_form(length in prop_oneof![0..400usize, 65_500..65_600usize]) {
        let value = ("x".repeat(length), bytes::Bytes::from(vec![7; length]), vec![true; length]);
        let bytes = encode(&value).unwrap();
        prop_assert_eq!(&bytes, &rmp_serde::to_vec_named(&value).unwrap());
        prop_assert_eq!(decode::<(String, bytes::Bytes, Vec<bool>)>(&bytes).unwrap(), value);
    }
}

#[test]
fn special_floats_keep_their_bits() {
    for bits in [f64::NAN.to_bits(), (-0.0f64).to_bits(), f64::INFINITY.to_bits(), 0x7ff0_0000_0000_0001] {
        let value: f64 = decode(&encode(&f64::from_bits(bits)).unwrap()).unwrap();
        assert_eq!(value.to_bits(), bits);
    }
}

#[test]
fn a_buffer_is_added_to_and_left_alone_on_failure() {
    let mut buffer = vec![1, 2, 3];
    encode_into(&mut buffer, &Meters(5)).unwrap();
    assert_eq!(buffer, [1, 2, 3, 5]);
    let tight = Limits { bytes_max: 4, ..Limits::DEFAULT };
    tight.encode_into(&mut buffer, "too long for four").unwrap_err();
    assert_eq!(buffer, [1, 2, 3, 5]);
}

#[test]
fn bytes_behind_the_value_are_refused() {
    let mut bytes = encode(&7u8).unwrap();
    bytes.push(0);
    let error = decode::<u8>(&bytes).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Corrupt);
    assert!(error.to_string().contains("more bytes follow the value (at byte 1)"), "{error}");
}

#[test]
fn numbers_may_widen_and_names_may_move_between_versions() {
    #[derive(Serialize)]
    struct Before {
        count: u32,
        name: &'static str,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct After {
        #[serde(default)]
        extra: Option<u8>,
        name: String,
        count: i128,
    }
    let bytes = encode(&Before { count: 9, name: "a" }).unwrap();
    assert_eq!(decode::<After>(&bytes).unwrap(), After { extra: None, name: "a".into(), count: 9 });
}

#[test]
fn integers_of_128_bits_keep_their_sign_when_their_type_changes() {
    for number in [0, 1, -1, i128::from(i64::MIN), i128::from(u64::MAX), i128::MAX, i128::from(i64::MIN) - 1, i128::MIN]
    {
        let bytes = encode(&number).unwrap();
        assert_eq!(decode::<i128>(&bytes).unwrap(), number);
        assert_eq!(decode::<u128>(&bytes).ok(), u128::try_from(number).ok(), "{number}");
    }
    for number in [0, 1 << 64, i128::MAX as u128, 1 << 127, u128::MAX] {
        let bytes = encode(&number).unwrap();
        assert_eq!(decode::<u128>(&bytes).unwrap(), number);
        assert_eq!(decode::<i128>(&bytes).ok(), i128::try_from(number).ok(), "{number}");
    }
    // What fits 64 bits is written as any other integer, so that a type may widen and narrow.
    assert_eq!(encode(&7i128).unwrap(), [7]);
    assert_eq!(encode(&u128::from(u64::MAX)).unwrap(), encode(&u64::MAX).unwrap());
    assert_eq!(encode(&u128::MAX).unwrap()[..4], [0xc4, 17, 0, 0xff]);
    assert_eq!(encode(&i128::MIN).unwrap()[..4], [0xc4, 17, 0xff, 0x80]);
}

#[test]
fn integers_of_128_bits_without_a_sign_are_read_as_they_were_written() {
    let old = |bytes: [u8; 16]| encode(&bytes::Bytes::copy_from_slice(&bytes)).unwrap();
    assert_eq!(decode::<i128>(&old((-5i128).to_be_bytes())).unwrap(), -5);
    assert_eq!(decode::<u128>(&old(5u128.to_be_bytes())).unwrap(), 5);
    assert_eq!(decode::<u128>(&old(u128::MAX.to_be_bytes())).unwrap(), u128::MAX);
}

#[test]
fn nested_options_come_back_unless_the_inner_one_is_none() {
    let value: Vec<Option<Option<u8>>> = vec![None, Some(Some(3))];
    assert_eq!(decode::<Vec<Option<Option<u8>>>>(&encode(&value).unwrap()).unwrap(), value);
    // The documented limit of the format.
    assert_eq!(decode::<Option<Option<u8>>>(&encode(&Some(None::<u8>)).unwrap()).unwrap(), None);
}

#[test]
fn a_list_of_bytes_reads_what_was_written_as_bytes() {
    let bytes = encode(&bytes::Bytes::from_static(&[1, 2, 200])).unwrap();
    assert_eq!(decode::<Vec<u8>>(&bytes).unwrap(), [1, 2, 200]);
    assert_eq!(decode::<[u8; 3]>(&bytes).unwrap(), [1, 2, 200]);
}

/// Says nothing, or the wrong thing, about its length.
struct Wrong(Option<usize>, usize);

impl Serialize for Wrong {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(self.0)?;
        for number in 0..self.1 {
            list.serialize_element(&number)?;
        }
        list.end()
    }
}

struct WrongMap(Option<usize>, usize);

impl Serialize for WrongMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(self.0)?;
        for number in 0..self.1 {
            map.serialize_entry(&number, "x")?;
        }
        map.end()
    }
}

#[test]
fn lengths_that_are_unknown_or_wrong_are_put_right() {
    for declared in [None, Some(0), Some(3), Some(20), Some(70_000)] {
        for count in [0, 3, 15, 16, 300, 65_536] {
            let bytes = encode(&("before", Wrong(declared, count), WrongMap(declared, count), "after")).unwrap();
            let (_, list, map, after) =
                decode::<(String, Vec<usize>, BTreeMap<usize, String>, String)>(&bytes).unwrap();
            assert_eq!((list.len(), map.len(), after.as_str()), (count, count, "after"));
        }
    }
}

#[test]
fn a_type_that_refuses_to_be_written_says_why() {
    struct Never;
    impl Serialize for Never {
        fn serialize<S: Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
            Err(S::Error::custom("out of ink"))
        }
    }
    let error = encode(&HashMap::from([(1, Never)])).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Invalid);
    assert!(error.to_string().ends_with(": out of ink"), "{error}");
}
