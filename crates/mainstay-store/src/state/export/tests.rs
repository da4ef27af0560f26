use proptest::prelude::*;

use super::*;

fn chunks(entries: &[(&[u8], &[u8])], mark: Mark) -> Vec<Bytes> {
    let entries: Vec<Result<(Bytes, Bytes)>> =
        entries.iter().map(|(key, value)| Ok((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)))).collect();
    ChunkWriter::new(Box::new(entries.into_iter()), mark).map(Result::unwrap).collect()
}

#[test]
fn the_bytes_are_as_documented() {
    let stream = chunks(&[(b"k", b"va")], Mark { index: 7, note: "n".into() });
    let [entries, trailer] = &stream[..] else { panic!("{} chunks", stream.len()) };
    let mut expected = b"MSXP\x01\x01\0\0\0\0\0\0\0\0\0\0".to_vec();
    let first = crc32c::crc32c(b"MSXP\x01\x01\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0kva");
    expected.extend_from_slice(&first.to_le_bytes());
    expected.extend_from_slice(b"\x01\0\0\0\x02\0\0\0kva");
    assert_eq!(entries, &expected);

    let head = b"MSXP\x01\x02\0\0\x01\0\0\0\0\0\0\0";
    let body = b"\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0n";
    let second = crc32c::crc32c_append(first, &[&head[..], body].concat());
    assert_eq!(trailer, &[&head[..], &second.to_le_bytes(), body].concat());
}

#[test]
fn a_failed_scan_ends_the_stream_without_its_trailer() {
    let entries = vec![Ok((Bytes::from("a"), Bytes::new())), Err(Error::corrupt("damaged"))];
    let stream: Vec<Result<Bytes>> = ChunkWriter::new(Box::new(entries.into_iter()), Mark::default()).collect();
    assert_eq!(stream.len(), 1);
    assert!(stream[0].is_err());
}

#[test]
fn keys_out_of_order_are_refused() {
    let stream = chunks(&[(b"b", b""), (b"a", b"")], Mark::default());
    let error = ChunkReader::default().accept(&stream[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("not in order"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_are_taken_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), sealed in any::<bool>()) {
        if sealed && bytes.len() >= HEAD_BYTES {
            // As if written by us: only the body is arbitrary.
            bytes[..4].copy_from_slice(&MAGIC);
            bytes[VERSION_AT] = formats::EXPORT.written();
            bytes[5] = 1 + bytes[5] % 2;
            bytes[8..16].fill(0);
            let sum = checksum(0, &bytes);
            bytes[CHECKSUM_AT..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
        }
        let mut reader = ChunkReader::default();
        if let Ok(entries) = reader.accept(&bytes) {
            prop_assert_eq!(entries.count() as u64, reader.counts.entries);
        }
    }
}
