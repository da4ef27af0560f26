use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mainstay_core::format::golden::{Golden, damaged};
use mainstay_core::partitioning::Partitioning;
use mainstay_core::time::{self, Duration, WallTime};
use mainstay_core::{ClusterId, Epoch, ErrorKind, Level, NodeId, PartitionId, ReplicaId, SetId, contract};
use mainstay_replica::{Identity, InProcessNetwork, Partition, Replica, ReplicaOptions, Role};
use mainstay_store::log::MemoryLog;
use mainstay_store::state::MemoryStore;
use serde::{Deserialize, Serialize};

use super::codec::encode;
use super::key::RecordKey;
use super::record::*;
use super::*;
use crate::formats::CONTROL_RECORD;

const CLUSTER: ClusterId = ClusterId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);

/// One record of each kind, with every field set.
fn sample() -> ControlState {
    let set = SetId { level: Level::Volatile, number: 3 };
    let cluster = ClusterRecord {
        id: CLUSTER,
        profile: TimingProfile::Fast,
        active_version: 1,
        replicas_target: 3,
        replicas_min: 2,
        sets_per_level: 8,
        next_node: 4,
        next_replica: 300,
        next_partition: 26,
        next_operation: 2,
    };
    let node = NodeRecord {
        id: NodeId(3),
        state: NodeState::Up,
        boot: 7,
        session: 0xabc,
        addresses: BTreeMap::from([(PEER_ADDRESS.to_owned(), "n3.example:7400".to_owned())]),
        fault_domain: "eu/a/r1".to_owned(),
        program: "0.1.0".to_owned(),
        version_min: 1,
        version_max: 1,
        types: BTreeSet::from(["Counter".to_owned()]),
        control_replica: ReplicaId(5),
        join_request: 0xdef,
    };
    let members = MemberList {
        voters: BTreeMap::from([(ReplicaId(11), NodeId(1)), (ReplicaId(12), NodeId(2)), (ReplicaId(13), NodeId(3))]),
        learners: BTreeMap::from([(ReplicaId(14), NodeId(4))]),
    };
    let set_record = SetRecord {
        id: set,
        data_loss: 2,
        wanted: members.clone(),
        confirmed: MemberList::alone(ReplicaId(11), NodeId(1)),
        confirmed_epoch: Epoch(9),
        founder: ReplicaId(11),
        lost: BTreeSet::from([ReplicaId(10)]),
        retired: BTreeSet::from([ReplicaId(u64::MAX)]),
    };
    let service = ServiceRecord {
        name: "Counter".to_owned(),
        kind: ServiceKind::Actors,
        level: Level::Volatile,
        partitioning: Partitioning::uniform(2),
        partitions: vec![PlacedPartition { id: PartitionId(16), set }, PlacedPartition { id: PartitionId(17), set }],
        interfaces: BTreeSet::from(["Counter".to_owned()]),
        call_timeout_ms: Some(30_000),
    };
    let operation = OperationRecord {
        id: 1,
        what: Operation::RemoveNode { node: NodeId(3) },
        since: WallTime::from_millis(1_770_120_000_000),
    };
    let gate = GateRecord { name: "orders-v2".to_owned(), is_open: true };
    let token = TokenRecord { hash: [7; 32], expires: WallTime::from_millis(1_770_120_000_000), used_by: Some(0x1234) };
    ControlState {
        cluster: Some(cluster),
        nodes: BTreeMap::from([(node.id, node)]),
        sets: BTreeMap::from([(set, set_record)]),
        services: BTreeMap::from([(service.name.clone(), Arc::new(service))]),
        operations: BTreeMap::from([(1, operation)]),
        gates: BTreeMap::from([(gate.name.clone(), gate)]),
        tokens: BTreeMap::from([(token.hash, token)]),
        ..ControlState::default()
    }
}

