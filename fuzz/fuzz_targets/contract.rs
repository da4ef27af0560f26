//! Any bytes: no panic, and what can be read keeps its unknown fields when it is written and read again, changed or not.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use mainstay_core::contract::{decode, decode_keeping, encode_keeping};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Node {
    id: Option<u64>,
    wide: Option<i128>,
    #[serde(default)]
    list: Vec<Node>,
    #[serde(default)]
    map: BTreeMap<String, Node>,
    kind: Option<Kind>,
    tagged: Option<Tagged>,
    loose: Option<Loose>,
}

#[derive(Serialize, Deserialize)]
enum Kind {
    Unit,
    New(Box<Node>),
    Pair(u8, String),
    Fields { x: f64 },
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "t")]
enum Tagged {
    A { x: u8 },
    B { y: bytes::Bytes },
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Loose {
    Number(i64),
    Fields { left: u8, right: Vec<u8> },
}

fuzz_target!(|bytes: &[u8]| {
    let _ = decode::<serde::de::IgnoredAny>(bytes);
    let _ = decode::<(String, char, uuid::Uuid)>(bytes);
    if let Ok((value, unknown)) = decode_keeping::<Node>(bytes) {
        // A value at the limit of depth may exceed it with its defaults filled in.
        let Ok((written, _)) = encode_keeping(&value, &unknown) else { return };
        let (mut value, found) = decode_keeping::<Node>(&written).expect("what was written can be read");
        assert_eq!(encode_keeping(&value, &found).expect("what was written fits").0, written);
        value.list.reverse();
        value.list.truncate(2);
        value.map.pop_first();
        value.kind = Some(Kind::Unit);
        let (written, _) = encode_keeping(&value, &found).expect("what is smaller can be written");
        decode::<Node>(&written).expect("what was changed can be read");
    }
});
