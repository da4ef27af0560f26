use serde::{Deserialize, Serialize};

use crate::ErrorKind;
use crate::contract::{Limits, decode, decode_keeping, encode, encode_keeping};

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Nested {
    #[serde(default)]
    inner: Vec<Nested>,
}

/// A value with `depth` lists and structs inside each other.
fn nested(depth: usize) -> Nested {
    (2..depth).step_by(2).fold(Nested::default(), |inner, _| Nested { inner: vec![inner] })
}

#[test]
fn sizes_are_limited_both_ways_to_the_byte() {
    let limits = Limits { bytes_max: 10, ..Limits::DEFAULT };
    let fits = "x".repeat(9);
    let bytes = limits.encode(&fits).unwrap();
    assert_eq!(limits.decode::<String>(&bytes).unwrap(), fits);
    let over = "x".repeat(10);
    assert_eq!(limits.encode(&over).unwrap_err().kind(), ErrorKind::TooLarge);
    let error = limits.decode::<String>(&encode(&over).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("bytes_max of 10"), "{error}");
    assert_eq!(limits.encode(&[0u8; 10]).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(limits.encode(&(1u64 << 40, 1u8)).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn an_endless_value_stops_at_the_limit() {
    struct Endless;
    impl Serialize for Endless {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(std::iter::repeat(1u8))
        }
    }
    let limits = Limits { bytes_max: 1000, ..Limits::DEFAULT };
    assert_eq!(limits.encode(&Endless).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn what_is_kept_counts_too() {
    #[derive(Serialize)]
    struct Wide {
        a: String,
        b: String,
    }
    #[derive(Serialize, Deserialize)]
    struct Narrow {
        a: String,
    }
    let limits = Limits { bytes_max: 30, ..Limits::DEFAULT };
    let bytes = limits.encode(&Wide { a: "x".repeat(10), b: "y".repeat(10) }).unwrap();
    let (_, unknown) = limits.decode_keeping::<Narrow>(&bytes).unwrap();
    let mut buffer = vec![1];
    let longer = Narrow { a: "x".repeat(15) };
    let error = limits.encode_keeping_into(&mut buffer, &longer, &unknown).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(buffer, [1]);
}

#[test]
fn what_is_kept_is_no_way_around_the_depth() {
    #[derive(Serialize)]
    struct Wide {
        a: u8,
        b: Nested,
    }
    #[derive(Serialize, Deserialize)]
    struct Narrow {
        a: u8,
    }
    let loose = Limits { depth_max: 100, ..Limits::DEFAULT };
    let bytes = loose.encode(&Wide { a: 1, b: nested(90) }).unwrap();
    let (value, unknown) = loose.decode_keeping::<Narrow>(&bytes).unwrap();
    assert_eq!(loose.encode_keeping(&value, &unknown).unwrap().0, bytes);
    let mut buffer = vec![1];
    let error = Limits::DEFAULT.encode_keeping_into(&mut buffer, &value, &unknown).unwrap_err();
    assert_eq!((error.kind(), &buffer[..]), (ErrorKind::TooLarge, &[1][..]));
    assert!(error.to_string().contains("depth_max of 64"), "{error}");
}

#[test]
fn depth_is_limited_both_ways_to_the_level() {
    let depth = usize::from(Limits::DEFAULT.depth_max);
    let bytes = encode(&nested(depth)).unwrap();
    assert_eq!(decode::<Nested>(&bytes).unwrap(), nested(depth));
    let deeper = encode(&nested(depth + 2)).unwrap_err();
    assert_eq!(deeper.kind(), ErrorKind::TooLarge);
    assert!(deeper.to_string().contains("depth_max of 64"), "{deeper}");

    let loose = Limits { depth_max: 66, ..Limits::DEFAULT };
    let error = decode::<Nested>(&loose.encode(&nested(depth + 2)).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("depth_max of 64"), "{error}");
}

#[test]
fn an_ignored_value_is_no_way_around_the_depth() {
    let mut bytes = vec![0x81, 0xa1, b'x'];
    bytes.extend(std::iter::repeat_n(0x91, 1_000_000));
    bytes.push(0xc0);
    assert_eq!(decode::<Nested>(&bytes).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn the_ceiling_of_depth_fits_the_stack_of_a_thread() {
    let limits = Limits { depth_max: u16::MAX, ..Limits::DEFAULT };
    let depth = usize::from(Limits::DEPTH_CEILING);
    let value = nested(depth);
    let bytes = limits.encode(&value).unwrap();
    let (again, unknown) = limits.decode_keeping::<Nested>(&bytes).unwrap();
    assert_eq!(limits.encode_keeping(&again, &unknown).unwrap().0, bytes);
    assert_eq!(limits.encode(&nested(depth + 2)).unwrap_err().kind(), ErrorKind::TooLarge);
    let mut deep = vec![0x91; 1_000_000];
    deep.push(0x90);
    assert_eq!(limits.decode::<Nested>(&deep).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn unknown_fields_at_the_ceiling_of_depth_fit_the_stack_too() {
    #[derive(Serialize, Deserialize)]
    struct More {
        extra: u8,
        inner: Vec<More>,
    }
    let limits = Limits { depth_max: Limits::DEPTH_CEILING, ..Limits::DEFAULT };
    let more = (1..Limits::DEPTH_CEILING / 2)
        .fold(None, |inner: Option<More>, extra| Some(More { extra: extra as u8, inner: inner.into_iter().collect() }));
    let bytes = limits.encode(&more).unwrap();
    let (value, unknown) = limits.decode_keeping::<Nested>(&bytes).unwrap();
    let (again, unknown) = limits.encode_keeping(&value, &unknown).unwrap();
    assert!(!unknown.is_empty());
    assert_eq!(again.len(), bytes.len());
    limits.decode::<More>(&again).unwrap();
}

#[test]
fn a_type_that_wraps_nothing_but_itself_ends() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Loop(Option<Box<Loop>>);
    assert_eq!(decode::<Loop>(&[0x01]).unwrap_err().kind(), ErrorKind::TooLarge);
    let mut value = Loop(None);
    for _ in 0..1000 {
        value = Loop(Some(Box::new(value)));
    }
    assert_eq!(encode(&value).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn a_length_that_lies_allocates_nothing() {
    // Heads of 4 GiB, each in an input of ten bytes.
    for head in [0xc6, 0xc9, 0xdb, 0xdd, 0xdf] {
        let bytes = [head, 0xff, 0xff, 0xff, 0xff, 0x01, 0x01, 0x01, 0x01, 0x01];
        assert_eq!(decode::<Vec<u64>>(&bytes).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(decode::<String>(&bytes).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(decode::<std::collections::HashMap<u8, u8>>(&bytes).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(decode_keeping::<Nested>(&bytes).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(decode::<bytes::Bytes>(&bytes).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    assert!(encode_keeping(&1, &Default::default()).is_ok());
}
