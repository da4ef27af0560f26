//! Bytes that were written by this version are read by every later one: files under `tests/golden`, one folder per version.
//!
//! A new version gets a new folder. A file is written by a run with `MAINSTAY_WRITE_GOLDEN=1`, and never again.

use std::path::PathBuf;

use bytes::BytesMut;
use mainstay_core::time::WallTime;
use mainstay_core::{ClusterId, NodeId};
use mainstay_wire::frame::{FrameType, Header};
use mainstay_wire::hello::{Hello, HelloAnswer, Refusal, RefusalCode};
use mainstay_wire::tls::{AuthorityHash, JoinToken, Secret};
use mainstay_wire::{Class, Kind, Lane, Sender, SessionId, Window};

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", "v1", name].iter().collect()
}

/// The text of a golden file; what is written today is what it says.
fn golden(name: &str, today: &str) -> String {
    let path = file(name);
    if std::env::var_os("MAINSTAY_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{today}\n")).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(kept.trim_end(), today, "{name}: the bytes have changed, which takes a new version");
    kept.trim_end().to_owned()
}

fn hex(bytes: &[u8]) -> String {
    let lines =
        bytes.chunks(16).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

fn unhex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn hellos() -> Vec<(&'static str, Hello)> {
    let node = Hello {
        protocol_min: 1,
        protocol_max: 1,
        lane: Lane::Data,
        sender: Sender::Node(NodeId(7)),
        cluster: Some(ClusterId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10)),
        session: SessionId(0),
        boot: 3,
        sequence: 42,
        features: 5,
        wall: WallTime::from_millis(1_770_120_000_000),
        windows: Class::ALL.map(Window::default_of),
    };
    let client = Hello {
        lane: Lane::Bulk,
        sender: Sender::client("web-1").unwrap(),
        cluster: None,
        session: SessionId(0x1122_3344),
        boot: 0,
        ..node.clone()
    };
    let operator = Hello { sender: Sender::operator("ann").unwrap(), ..client.clone() };
    let joining = Hello { sender: Sender::Joining, ..client.clone() };
    vec![("hello-node", node), ("hello-client", client), ("hello-operator", operator), ("hello-joining", joining)]
}

#[test]
fn hellos_and_refusals_are_read() {
    for (name, hello) in hellos() {
        let bytes = unhex(&golden(&format!("{name}.hex"), &hex(&hello.encode())));
        let (prefix, body) = bytes.split_first_chunk().unwrap();
        assert_eq!(Hello::decode(prefix, body).unwrap(), hello, "{name}");
    }
    let refusal = Refusal::new(RefusalCode::Removed, "node n7 was removed from this cluster");
    let bytes = unhex(&golden("refusal.hex", &hex(&refusal.encode())));
    let (prefix, body) = bytes.split_first_chunk().unwrap();
    assert_eq!(HelloAnswer::decode(prefix, body).unwrap(), HelloAnswer::Refused(refusal));
}

#[test]
fn frames_are_read() {
    use FrameType::*;
    for (name, frame_type, class, lane, payload) in [
        ("request", Request, Class::Call, Lane::Data, &b"hello"[..]),
        ("notice", Notice, Class::Event, Lane::Data, b"tick"),
        ("answer", Answer, Class::Reply, Lane::Data, b"world"),
        ("failure", Failure, Class::Bulk, Lane::Bulk, b"\x82\xa4kind\xa5retry\xa7message\xa1x"),
        ("cancel", Cancel, Class::Reply, Lane::Data, b""),
        ("credit", Credit, Class::Reply, Lane::Data, b"\x03\x02\0\0\0\0\x01\0\0\0\0\0\0"),
        ("ping", Ping, Class::Heartbeat, Lane::Heartbeat, b""),
        ("pong", Pong, Class::Heartbeat, Lane::Heartbeat, b""),
        ("goodbye", Goodbye, Class::Bulk, Lane::Bulk, b""),
    ] {
        let header = Header {
            version: 1,
            frame_type,
            is_first: true,
            is_last: frame_type != Request,
            wants_answer: frame_type == Request,
            class,
            kind: Kind::call(7),
            id: 0x0000_0009_0000_0004,
            message_bytes: if frame_type == Request { 20_000 } else { payload.len() as u32 },
            remaining_ms: (frame_type == Request).then_some(2_500),
        };
        let mut bytes = BytesMut::new();
        header.encode(payload, &mut bytes);
        let bytes = unhex(&golden(&format!("frame-{name}.hex"), &hex(&bytes)));
        let decoded = Header::decode(&bytes, lane, 1).unwrap().unwrap();
        assert_eq!((decoded.header, decoded.payload, decoded.length), (header, payload, bytes.len()), "{name}");
    }
}

#[test]
fn tokens_are_read() {
    let seeds = ["10.0.0.5:7400", "[::1]:7400", "node.example:7400"].map(|seed| seed.parse().unwrap()).to_vec();
    let expires = WallTime::from_millis(1_770_120_000_000);
    let token = JoinToken::new(seeds, ClusterId(7), AuthorityHash([0xab; 32]), Secret::from_bytes([0xcd; 32]), expires)
        .unwrap();
    let text = golden("join-token.txt", &token.to_text());
    assert_eq!(text.parse::<JoinToken>().unwrap(), token);
}
