use std::sync::Arc;

use mainstay_core::format::golden::{Golden, damaged, longer};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn session() -> SessionKey {
    SessionKey {
        session: 0x0102_0304,
        lane: 7,
        number: 300,
        expires: WallTime::from_millis(1 << 40),
        is_repeated: true,
    }
}

fn full() -> CallRequest<'static> {
    CallRequest {
        service: "counter",
        partition: PartitionId(12),
        actor: Some(ActorId::Text("alice".into())),
        interface: "Counter",
        method: "add",
        key: Some(WireKey::Session(session())),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        epoch: Some(Epoch(9)),
        chain: vec![
            ChainTurn { service: "ledger", actor: Some(ActorId::Number(-1)), method: "move" },
            ChainTurn { service: "front", actor: None, method: "serve" },
            ChainTurn { service: "owner", actor: Some(ActorId::Uuid(Uuid::from_bytes([7; 16]))), method: "open" },
        ],
        arguments: Bytes::from_static(b"\x81\xa1n\x05"),
    }
}

fn plain() -> CallRequest<'static> {
    CallRequest {
        actor: None,
        key: None,
        traceparent: None,
        epoch: None,
        chain: Vec::new(),
        arguments: Bytes::from_static(b"\x80"),
        ..full()
    }
}

fn given() -> CallRequest<'static> {
    CallRequest { key: Some(WireKey::Given("order 7".into())), ..full() }
}

#[test]
fn golden_calls_are_what_is_written_and_read() {
    let golden = Golden::of(env!("CARGO_MANIFEST_DIR"));
    for (name, request) in [("call-full", full()), ("call-plain", plain()), ("call-given-key", given())] {
        golden.check(name, &CALL_REQUEST, &request.encode().unwrap());
        for version in CALL_REQUEST.oldest()..=CALL_REQUEST.newest() {
            let kept = Bytes::from(golden.read(name, version));
            assert_eq!(CallRequest::decode(&kept).unwrap(), request);
            assert_eq!(CallRequest::decode(&longer(&kept).into()).unwrap(), request);
        }
    }
}

#[test]
fn damaged_calls_never_panic_and_none_is_cut_off_unseen() {
    for request in [full(), plain(), given()] {
        let bytes = request.encode().unwrap();
        for (what, damaged) in damaged(&bytes) {
            let is_cut = damaged.len() < bytes.len();
            if CallRequest::decode(&damaged.into()).is_ok() {
                assert!(!is_cut, "{what}");
            }
        }
    }
    let later = Bytes::from(vec![CALL_REQUEST.newest() + 1, 0]);
    assert_eq!(CallRequest::decode(&later).unwrap_err().kind(), ErrorKind::UnknownVersion);
}

#[test]
fn what_is_beyond_a_bound_is_refused_on_both_sides() {
    let turn = ChainTurn { service: "s", actor: None, method: "m" };
    let long = CallRequest { chain: vec![turn; CHAIN_MAX + 1], ..plain() };
    assert_eq!(long.encode().unwrap_err().kind(), ErrorKind::Invalid);
    let large = CallRequest { arguments: vec![0; REQUEST_BYTES_MAX].into(), ..plain() };
    assert_eq!(large.encode().unwrap_err().kind(), ErrorKind::TooLarge);
    let name = "x".repeat(256);
    assert_eq!(CallRequest { method: &name, ..plain() }.encode().unwrap_err().kind(), ErrorKind::Invalid);
    let large = Bytes::from(vec![1; REQUEST_BYTES_MAX + 1]);
    assert_eq!(CallRequest::decode(&large).unwrap_err().kind(), ErrorKind::TooLarge);
}

fn ids() -> impl Strategy<Value = ActorId> {
    prop_oneof![
        any::<i64>().prop_map(ActorId::Number),
        any::<u128>().prop_map(|bits| ActorId::Uuid(Uuid::from_u128(bits))),
        ".{0,40}".prop_map(|text| ActorId::Text(text.into())),
    ]
}

fn keys() -> impl Strategy<Value = Option<WireKey>> {
    prop_oneof![
        Just(None),
        ".{1,40}".prop_map(|key| Some(WireKey::Given(Arc::from(key)))),
        (any::<u64>(), any::<u16>(), any::<u64>(), any::<u64>(), any::<bool>()).prop_map(
            |(session, lane, number, expires, is_repeated)| {
                let expires = WallTime::from_millis(expires);
                Some(WireKey::Session(SessionKey { session, lane, number, expires, is_repeated }))
            }
        ),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        names in proptest::array::uniform3("[a-zA-Z.]{1,20}"),
        partition in any::<u64>(),
        actor in proptest::option::of(ids()),
        key in keys(),
        traceparent in proptest::option::of("[0-9a-f-]{1,55}"),
        epoch in proptest::option::of(any::<u64>()),
        turns in proptest::collection::vec(("[a-z]{1,9}", proptest::option::of(ids()), "[a-z]{1,9}"), 0..5),
        arguments in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let [service, interface, method] = &names;
        let chain = turns.iter().map(|(service, actor, method)| ChainTurn { service, actor: actor.clone(), method });
        let request = CallRequest {
            service, partition: PartitionId(partition), actor, interface, method, key,
            traceparent: traceparent.as_deref(), epoch: epoch.map(Epoch), chain: chain.collect(), arguments: arguments.into(),
        };
        let bytes = request.encode().unwrap();
        prop_assert_eq!(CallRequest::decode(&bytes).unwrap(), request);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
        let bytes = Bytes::from([&[CALL_REQUEST.newest()][..], &bytes].concat());
        let _ = CallRequest::decode(&bytes);
    }
}
