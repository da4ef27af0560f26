use bytes::Bytes;
use proptest::prelude::*;

use crate::command::{CommandBuilder, ParsedCommand, sequence_number};
use crate::formats::COMPACTION_MARK;
use crate::message::{Envelope, Response};
use crate::raft::{self, Command, Entry};
use crate::state_machine::Position;
use crate::wire;

use mainstay_core::Epoch;
use mainstay_store::state::{Mark, Write, WriteBatch};
use openraft::EntryPayload;

#[test]
fn a_command_gives_back_what_was_committed() {
    let mut first = WriteBatch::new();
    first.put(b"a", b"1").delete(b"b");
    let mut second = WriteBatch::new();
    second.delete_range(b"c", Some(b"d"));
    let mut builder = CommandBuilder::new(Epoch(7), 16);
    builder.push([first.as_bytes()].into_iter());
    builder.push([second.as_bytes(), first.as_bytes()].into_iter());
    let bytes = builder.finish();
    let parsed = ParsedCommand::parse(&bytes).expect("what was built can be parsed");
    assert_eq!(parsed.epoch, Epoch(7));
    let writes: Vec<Write<'_>> = parsed.writes(0).collect();
    assert_eq!(writes.len(), 5);
    assert_eq!(writes[0], Write::Put { key: b"a", value: b"1" });
    assert_eq!(writes[2], Write::DeleteRange { start: b"c", end: Some(b"d") });
}

#[test]
fn sequence_numbers_follow_the_log() {
    assert!(sequence_number(4, 65_535) < sequence_number(5, 0));
    assert!(sequence_number(5, 0) < sequence_number(5, 1));
}

#[test]
fn another_version_is_refused_by_name() {
    for bytes in [Bytes::from_static(&[9]), Bytes::from_static(&[0, 1, 2])] {
        let error = Envelope::decode(bytes.clone()).expect_err("no such version");
        assert_eq!(error.kind(), mainstay_core::ErrorKind::UnknownVersion);
        assert_eq!(wire::decode_entry(0, bytes).expect_err("no such version").kind(), error.kind());
    }
}

#[test]
fn an_entry_survives_its_encoding() {
    let entry =
        Entry { log_id: raft::log_id(3, 9), payload: EntryPayload::Normal(Command(Bytes::from_static(b"xyz"))) };
    let decoded = wire::decode_entry(9, wire::encode_entry(&entry)).expect("what was encoded can be decoded");
    assert_eq!(decoded, entry);
}

#[test]
fn numbers_that_leave_no_room_to_count_on_are_refused() {
    for (term, index) in [(u64::MAX, 1), (1, u64::MAX), (1, 1 << 47)] {
        let mut bytes = bytes::BytesMut::from(&[COMPACTION_MARK.written()][..]);
        wire::put_log_id(&mut bytes, &raft::log_id(term, index));
        let error = wire::Reader::new(&COMPACTION_MARK, bytes.freeze()).and_then(|mut reader| reader.log_id());
        assert_eq!(error.expect_err("impossible").kind(), mainstay_core::ErrorKind::Corrupt);
    }
    let entry = Entry { log_id: raft::log_id(u64::MAX, 9), payload: EntryPayload::Blank };
    assert!(wire::decode_entry(9, wire::encode_entry(&entry)).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), version in 0..=3_u8) {
        if version > 0 && !bytes.is_empty() {
            bytes[0] = version;
        }
        let bytes = Bytes::from(bytes);
        drop(Envelope::decode(bytes.clone()));
        drop(Response::decode(bytes.clone()));
        drop(wire::decode_entry(1, bytes.clone()));
        drop(ParsedCommand::parse(&bytes));
        drop(Position::from_mark(&Mark { index: 1, note: bytes }));
    }
}
