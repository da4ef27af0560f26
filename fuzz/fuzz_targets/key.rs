//! Any bytes: no panic, and what can be read has no other encoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mainstay_core::key::{decode, encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
enum Kind {
    Unit,
    New(Option<Box<Kind>>),
    Pair(i128, String),
    Fields { x: bytes::Bytes, y: Vec<char> },
}

fn one_reading<K: Serialize + DeserializeOwned>(bytes: &[u8]) {
    if let Ok(key) = decode::<K>(bytes) {
        assert_eq!(encode(&key).expect("what was read can be written"), bytes);
    }
}

fuzz_target!(|bytes: &[u8]| {
    one_reading::<Kind>(bytes);
    one_reading::<(String, Option<u64>, uuid::Uuid)>(bytes);
    one_reading::<Vec<(bool, i8)>>(bytes);
});
