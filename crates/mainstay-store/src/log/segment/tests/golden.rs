//! The bytes of a segment are those that are kept for its version.

use mainstay_core::format::golden::{Golden, damaged};

use super::damage::bytes_of;
use super::*;
use crate::formats;
use crate::log::segment::format::{SEGMENT_HEADER_BYTES, SegmentHeader};

/// A log with a write of each kind, in one block.
fn written() -> Vec<u8> {
    let disk = SimDisk::new(0);
    let log = open(&disk).unwrap();
    write(&log, |batch| {
        batch.append(A, 0, vec![Bytes::from_static(b"first"), Bytes::from_static(b"second"), Bytes::new()]);
        batch.hard_state(A, Bytes::from_static(b"vote"));
        batch.truncate(A, 2);
        batch.compact(A, 0, Bytes::from_static(b"mark"));
        batch.append(B, 7, vec![Bytes::from_static(b"other")]);
        batch.remove(B);
    })
    .unwrap();
    drop(log);
    bytes_of(&disk, 1)
}

#[test]
fn golden_segments_are_what_is_written() {
    let segment = written();
    let used = segment.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    Golden::of(env!("CARGO_MANIFEST_DIR")).check("segment", &formats::SEGMENT, &segment[..used]);
}

/// Carries and moved entries stand in later segments, where what is written depends on when the cleaner runs.
#[test]
fn golden_carries_are_what_is_written() {
    let mut bytes = Vec::new();
    let (hard_state, mark) = (Some(Bytes::from_static(b"vote")), Some(Bytes::from_static(b"mark")));
    for (hard_state, mark) in [(None, None), (hard_state.clone(), None), (None, mark.clone()), (hard_state, mark)] {
        record::encode_carry(&mut bytes, &record::Carry { group: A, first: 3, next: 9, hard_state, mark });
    }
    record::encode_moved(&mut bytes, B, 4, b"moved");
    Golden::of(env!("CARGO_MANIFEST_DIR")).check("segment-carry", &formats::SEGMENT, &bytes);
}

#[test]
fn damaged_headers_are_refused() {
    let header = written()[..SEGMENT_HEADER_BYTES].to_vec();
    SegmentHeader::decode(&header).unwrap();
    for (what, bytes) in damaged(&header) {
        assert_eq!(SegmentHeader::decode(&bytes).expect_err(&what).kind(), ErrorKind::Corrupt, "{what}");
    }
}

#[test]
fn no_damage_of_a_batch_makes_its_reader_panic() {
    let bytes = Golden::of(env!("CARGO_MANIFEST_DIR")).read("segment-carry", formats::SEGMENT.written());
    for (_, bytes) in damaged(&bytes) {
        let mut reader = record::BatchReader::new(&bytes, 1, 0);
        while let Ok(Some(_)) = reader.next() {}
    }
}
