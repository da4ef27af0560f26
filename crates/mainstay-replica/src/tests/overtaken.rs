//! A log that ends before the state that has taken its place, with a tail of a later term than the state's: what a crash
//! during the installation of a snapshot leaves.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, Level, NodeId, PartitionId, ReplicaId, SequenceNumber, SetId};
use mainstay_store::disk::sim::SimDisk;
use mainstay_store::log::{Driver, GroupId, LogOptions, MemoryLog, NodeLog, SegmentLog, SyncDelay};
use mainstay_store::state::{DiskStore, DiskStoreOptions, MemoryStore, StateStore};
use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use openraft::storage::RaftStateMachine as _;

use crate::checkpoint_scheduler::CheckpointScheduler;
use crate::in_process::InProcessNetwork;
use crate::message::{Envelope, Request, Response};
use crate::options::ReplicaOptions;
use crate::progress::Progress;
use crate::raft::{Entry, Member, Membership, SnapshotMeta, Vote, log_id, vote};
use crate::replica::{Identity, Replica, Status};
use crate::state_machine::{Position, StateMachine};
use crate::tests::CLUSTER;

const SET: SetId = SetId { level: Level::Persisted, number: 0 };
const ME: ReplicaId = ReplicaId(2);

/// The last entry that all replicas have, the last of the log, and the last of the state.
const COMMON: u64 = 100;
const LOG_LAST: u64 = 150;
const STATE_LAST: u64 = 200;

fn membership() -> Membership {
    let members: BTreeMap<u64, Member> = (1..=3).map(|id| (id, Member { node: NodeId(id) })).collect();
    Membership::new(vec![members.keys().copied().collect()], members).unwrap()
}

fn entry(term: u64, index: u64) -> Entry {
    match index {
        0 => Entry { log_id: log_id(1, 0), payload: EntryPayload::Membership(membership()) },
        _ => Entry { log_id: log_id(term, index), payload: EntryPayload::Blank },
    }
}

/// A state at (7, 200): its chunks and what they are announced as.
async fn state() -> (Vec<Bytes>, SnapshotMeta) {
    let store: Arc<dyn StateStore> = Arc::new(MemoryStore::new());
    let (scheduler, progress) = (Arc::new(CheckpointScheduler::new(u64::MAX)), Arc::new(Progress::new(0)));
    let mut machine = StateMachine::new(store.clone(), scheduler, progress).unwrap();
    let entries: Vec<_> = (0..=STATE_LAST).map(|index| Ok((entry(7, index), None))).collect();
    machine.apply(futures_util::stream::iter(entries)).await.unwrap();
    let snapshot = store.snapshot().unwrap();
    let meta = Position::from_mark(&snapshot.mark()).unwrap().meta();
    (snapshot.export().unwrap().map(Result::unwrap).collect(), meta)
}

async fn start(log: Arc<dyn NodeLog>, store: Arc<dyn StateStore>) -> mainstay_core::Result<Replica> {
    let identity = Identity { cluster: CLUSTER, set: SET, replica: ME, node: NodeId(ME.0), data_loss: 0 };
    let transport = InProcessNetwork::new().endpoint(NodeId(ME.0));
    Replica::start(identity, ReplicaOptions::default(), log, store, transport).await
}

async fn open(disk: &SimDisk) -> mainstay_core::Result<Replica> {
    let disk = Arc::new(disk.clone());
    let driver = Driver::Task { sync_delay: SyncDelay::default() };
    let options = LogOptions { segment_bytes: 64 << 10, driver, ..LogOptions::default() };
    let log = Arc::new(SegmentLog::open(disk.clone(), Path::new("/log"), options)?);
    let store = DiskStore::open(disk, Path::new("/state"), DiskStoreOptions::default())?;
    start(log, Arc::new(store)).await
}

async fn ask(replica: &Replica, request: Request) -> Response {
    let request = Envelope { cluster: CLUSTER, to: Some(ME), request }.encode();
    let answer = time::timeout(Duration::from_secs(60), replica.receive_unchecked(request)).await;
    Response::decode(answer.expect("an answer")).unwrap()
}

async fn append(replica: &Replica, primary: Vote, prev: Option<Entry>, entries: Vec<Entry>) -> Response {
    let prev_log_id = prev.map(|entry| entry.log_id);
    ask(replica, Request::Append(AppendEntriesRequest { vote: primary, prev_log_id, entries, leader_commit: None }))
        .await
}

/// Entries up to (8, 150), of a primary that never committed the last fifty.
async fn append_a_tail(replica: &Replica) {
    let entries = (0..=LOG_LAST).map(|index| entry(if index <= COMMON { 7 } else { 8 }, index)).collect();
    let answer = append(replica, vote(8, 3, true), None, entries).await;
    assert!(matches!(answer, Response::Append(AppendEntriesResponse::Success)), "{answer:?}");
}

