//! Any bytes on any lane: no panic, and what is read is written as it was, if it has no fields of a later version.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use mainstay_wire::Lane;
use mainstay_wire::frame::{HEADER_BYTES, Header};

fuzz_target!(|input: (u8, &[u8])| {
    let (lane, mut rest) = (Lane::ALL[usize::from(input.0 % 3)], input.1);
    while let Ok(Some(frame)) = Header::decode(rest, lane, 1) {
        if frame.length == HEADER_BYTES + frame.payload.len() {
            let mut written = BytesMut::new();
            frame.header.encode(frame.payload, &mut written);
            let again = Header::decode(&written, lane, 1).expect("what was written can be read").expect("it is whole");
            assert_eq!((again.header, again.payload), (frame.header, frame.payload));
        }
        rest = &rest[frame.length..];
    }
});