async fn partition() -> (Replica, Partition) {
    let identity =
        Identity { cluster: CLUSTER, set: CONTROL_SET, replica: ReplicaId(1), node: NodeId(1), data_loss: 0 };
    let transport = InProcessNetwork::new().endpoint(NodeId(1));
    let (log, store) = (Arc::new(MemoryLog::new()), Arc::new(MemoryStore::new()));
    let replica = Replica::start(identity, ReplicaOptions::default(), log, store, transport).await.unwrap();
    replica.bootstrap(&BTreeMap::from([(ReplicaId(1), NodeId(1))])).await.unwrap();
    replica.watch().wait_for(|role_state| role_state.role == Role::Primary).await.unwrap();
    let partition = replica.partition(CONTROL_PARTITION);
    (replica, partition)
}

async fn commit(partition: &Partition, before: &ControlState, after: &ControlState) -> usize {
    let stored = partition.read().unwrap();
    let mut batch = partition.batch();
    batch.in_epoch(stored.epoch());
    let count = after.write_changes(before, &stored, &mut batch).unwrap();
    partition.commit(batch).await.unwrap();
    count
}

#[test]
fn golden_bytes_of_records_are_kept_and_damage_is_found_or_harmless() {
    let state = sample();
    let records = [
        ("cluster", encode(&CONTROL_RECORD, &state.cluster).unwrap()),
        ("node", encode(&CONTROL_RECORD, &state.nodes[&NodeId(3)]).unwrap()),
        ("set", encode(&CONTROL_RECORD, state.sets.values().next().unwrap()).unwrap()),
        ("service", encode(&CONTROL_RECORD, &*state.services["Counter"]).unwrap()),
        ("operation", encode(&CONTROL_RECORD, &state.operations[&1]).unwrap()),
        ("gate", encode(&CONTROL_RECORD, &state.gates["orders-v2"]).unwrap()),
        ("token", encode(&CONTROL_RECORD, &state.tokens[&[7; 32]]).unwrap()),
    ];
    let golden = Golden::of(env!("CARGO_MANIFEST_DIR"));
    for (name, bytes) in records {
        golden.check(&format!("control-{name}"), &CONTROL_RECORD, &bytes);
        for (_, damaged) in damaged(&bytes) {
            // The store checks its blocks; what comes from elsewhere is refused or read, and panics nowhere.
            let _ = decode::<SetRecord>(&CONTROL_RECORD, &damaged, String::new);
            let _ = decode::<NodeRecord>(&CONTROL_RECORD, &damaged, String::new);
        }
    }
}

