use proptest::prelude::*;

use super::*;

fn hello(sender: Sender) -> Hello {
    let mut windows = [Window::default(); Class::COUNT];
    for (window, number) in windows.iter_mut().zip(1u32..) {
        *window = Window { messages: number, bytes: u64::from(number) << 20 };
    }
    Hello {
        protocol_min: 1,
        protocol_max: 3,
        lane: Lane::Data,
        sender,
        cluster: Some(ClusterId(0xabcd)),
        session: SessionId(9),
        boot: 4,
        sequence: 5,
        features: 6,
        wall: WallTime::from_millis(1_770_120_000_000),
        windows,
    }
}

fn split(bytes: &[u8]) -> (&[u8; PREFIX_BYTES], &[u8]) {
    bytes.split_first_chunk().unwrap()
}

#[test]
fn a_hello_is_read_as_it_was_written() {
    let senders =
        [Sender::Node(NodeId(7)), Sender::client("web").unwrap(), Sender::operator("ann").unwrap(), Sender::Joining];
    for sender in senders {
        let mut hello = hello(sender);
        for cluster in [None, Some(ClusterId(1))] {
            hello.cluster = cluster;
            let bytes = hello.encode();
            let (prefix, body) = split(&bytes);
            assert_eq!(body_bytes(prefix).unwrap(), body.len());
            assert_eq!(Hello::decode(prefix, body).unwrap(), hello);
            assert_eq!(HelloAnswer::decode(prefix, body).unwrap(), HelloAnswer::Welcome(Box::new(hello.clone())));
        }
    }
}

#[test]
fn a_refusal_is_read_as_it_was_written_and_is_no_hello() {
    for code in 0..=255 {
        let refusal = Refusal::new(RefusalCode::from_code(code), "n7 was removed");
        let bytes = refusal.encode();
        let (prefix, body) = split(&bytes);
        assert_eq!(HelloAnswer::decode(prefix, body).unwrap(), HelloAnswer::Refused(refusal));
        assert!(Hello::decode(prefix, body).is_err());
    }
    let bytes = Refusal::new(RefusalCode::Full, "ä".repeat(2000) + "\x1b[31m").encode();
    let (prefix, body) = split(&bytes);
    assert!(body_bytes(prefix).unwrap() <= BODY_BYTES_MAX);
    HelloAnswer::decode(prefix, body).unwrap();
    let bytes = Refusal::new(RefusalCode::Full, "a\x1b[31mb").encode();
    let (prefix, body) = split(&bytes);
    let HelloAnswer::Refused(refusal) = HelloAnswer::decode(prefix, body).unwrap() else { panic!() };
    assert_eq!(refusal.text, "a [31mb");
}

#[test]
fn fields_and_classes_of_a_later_version_are_skipped() {
    let hello = hello(Sender::Node(NodeId(7)));
    let bytes = hello.encode();
    let mut body = bytes[PREFIX_BYTES..].to_vec();
    let classes = body.len() - Class::COUNT * 12 - 1;
    body[classes] += 1;
    body.extend_from_slice(&[9; 12]);
    body.extend_from_slice(b"a field that comes later");
    let later = framed(MAGIC, &body);
    let (prefix, body) = split(&later);
    assert_eq!(Hello::decode(prefix, body).unwrap(), hello);
}

#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    let bytes = hello(Sender::client("web").unwrap()).encode();
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (prefix, body) = split(&bytes);
        assert!(body_bytes(prefix).and_then(|_| Hello::decode(prefix, body)).is_err(), "bit {bit}");
    }
    let body = &bytes[PREFIX_BYTES..];
    for end in 0..body.len() {
        let cut = framed(MAGIC, &body[..end]);
        let (prefix, body) = split(&cut);
        assert_eq!(Hello::decode(prefix, body).unwrap_err().kind(), ErrorKind::Corrupt, "{end}");
    }
}

#[test]
fn strangers_are_told_from_friends() {
    let of = |bytes: &[u8; 12]| body_bytes(bytes).unwrap_err().to_string();
    assert!(of(b"GET / HTTP/1").contains("does not speak this protocol"));
    assert!(of(&[0x16, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]).contains("TLS"));
    assert!(of(b"MSTY\x01\0\xff\xff\0\0\0\0").contains("65535"));
}

proptest! {
    #[test]
    fn no_bytes_panic(body in prop::collection::vec(any::<u8>(), 0..300), refused: bool) {
        let bytes = framed(if refused { MAGIC_REFUSED } else { MAGIC }, &body);
        let (prefix, body) = split(&bytes);
        let _ = body_bytes(prefix);
        let _ = Hello::decode(prefix, body);
        let _ = HelloAnswer::decode(prefix, body);
    }
}
