//! Any bytes as a call, as its arguments and as its answer: no panic, and what is read is written so that it is read again.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use mainstay_core::contract::RecordReader;
use mainstay_runtime::{CallReply, CallRequest};

fuzz_target!(|input: &[u8]| {
    let bytes = Bytes::copy_from_slice(input);
    if let Ok(request) = CallRequest::decode(&bytes) {
        let written = request.encode().expect("what was read can be written");
        assert_eq!(CallRequest::decode(&written).expect("what was written can be read"), request);
    }
    if let Ok(reply) = CallReply::decode(&bytes) {
        CallReply::decode(&reply.encode()).expect("what was written can be read");
    }
    if let Ok(mut reader) = RecordReader::new(&bytes) {
        let _ = reader.take::<String>("name");
        let _ = reader.take::<Vec<u64>>("numbers");
    }
});
