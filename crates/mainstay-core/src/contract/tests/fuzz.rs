//! No bytes make it panic, overflow the stack or allocate what they only promise.
//!
//! The ordinary run does a bounded number of inputs by seed. For more: `MAINSTAY_FUZZ_CASES=1000000 cargo test
//! --release -p mainstay-core fuzz`. The same check is the target of `fuzz/`, which libFuzzer drives by coverage.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::sample::{Sample, sample};
use crate::contract::{decode, decode_keeping, encode, encode_keeping};

const CASES: u32 = 400;

pub(super) fn runner() -> TestRunner {
    let cases = std::env::var("MAINSTAY_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES);
    TestRunner::new(Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..Config::default() })
}

/// Reads the bytes as several types. What can be read can be written, read again and is the same.
fn read(bytes: &[u8]) {
    if let Ok((value, unknown)) = decode_keeping::<Sample>(bytes) {
        let (again, _) = encode_keeping(&value, &unknown).unwrap();
        let (value, unknown) = decode_keeping::<Sample>(&again).unwrap();
        assert_eq!(encode_keeping(&value, &unknown).unwrap().0, again);
    }
    let _ = decode::<Vec<Sample>>(bytes);
    let _ = decode::<std::collections::BTreeMap<String, Vec<Option<u64>>>>(bytes);
    let _ = decode::<serde::de::IgnoredAny>(bytes);
    let _ = decode::<(i128, char, [u8; 2])>(bytes);
}

#[test]
fn fuzz_arbitrary_bytes() {
    runner()
        .run(&proptest::collection::vec(any::<u8>(), 0..200), |bytes| {
            read(&bytes);
            Ok(())
        })
        .unwrap();
}

#[test]
fn fuzz_changed_bytes() {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..6);
    runner()
        .run(&(sample(), changes), |(value, changes)| {
            let mut bytes = encode(&value).unwrap();
            for (index, byte, how) in changes {
                let index = index.index(bytes.len());
                match how {
                    0 => bytes[index] = byte,
                    1 => bytes[index] ^= 1 << (byte % 8),
                    2 => bytes.insert(index, byte),
                    _ if bytes.len() > 1 => drop(bytes.remove(index)),
                    _ => {}
                }
            }
            read(&bytes);
            Ok(())
        })
        .unwrap();
}

#[test]
fn fuzz_cut_bytes() {
    runner()
        .run(&(sample(), any::<prop::sample::Index>()), |(value, index)| {
            let bytes = encode(&value).unwrap();
            let cut = &bytes[..index.index(bytes.len())];
            read(cut);
            let error = decode::<Sample>(cut).unwrap_err();
            prop_assert_eq!(error.kind(), crate::ErrorKind::Corrupt);
            Ok(())
        })
        .unwrap();
}
