//! A state that comes in damaged, cut off or under a wrong name is refused, and the replica goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::time::{self, Duration};
use mainstay_core::{Level, NodeId, PartitionId, ReplicaId, SetId};
use mainstay_store::disk::Disk as _;
use mainstay_store::disk::sim::SimDisk;
use mainstay_store::log::MemoryLog;
use mainstay_store::state::{DiskStore, DiskStoreOptions, MemoryStore, StateStore};

use crate::in_process::InProcessNetwork;
use crate::message::{Envelope, Request, Response};
use crate::options::ReplicaOptions;
use crate::raft::{SnapshotMeta, Vote, log_id, vote};
use crate::replica::{Identity, Replica};
use crate::role_state::Role;
use crate::state_machine::Position;
use crate::tests::CLUSTER;

const SET: SetId = SetId { level: Level::Volatile, number: 0 };

async fn start(id: u64, store: Arc<dyn StateStore>) -> Replica {
    let identity = Identity { cluster: CLUSTER, set: SET, replica: ReplicaId(id), node: NodeId(id), data_loss: 0 };
    let transport = InProcessNetwork::new().endpoint(NodeId(id));
    Replica::start(identity, ReplicaOptions::default(), Arc::new(MemoryLog::new()), store, transport).await.unwrap()
}

/// A state as a primary would send it: its chunks and what they are announced as.
async fn sent() -> (Vec<Bytes>, SnapshotMeta) {
    let source = start(1, Arc::new(MemoryStore::new())).await;
    source.bootstrap(&BTreeMap::from([(ReplicaId(1), NodeId(1))])).await.unwrap();
    source.watch().wait_for(|role_state| role_state.role == Role::Primary).await.unwrap();
    let partition = source.partition(PartitionId(1));
    for number in 0..30_u32 {
        let mut batch = partition.batch();
        batch.put(&number.to_be_bytes(), &[number as u8; 60_000]);
        partition.commit(batch).await.unwrap();
    }
    let snapshot = source.store().snapshot().unwrap();
    let meta = Position::from_mark(&snapshot.mark()).unwrap().meta();
    let chunks: Vec<Bytes> = snapshot.export().unwrap().map(Result::unwrap).collect();
    assert!(chunks.len() >= 3);
    source.stop().await;
    (chunks, meta)
}

async fn ask(replica: &Replica, request: Request) -> Response {
    let envelope = Envelope { cluster: CLUSTER, to: Some(ReplicaId(2)), request };
    Response::decode(replica.receive_unchecked(envelope.encode()).await).unwrap()
}

/// Sends a stream as a peer that leads in a high epoch; true if it was put in force.
async fn send(replica: &Replica, transfer: u64, chunks: &[Bytes], meta: &SnapshotMeta) -> bool {
    send_as(replica, transfer, chunks, meta, vote(50, 1, true)).await
}

async fn send_as(replica: &Replica, transfer: u64, chunks: &[Bytes], meta: &SnapshotMeta, vote: Vote) -> bool {
    for (number, chunk) in (0..).zip(chunks) {
        let piece = Request::SnapshotChunk { transfer, number, chunk: chunk.clone() };
        if !matches!(ask(replica, piece).await, Response::Done) {
            return false;
        }
    }
    let end = Request::SnapshotEnd { transfer, chunks: chunks.len() as u64, vote, meta: meta.clone() };
    matches!(ask(replica, end).await, Response::Snapshot(_))
}

async fn bad_states_are_refused_and_a_good_one_is_taken(store: Arc<dyn StateStore>) {
    let (chunks, meta) = sent().await;
    let replica = start(2, store).await;
    let before = replica.store().mark();

    assert!(!send(&replica, 1, &chunks[..chunks.len() - 1], &meta).await, "a stream without its end");
    assert!(!send(&replica, 2, &[], &meta).await, "an empty stream");
    let mut altered = chunks.clone();
    let mut bytes = altered[1].to_vec();
    bytes[1000] ^= 1;
    altered[1] = bytes.into();
    assert!(!send(&replica, 3, &altered, &meta).await, "a stream that was altered");
    let lies = [
        SnapshotMeta { last_log_id: Some(log_id(1, 1_000)), ..meta.clone() },
        SnapshotMeta { last_log_id: Some(log_id(49, meta.last_log_id.unwrap().index)), ..meta.clone() },
        SnapshotMeta { last_log_id: meta.last_log_id, ..SnapshotMeta::default() },
    ];
    for (transfer, lie) in (4..).zip(lies) {
        assert!(!send(&replica, transfer, &chunks, &lie).await, "announced as {lie:?}");
    }
    for (transfer, sender) in (7..).zip([vote(0, 1, true), vote(50, 1, false), vote(50, 2, true)]) {
        assert!(!send_as(&replica, transfer, &chunks, &meta, sender).await, "of one who cannot have sent it: {sender}");
    }
    assert!(replica.inner.raft.with_raft_state(|_| ()).await.is_ok(), "openraft goes on");
    assert_eq!(replica.status().failure, None, "the replica goes on");
    assert_eq!(replica.store().mark(), before, "nothing was changed");

    assert!(send(&replica, 20, &chunks, &meta).await);
    assert_eq!(Position::from_mark(&replica.store().mark()).unwrap().meta(), meta);
    let again: Vec<Bytes> = replica.store().snapshot().unwrap().export().unwrap().map(Result::unwrap).collect();
    assert!(again == chunks);
    replica.stop().await;
}

