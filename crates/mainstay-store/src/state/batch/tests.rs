use mainstay_core::ErrorKind;
use proptest::prelude::*;

use super::*;

const STAMP: u64 = 0x0102_0304_0506_0708;

#[derive(Debug, Clone)]
enum Op {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
    Add(Vec<u8>, i64),
    PutStamped(Vec<u8>, Vec<u8>, Vec<u8>),
    Note(Vec<u8>),
}

fn op() -> impl Strategy<Value = Op> {
    let key = || proptest::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        (key(), key()).prop_map(|(key, value)| Op::Put(key, value)),
        key().prop_map(Op::Delete),
        (key(), proptest::option::of(key())).prop_map(|(start, end)| Op::DeleteRange(start, end)),
        (key(), any::<i64>()).prop_map(|(key, delta)| Op::Add(key, delta)),
        (key(), key(), key()).prop_map(|(start, end, value)| Op::PutStamped(start, end, value)),
        key().prop_map(Op::Note),
    ]
}

fn fill(batch: &mut WriteBatch, ops: &[Op]) {
    for op in ops {
        match op {
            Op::Put(key, value) => batch.put(key, value),
            Op::Delete(key) => batch.delete(key),
            Op::DeleteRange(start, end) => batch.delete_range(start, end.as_deref()),
            Op::Add(key, delta) => batch.add(key, *delta),
            Op::PutStamped(start, end, value) => batch.put_stamped(start, end, value),
            Op::Note(note) => batch.note(note),
        };
    }
}

fn as_write(op: &Op) -> Write<'_> {
    match op {
        Op::Put(key, value) => Write::Put { key, value },
        Op::Delete(key) => Write::Delete { key },
        Op::DeleteRange(start, end) => Write::DeleteRange { start, end: end.as_deref() },
        Op::Add(key, delta) => Write::Add { key, delta: *delta },
        Op::PutStamped(start, end, value) => Write::PutStamped { start, stamp: STAMP, end, value },
        Op::Note(note) => Write::Note { note },
    }
}

fn batch_of(ops: &[Op]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    fill(&mut batch, ops);
    batch
}

