use mainstay_core::format::golden::{Golden, damaged, longer};

use super::*;
use crate::control::record::PlacedPartition;
use crate::control::{decode, encode};
use crate::formats::CONTROL_MESSAGE;

const SET: SetId = SetId { level: Level::Persisted, number: 3 };

fn description() -> NodeDescription {
    NodeDescription {
        addresses: BTreeMap::from([("peer".to_owned(), "n3:7400".to_owned())]),
        fault_domain: "eu/a".to_owned(),
        program: "0.1.0".to_owned(),
        version_min: 1,
        version_max: 1,
        types: BTreeSet::from(["Counter".to_owned()]),
    }
}

fn requests() -> Vec<ControlRequest> {
    vec![
        ControlRequest::Join(JoinRequest {
            request: 0x1234,
            description: description(),
            secret: Some([5; 32]),
            public_key: Some(vec![4; 65]),
            certified: Some(NodeId(9)),
        }),
        ControlRequest::Announce(Announcement { node: NodeId(3), boot: 2, session: 7, description: description() }),
        ControlRequest::Register(vec![ServiceRegistration {
            name: "Counter".to_owned(),
            kind: ServiceKind::Actors,
            level: Level::Volatile,
            partitioning: Partitioning::named(["eu", "us"]),
            interfaces: BTreeSet::from(["Counter".to_owned()]),
            call_timeout_ms: Some(1_000),
            partitions: Some(vec![PartitionId(16), PartitionId(17)]),
        }]),
        ControlRequest::Confirm(Confirmation {
            set: SET,
            replica: ReplicaId(11),
            epoch: Epoch::new(1, 9),
            members: MemberList::alone(ReplicaId(11), NodeId(3)),
        }),
        ControlRequest::SetReplicas { target: 3, min: 2 },
        ControlRequest::RemoveNode { node: NodeId(3), is_gone: true },
        ControlRequest::CreateToken { hash: [6; 32], expires: WallTime::from_millis(1_770_120_000_000) },
        ControlRequest::SetGate { name: "orders-v2".to_owned(), is_open: true },
    ]
}

fn answers() -> Vec<ControlAnswer> {
    vec![
        ControlAnswer::Joined(JoinAnswer {
            cluster: ClusterId(0xab),
            node: NodeId(3),
            control_replica: ReplicaId(5),
            peers: BTreeMap::from([(NodeId(1), "n1:7400".to_owned())]),
            profile: TimingProfile::Wan,
            certificate: Some(NodeCertificate { chain_pem: "chain".to_owned(), authority_pem: "authority".to_owned() }),
        }),
        ControlAnswer::Registered(vec![ServiceRecord {
            name: "Counter".to_owned(),
            kind: ServiceKind::Workers,
            level: Level::None,
            partitioning: Partitioning::singleton(),
            partitions: vec![PlacedPartition { id: PartitionId(16), set: SET }],
            interfaces: BTreeSet::new(),
            call_timeout_ms: None,
        }]),
        ControlAnswer::Done,
    ]
}

/// Several as one file: each behind its length.
fn joined(all: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    all.flat_map(|one| [&u32::try_from(one.len()).unwrap().to_le_bytes()[..], &one].concat()).collect()
}

#[test]
fn golden_bytes_of_messages_are_kept_and_no_others_panic() {
    let requests: Vec<_> = requests().iter().map(|request| encode(&CONTROL_MESSAGE, request).unwrap()).collect();
    let answers: Vec<_> = answers().iter().map(|answer| encode(&CONTROL_MESSAGE, answer).unwrap()).collect();
    let golden = Golden::of(env!("CARGO_MANIFEST_DIR"));
    golden.check("control-request", &CONTROL_MESSAGE, &joined(requests.iter().cloned()));
    golden.check("control-answer", &CONTROL_MESSAGE, &joined(answers.iter().cloned()));
    for (_, bytes) in requests.iter().flat_map(|bytes| damaged(bytes)) {
        let _ = decode::<ControlRequest>(&CONTROL_MESSAGE, &bytes, String::new);
    }
    for (_, bytes) in answers.iter().flat_map(|bytes| damaged(bytes)) {
        let _ = decode::<ControlAnswer>(&CONTROL_MESSAGE, &bytes, String::new);
    }
    for bytes in requests.iter().chain(&answers) {
        let _ = decode::<ControlRequest>(&CONTROL_MESSAGE, &longer(bytes), String::new);
    }
}

#[test]
fn messages_are_read_as_they_are_written() {
    for request in requests() {
        let bytes = encode(&CONTROL_MESSAGE, &request).unwrap();
        assert_eq!(decode::<ControlRequest>(&CONTROL_MESSAGE, &bytes, String::new).unwrap(), request);
    }
    for answer in answers() {
        let bytes = encode(&CONTROL_MESSAGE, &answer).unwrap();
        assert_eq!(decode::<ControlAnswer>(&CONTROL_MESSAGE, &bytes, String::new).unwrap(), answer);
    }
    let shown = format!("{:?}", requests()[0]);
    assert!(!shown.contains("secret") && !shown.contains("5, 5"), "{shown}");
}