/// The state of the primary of term 9; true if it was put in force.
async fn send_state(replica: &Replica, transfer: u64, chunks: &[Bytes], meta: &SnapshotMeta) -> bool {
    for (number, chunk) in (0..).zip(chunks) {
        let piece = Request::SnapshotChunk { transfer, number, chunk: chunk.clone() };
        if !matches!(ask(replica, piece).await, Response::Done) {
            return false;
        }
    }
    let (chunks, vote) = (chunks.len() as u64, vote(9, 1, true));
    let end = Request::SnapshotEnd { transfer, chunks, vote, meta: meta.clone() };
    matches!(ask(replica, end).await, Response::Snapshot(_))
}

/// What the primary of term 9 sends next. The replica has it, and goes on.
async fn goes_on(replica: &Replica, what: &str) {
    let answer = append(replica, vote(9, 1, true), Some(entry(7, STATE_LAST)), vec![entry(9, STATE_LAST + 1)]).await;
    assert!(matches!(answer, Response::Append(AppendEntriesResponse::Success)), "{what}: {answer:?}");
    let status = replica.status();
    assert_eq!((status.failure, status.log_next), (None, STATE_LAST + 2), "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_log_that_ends_before_its_state_is_cut_at_the_state_whatever_its_terms() {
    let (chunks, _) = state().await;
    for term in [6, 7, 8] {
        let (log, store) = (Arc::new(MemoryLog::new()), Arc::new(MemoryStore::new()));
        let replica = start(log.clone(), store.clone()).await.unwrap();
        let entries =
            (0..=LOG_LAST).map(|index| entry(if index <= COMMON { term.min(7) } else { term }, index)).collect();
        append(&replica, vote(8, 3, true), None, entries).await;
        replica.stop().await;
        // The state is there, and the log is not cut yet.
        let mut import = store.import().unwrap();
        chunks.iter().for_each(|chunk| import.push(chunk).unwrap());
        import.finish().unwrap();

        for _ in 0..2 {
            let replica = start(log.clone(), store.clone()).await.unwrap();
            let Status { log_first, log_next, applied_next, .. } = replica.status();
            assert_eq!(
                (log_first, log_next, applied_next),
                (STATE_LAST + 1, STATE_LAST + 1, STATE_LAST + 1),
                "term {term}"
            );
            assert_eq!(log.group(GroupId(0)).first, STATE_LAST + 1, "it is cut in the log, too");
            let behind = replica.partition(PartitionId(1)).changes(SequenceNumber(0)).err().unwrap();
            assert_eq!(behind.kind(), ErrorKind::TooOld, "what was never committed is shown to nobody");
            replica.stop().await;
        }
        let replica = start(log.clone(), store.clone()).await.unwrap();
        goes_on(&replica, &format!("term {term}")).await;
        replica.stop().await;
        let replica = start(log, store).await.unwrap();
        assert_eq!(replica.status().log_next, STATE_LAST + 2);
        replica.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_operation_of_an_installation_leaves_a_replica_that_starts() {
    let (chunks, meta) = state().await;
    let (mut old, mut new, mut overtaken) = (0, 0, 0);
    for operations in 0.. {
        assert!(operations < 10_000, "an installation without end");
        let what = format!("after {operations} operations");
        let disk = SimDisk::new(operations);
        let replica = open(&disk).await.unwrap();
        append_a_tail(&replica).await;
        disk.power_off_after(operations);
        let is_installed = send_state(&replica, 1, &chunks, &meta).await;
        // What the log has to do after the answer.
        time::sleep(Duration::from_secs(1)).await;
        let is_whole = !disk.is_without_power();
        replica.kill();
        drop(replica);
        disk.crash();

        // Once more where the power goes during the start that mends it.
        for again in 0..2 {
            disk.power_off_after(if again == 0 { operations % 40 } else { u64::MAX });
            match open(&disk).await {
                Ok(replica) => replica.kill(),
                Err(error) => assert!(again == 0, "{what}: {error}"),
            }
            disk.crash();
        }
        let replica = open(&disk).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        let Status { log_next, applied_next, .. } = replica.status();
        match (applied_next, log_next) {
            (0, next) => {
                // The tail goes before the state comes.
                assert!(!is_installed && [LOG_LAST + 1, COMMON + 1].contains(&next), "{what}: {next}");
                old += 1;
                assert!(send_state(&replica, 2, &chunks, &meta).await, "{what}");
            }
            (applied, next) => {
                assert_eq!((applied, next), (STATE_LAST + 1, STATE_LAST + 1), "{what}");
                new += 1;
                overtaken += u64::from(!is_whole);
            }
        }
        goes_on(&replica, &what).await;
        replica.stop().await;
        drop(replica);
        let replica = open(&disk).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(replica.status().log_next, STATE_LAST + 2, "{what}");
        replica.kill();
        if is_whole {
            break;
        }
    }
    assert!(old > 5 && new > 1 && overtaken > 0, "{old} {new} {overtaken}");
}