proptest! {
    #[test]
    fn what_was_written_is_read(ops in proptest::collection::vec(op(), 0..20)) {
        let batch = batch_of(&ops);
        let expected: Vec<Write<'_>> = ops.iter().map(as_write).collect();
        prop_assert_eq!(batch.stamped(STAMP).collect::<Vec<_>>(), expected.clone());
        let parsed = WriteBatchRef::parse(batch.as_bytes()).unwrap();
        prop_assert_eq!(parsed.stamped(STAMP).collect::<Vec<_>>(), expected);
        prop_assert_eq!(parsed.len(), ops.len());
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..64), version in 0..4_u8) {
        if !bytes.is_empty() {
            bytes[0] = version;
        }
        if let Ok(batch) = WriteBatchRef::parse(&bytes) {
            prop_assert_eq!(batch.iter().count(), batch.len());
        }
    }

    #[test]
    fn a_cut_batch_is_refused(ops in proptest::collection::vec(op(), 1..8), cut in any::<proptest::sample::Index>()) {
        let batch = batch_of(&ops);
        let kept = cut.index(batch.bytes());
        prop_assert_eq!(WriteBatchRef::parse(&batch.as_bytes()[..kept]).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn what_is_accepted_has_one_form(ops in proptest::collection::vec(op(), 1..6), at in any::<proptest::sample::Index>(), flip in 1..=255_u8) {
        let mut bytes = batch_of(&ops).as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(parsed) = WriteBatchRef::parse(&bytes) {
            let mut again = WriteBatch::new();
            again.extend(parsed);
            prop_assert_eq!(again.as_bytes(), &bytes[..]);
            prop_assert_eq!(parsed.iter().count(), parsed.len());
        }
    }

    #[test]
    fn a_prefix_keeps_every_write_inside(ops in proptest::collection::vec(op(), 0..12), prefix in proptest::collection::vec(any::<u8>(), 1..4)) {
        let mut batch = WriteBatch::with_prefix(&prefix);
        fill(&mut batch, &ops);
        let limit = prefix_successor(&prefix);
        for write in &batch {
            match write {
                Write::Put { key, .. } | Write::Delete { key } | Write::Add { key, .. } => prop_assert!(key.starts_with(&prefix)),
                Write::PutStamped { start, .. } => prop_assert!(start.starts_with(&prefix)),
                Write::Note { note } => prop_assert!(note.starts_with(&prefix)),
                Write::DeleteRange { start, end } => {
                    prop_assert!(start.starts_with(&prefix));
                    match (end, &limit) {
                        (Some(end), Some(limit)) => prop_assert!(end <= &limit[..]),
                        (Some(end), None) => prop_assert!(end.starts_with(&prefix)),
                        (None, limit) => prop_assert!(limit.is_none()),
                    }
                }
            }
        }
    }
}

#[test]
fn the_bytes_are_as_documented() {
    let mut batch = WriteBatch::with_prefix(b"p");
    batch.put(b"k", b"v").delete(b"").delete_range(b"a", Some(b"b")).delete_range(b"", None);
    let expected: &[u8] = b"\x01\x04\0\0\0\0\0\0\0\x01\x02pk\x01v\x02\x01p\x03\x02pa\x02pb\x03\x01p\x01q";
    assert_eq!(batch.as_bytes(), expected);

    let mut whole = WriteBatch::new();
    whole.delete_range(b"", None);
    assert_eq!(whole.as_bytes(), b"\x01\x01\0\0\0\0\0\0\0\x04\0");

    let mut second = WriteBatch::with_prefix(b"p");
    second.put(b"k", b"v").add(b"n", -2).put_stamped(b"s", b"e", b"v").note(b"hi");
    let expected: &[u8] = b"\x02\x04\0\0\0\0\0\0\0\x01\x02pk\x01v\
        \x05\x02pn\xfe\xff\xff\xff\xff\xff\xff\xff\x06\x02ps\x01e\x01v\x07\x03phi";
    assert_eq!(second.as_bytes(), expected);
}

#[test]
fn the_version_says_what_is_in_a_batch() {
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"1");
    assert_eq!(batch.as_bytes()[0], VERSION_1, "what an earlier build reads is written as it was");
    let mut merged = batch.clone();
    let mut note = WriteBatch::new();
    note.note(b"n");
    merged
        .extend(WriteBatchRef::parse(note.as_bytes()).unwrap())
        .extend(WriteBatchRef::parse(batch.as_bytes()).unwrap());
    assert_eq!(merged.as_bytes()[0], VERSION_2);
    assert!(WriteBatchRef::parse(merged.as_bytes()).is_ok());
    merged.clear();
    assert_eq!(merged.put(b"a", b"1").as_bytes(), batch.as_bytes());
    for (mut bytes, version) in [(batch.as_bytes().to_vec(), VERSION_2), (note.as_bytes().to_vec(), VERSION_1)] {
        bytes[0] = version;
        assert_eq!(WriteBatchRef::parse(&bytes).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn a_batch_is_used_again() {
    let mut batch = WriteBatch::with_prefix(b"p/");
    batch.put(b"a", &[7; 300]);
    let mut merged = WriteBatch::new();
    merged.put(b"x", b"y").extend(WriteBatchRef::parse(batch.as_bytes()).unwrap());
    assert_eq!(merged.len(), 2);
    assert_eq!(merged.iter().nth(1), Some(Write::Put { key: b"p/a", value: &[7; 300] }));
    batch.clear();
    assert!(batch.is_empty());
    assert_eq!(batch.iter().next(), None);
    batch.delete(b"b");
    assert_eq!(batch.iter().collect::<Vec<_>>(), vec![Write::Delete { key: b"p/b" }]);
}

#[test]
fn another_version_is_named() {
    let mut bytes = WriteBatch::new().as_bytes().to_vec();
    bytes[0] = 3;
    let error = WriteBatchRef::parse(&bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownVersion);
    assert!(error.to_string().contains("version 3"), "{error}");
}

#[test]
fn a_length_has_one_form() {
    // 0x80 0x00 is a long form of zero.
    let bytes = [VERSION_1, 1, 0, 0, 0, 0, 0, 0, 0, DELETE, 0x80, 0x00];
    assert_eq!(WriteBatchRef::parse(&bytes).unwrap_err().kind(), ErrorKind::Corrupt);
    let huge = [&[VERSION_1, 1, 0, 0, 0, 0, 0, 0, 0, DELETE][..], &[0xff; 9], &[0x01]].concat();
    assert_eq!(WriteBatchRef::parse(&huge).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_key_and_a_value_in_parts_are_the_same_as_in_one() {
    let long = [7; 300];
    let (mut whole, mut parts) = (WriteBatch::with_prefix(b"p7/"), WriteBatch::with_prefix(b"p7/"));
    whole.put(b"abc", &[b"1", &long[..]].concat()).put(b"", b"");
    parts.put_parts(&[b"a", b"", b"bc"], &[b"1", &long]).put_parts(&[], &[]);
    assert_eq!(parts.as_bytes(), whole.as_bytes());
    assert_eq!(parts.len(), 2);
}
