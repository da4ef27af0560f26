use proptest::prelude::*;

use super::*;

fn header(frame_type: FrameType) -> Header {
    Header {
        version: 1,
        frame_type,
        is_first: true,
        is_last: true,
        wants_answer: frame_type == FrameType::Request,
        class: Class::Call,
        kind: Kind::call(7),
        id: 0x0102_0304_0506_0708,
        message_bytes: 5,
        remaining_ms: Some(2500),
    }
}

fn encoded(header: &Header, payload: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    header.encode(payload, &mut out);
    out
}

#[test]
fn a_frame_is_read_as_it_was_written_and_not_before_it_is_whole() {
    for code in 0..=255 {
        let mut header = header(FrameType::from_code(code));
        for bits in 0..16 {
            header.is_first = bits & 1 != 0;
            header.is_last = bits & 2 != 0;
            header.wants_answer = bits & 4 != 0;
            header.remaining_ms = (bits & 8 != 0).then_some(bits);
            let bytes = encoded(&header, b"hello");
            let decoded = Header::decode(&bytes, Lane::Data, 1).unwrap().unwrap();
            assert_eq!((decoded.header, decoded.payload, decoded.length), (header, &b"hello"[..], 37));
        }
    }
    let bytes = encoded(&header(FrameType::Request), b"hello");
    for end in 0..bytes.len() {
        assert_eq!(Header::decode(&bytes[..end], Lane::Data, 1).unwrap(), None);
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = encoded(&header(FrameType::Request), b"hello");
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        // A length that is changed to a larger one waits for more bytes, or is too large.
        assert!(!matches!(Header::decode(&bytes, Lane::Data, 1), Ok(Some(_))), "bit {bit}");
    }
}

#[test]
fn a_length_that_no_frame_has_is_refused_before_the_frame_is_there() {
    for (length, lane) in
        [(0, Lane::Data), (27, Lane::Data), (u32::MAX, Lane::Bulk), (5 << 10, Lane::Heartbeat), (17 << 10, Lane::Data)]
    {
        let error = Header::decode(&u32::to_le_bytes(length), lane, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(&length.to_string()), "{error}");
    }
}

#[test]
fn a_header_that_a_later_version_has_made_longer_is_read() {
    let mut later = encoded(&header(FrameType::Notice), b"new field hello");
    let length = later.len();
    later[14] = (HEADER_BYTES + 10) as u8;
    let sum = checksum(&later[..4], &later[8..]);
    later[4..8].copy_from_slice(&sum.to_le_bytes());
    let decoded = Header::decode(&later, Lane::Data, 1).unwrap().unwrap();
    assert_eq!((decoded.payload, decoded.length), (&b"hello"[..], length));
    assert_eq!(decoded.header.id, 0x0102_0304_0506_0708);
}

#[test]
fn a_frame_of_another_version_or_connection_is_refused() {
    let bytes = encoded(&header(FrameType::Request), b"");
    assert_eq!(Header::decode(&bytes, Lane::Data, 2).unwrap_err().kind(), ErrorKind::UnknownVersion);
    assert_eq!(Header::decode(&bytes, Lane::Bulk, 1).unwrap_err().kind(), ErrorKind::Corrupt);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), lane in 0u8..3, valid_sum: bool) {
        let lane = Lane::from_code(lane).unwrap();
        let mut bytes = bytes;
        if valid_sum && bytes.len() >= HEADER_BYTES {
            let length = (bytes.len() - LENGTH_BYTES) as u32;
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            bytes[8] = 1;
            let sum = checksum(&bytes[..4], &bytes[8..]);
            bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        }
        if let Ok(Some(decoded)) = Header::decode(&bytes, lane, 1) {
            prop_assert!(decoded.length <= bytes.len());
            prop_assert!(decoded.payload.len() <= lane.fragment_bytes_max());
        }
    }
}
