//! Any bytes: no panic, no body that is longer than allowed, and what is read is the same when it is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mainstay_wire::hello::{BODY_BYTES_MAX, Hello, HelloAnswer, body_bytes};

fuzz_target!(|bytes: &[u8]| {
    let Some((prefix, body)) = bytes.split_first_chunk() else { return };
    if let Ok(length) = body_bytes(prefix) {
        assert!(length <= BODY_BYTES_MAX);
    }
    let _ = HelloAnswer::decode(prefix, body);
    if let Ok(hello) = Hello::decode(prefix, body) {
        let written = hello.encode();
        let (prefix, body) = written.split_first_chunk().expect("a hello has a prefix");
        assert_eq!(Hello::decode(prefix, body).expect("what was written can be read"), hello);
    }
});