#[test]
fn keys_are_read_as_they_are_written_and_others_are_kept_or_refused() {
    let set = SetId { level: Level::None, number: 0x0102 };
    let keys = [
        (RecordKey::Cluster, b"c".to_vec()),
        (RecordKey::Node(NodeId(3)), b"n\0\0\0\0\0\0\0\x03".to_vec()),
        (RecordKey::Set(set), b"r\x02\x01\x02".to_vec()),
        (RecordKey::Service("Counter".to_owned()), b"sCounter".to_vec()),
        (RecordKey::Operation(1), b"o\0\0\0\0\0\0\0\x01".to_vec()),
        (RecordKey::Gate("g".to_owned()), b"gg".to_vec()),
        (RecordKey::Token([1; 32]), [&b"t"[..], &[1; 32]].concat()),
    ];
    for (key, bytes) in keys {
        assert_eq!(key.encode(), bytes);
        assert_eq!(RecordKey::decode(&bytes).unwrap(), key);
    }
    assert_eq!(RecordKey::decode(b"zlater").unwrap(), RecordKey::Unknown);
    for wrong in [&b""[..], b"cx", b"n1", b"r\x03\0\0", b"r\0\0", b"s\xff", b"t"] {
        assert_eq!(RecordKey::decode(wrong).unwrap_err().kind(), ErrorKind::Corrupt, "{wrong:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_is_read_back_and_followed_change_by_change() {
    let (_replica, partition) = partition().await;
    let state = sample();
    assert_eq!(commit(&partition, &ControlState::default(), &state).await, 7);
    let mut read = ControlState::read(&partition.snapshot().unwrap()).unwrap();
    read.sequence_number = state.sequence_number;
    assert_eq!(read, state);

    let mut watch = ControlWatch::follow(partition.clone());
    let known = watch.wait_for(|known| known.cluster.is_some()).await.unwrap();
    assert_eq!(known.nodes, state.nodes);
    let mut next = state.clone();
    next.gates.clear();
    next.nodes.get_mut(&NodeId(3)).unwrap().state = NodeState::Removed;
    assert_eq!(commit(&partition, &state, &next).await, 2);
    let known = watch.wait_for(|known| known.gates.is_empty()).await.unwrap();
    assert_eq!((known.removed(), &known.sets), (BTreeSet::from([NodeId(3)]), &next.sets));
    assert_eq!(commit(&partition, &next, &next).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_missed_the_log_goes_on_from_a_snapshot() {
    let (replica, partition) = partition().await;
    let (empty, state) = (ControlState::default(), sample());
    commit(&partition, &empty, &state).await;
    replica.checkpoint().await.unwrap();
    let mut watch = ControlWatch::follow(partition.clone());
    watch.wait_for(|known| known.nodes == state.nodes).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn fields_and_records_of_a_later_program_stay_when_a_record_is_written_again() {
    #[derive(Serialize, Deserialize)]
    struct LaterGate {
        name: String,
        is_open: bool,
        colour: String,
    }
    let (_replica, partition) = partition().await;
    let later = LaterGate { name: "a".to_owned(), is_open: false, colour: "green".to_owned() };
    let mut batch = partition.batch();
    batch.put(b"ga", &encode(&CONTROL_RECORD, &later).unwrap());
    batch.put(b"zlater", b"\x09anything");
    partition.commit(batch).await.unwrap();
    let before = ControlState::read(&partition.snapshot().unwrap()).unwrap();
    let mut after = before.clone();
    after.gates.get_mut("a").unwrap().is_open = true;
    assert_eq!(commit(&partition, &before, &after).await, 1);
    let stored = partition.get(b"ga").unwrap().unwrap();
    let gate: LaterGate = contract::decode(&stored[1..]).unwrap();
    assert_eq!((gate.is_open, gate.colour.as_str()), (true, "green"));
    assert_eq!(partition.get(b"zlater").unwrap().unwrap(), &b"\x09anything"[..]);
}

#[tokio::test(start_paused = true)]
async fn a_record_of_an_unknown_version_is_refused_by_name() {
    let (_replica, partition) = partition().await;
    let mut batch = partition.batch();
    batch.put(b"n\0\0\0\0\0\0\0\x03", b"\x02later");
    partition.commit(batch).await.unwrap();
    let error = ControlState::read(&partition.snapshot().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownVersion);
    assert!(error.to_string().starts_with("the control record of node n3 has format version 2"), "{error}");
    // Following does not end by it: it is tried again.
    let watch = ControlWatch::follow(partition.clone());
    time::sleep(Duration::from_secs(1)).await;
    let mut batch = partition.batch();
    batch.delete(b"n\0\0\0\0\0\0\0\x03");
    batch.put(b"gx", &encode(&CONTROL_RECORD, &GateRecord { name: "x".to_owned(), is_open: true }).unwrap());
    partition.commit(batch).await.unwrap();
    let mut watch = watch;
    watch.wait_for(|known| known.gates.contains_key("x")).await.unwrap();
}

#[test]
fn replica_ids_are_given_once_and_only_known_ones_are_retired() {
    let mut state = sample();
    let set = SetId { level: Level::Volatile, number: 3 };
    state.cluster.as_mut().unwrap().next_replica = 10;
    // 10 to 14 are members, or were.
    let given = [state.new_replica().unwrap(), state.new_replica().unwrap()];
    assert_eq!(given, [ReplicaId(10), ReplicaId(15)]);
    assert_eq!(state.cluster().unwrap().next_replica, 16);
    for (id, is_retired) in [(9, true), (11, false), (14, false), (15, true), (16, false), (u64::MAX, true)] {
        assert_eq!(state.is_retired(set, ReplicaId(id)), is_retired, "{id}");
    }
    assert!(!state.is_retired(CONTROL_SET, ReplicaId(9)), "the set is not known here yet");
    assert_eq!(state.members(set), [NodeId(1)]);
    assert!(ControlState::default().new_replica().is_err());
}