#[tokio::test(start_paused = true)]
async fn in_memory() {
    bad_states_are_refused_and_a_good_one_is_taken(Arc::new(MemoryStore::new())).await;
}

#[tokio::test(start_paused = true)]
async fn on_disk() {
    let disk = Arc::new(SimDisk::new(1));
    let store = DiskStore::open(disk, std::path::Path::new("/state"), DiskStoreOptions::default()).unwrap();
    bad_states_are_refused_and_a_good_one_is_taken(Arc::new(store)).await;
}

#[tokio::test(start_paused = true)]
async fn a_state_whose_rest_never_comes_is_given_up_and_its_file_removed() {
    let disk = SimDisk::new(1);
    let store = DiskStore::open(Arc::new(disk.clone()), std::path::Path::new("/state"), DiskStoreOptions::default());
    let (chunks, meta) = sent().await;
    let replica = start(2, Arc::new(store.unwrap())).await;
    let imports = || {
        let names = disk.list(std::path::Path::new("/")).unwrap();
        names.into_iter().filter(|name| name.contains("import")).count()
    };
    let piece = |transfer, number: usize| Request::SnapshotChunk {
        transfer,
        number: number as u64,
        chunk: chunks[number].clone(),
    };
    // As slow as a sender can be that has not given up.
    let patience = Duration::from_secs(60);
    for number in 0..2 {
        assert!(matches!(ask(&replica, piece(1, number)).await, Response::Done));
        time::sleep(patience).await;
        assert_eq!(imports(), 1, "the next piece may still come");
    }
    // One that starts over just before the first is given up is not given up with it.
    time::sleep(patience - Duration::from_millis(1)).await;
    assert!(matches!(ask(&replica, piece(2, 0)).await, Response::Done));
    time::sleep(patience).await;
    assert!(matches!(ask(&replica, piece(2, 1)).await, Response::Done));

    let gone = async {
        while imports() > 0 {
            time::sleep(Duration::from_secs(1)).await;
        }
    };
    time::timeout(Duration::from_secs(600), gone).await.expect("its file is removed");
    assert!(matches!(ask(&replica, piece(2, 2)).await, Response::Failed(_)), "it starts over");
    assert!(send(&replica, 3, &chunks, &meta).await, "and can");
    assert_eq!(imports(), 0);
    replica.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pieces_and_the_end_may_come_again() {
    let (chunks, meta) = sent().await;
    let replica = start(2, Arc::new(MemoryStore::new())).await;
    let piece = |transfer, number: usize| Request::SnapshotChunk {
        transfer,
        number: number as u64,
        chunk: chunks[number].clone(),
    };
    let end = |transfer| Request::SnapshotEnd {
        transfer,
        chunks: chunks.len() as u64,
        vote: vote(50, 1, true),
        meta: meta.clone(),
    };
    assert!(matches!(ask(&replica, piece(1, 0)).await, Response::Done));
    assert!(matches!(ask(&replica, piece(1, 0)).await, Response::Done), "its answer may have been lost");
    assert!(matches!(ask(&replica, piece(1, 1)).await, Response::Done));
    assert!(matches!(ask(&replica, piece(1, 0)).await, Response::Failed(_)), "nobody waits for this one any more");
    for number in 2..chunks.len() {
        assert!(matches!(ask(&replica, piece(1, number)).await, Response::Done), "and nothing was lost by it");
    }
    // Asked twice at once, as who does not get an answer does.
    let (first, second) = tokio::join!(ask(&replica, end(1)), ask(&replica, end(1)));
    for answer in [first, second, ask(&replica, end(1)).await] {
        assert!(matches!(answer, Response::Snapshot(installed) if installed == vote(50, 1, true)), "{answer:?}");
    }
    assert_eq!(Position::from_mark(&replica.store().mark()).unwrap().meta(), meta);
    assert!(matches!(ask(&replica, end(7)).await, Response::Failed(_)), "that is another transfer");
    replica.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_piece_of_what_is_over_does_not_disturb_the_next() {
    let (chunks, meta) = sent().await;
    let replica = start(2, Arc::new(MemoryStore::new())).await;
    let begin = |transfer| Request::SnapshotChunk { transfer, number: 0, chunk: chunks[0].clone() };
    assert!(matches!(ask(&replica, begin(1)).await, Response::Done));
    assert!(matches!(ask(&replica, begin(2)).await, Response::Done));
    assert!(matches!(ask(&replica, begin(1)).await, Response::Failed(_)), "another has taken its place");
    let next = Request::SnapshotChunk { transfer: 2, number: 1, chunk: chunks[1].clone() };
    assert!(matches!(ask(&replica, next).await, Response::Done));
    assert!(send(&replica, 3, &chunks, &meta).await);
    assert!(matches!(ask(&replica, begin(3)).await, Response::Failed(_)), "it is in force already");
    replica.stop().await;
}
