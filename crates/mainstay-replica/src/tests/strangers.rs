//! Requests from another cluster, and for another replica: each is refused by name and changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_core::{ClusterId, Level, NodeId, ReplicaId, SetId};
use mainstay_store::log::{GroupId, MemoryLog, NodeLog as _};
use mainstay_store::state::MemoryStore;
use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest};

use crate::formats::MESSAGE;
use crate::in_process::InProcessNetwork;
use crate::message::{Envelope, Request, Response};
use crate::options::ReplicaOptions;
use crate::raft::{Entry, SnapshotMeta, log_id, vote};
use crate::replica::{Identity, Replica};
use crate::role_state::Role;
use crate::tests::CLUSTER;

const SET: SetId = SetId { level: Level::Volatile, number: 0 };
const ME: ReplicaId = ReplicaId(11);
const NODE: NodeId = NodeId(5);

/// One of each kind, all of a much later epoch: what a replica would take for its new primary.
fn requests() -> Vec<Request> {
    let candidate = || {
        let mut request = VoteRequest::new(vote(50, 2, false), Some(log_id(49, 1_000)));
        request.leadership_transfer = true;
        request
    };
    let entry = Entry { log_id: log_id(50, 0), payload: EntryPayload::Blank };
    let primary = vote(50, 2, true);
    vec![
        Request::Append(AppendEntriesRequest {
            vote: primary,
            prev_log_id: None,
            entries: vec![entry],
            leader_commit: Some(log_id(50, 0)),
        }),
        Request::Vote(candidate()),
        Request::PreVote(candidate()),
        Request::Transfer(TransferLeaderRequest::new(primary, ME.0, None)),
        Request::SnapshotChunk { transfer: 1, number: 0, chunk: vec![1, 2, 3].into() },
        Request::SnapshotEnd { transfer: 1, chunks: 1, vote: primary, meta: SnapshotMeta::default() },
        Request::Join { replica: ReplicaId(7), node: NodeId(7), timing: ReplicaOptions::default().timing },
    ]
}

async fn ask(replica: &Replica, cluster: ClusterId, to: Option<ReplicaId>, request: Request) -> Response {
    Response::decode(replica.receive_unchecked(Envelope { cluster, to, request }.encode()).await).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_not_for_this_replica_is_refused_by_name_and_changes_nothing() {
    let log = Arc::new(MemoryLog::new());
    let identity = Identity { cluster: CLUSTER, set: SET, replica: ME, node: NODE, data_loss: 0 };
    let transport = InProcessNetwork::new().endpoint(NODE);
    let store = Arc::new(MemoryStore::new());
    let replica = Replica::start(identity, ReplicaOptions::default(), log.clone(), store, transport).await.unwrap();
    replica.bootstrap(&BTreeMap::from([(ME, NODE)])).await.unwrap();
    replica.watch().wait_for(|role_state| role_state.role == Role::Primary).await.unwrap();
    let before = (replica.status(), log.group(GroupId(0)));

    let stranger = ClusterId(0xbad);
    for to in [Some(ME), Some(ReplicaId(12)), None] {
        for request in requests() {
            let what = format!("{request:?}");
            let answer = ask(&replica, stranger, to, request).await;
            let Response::Refused(why) = answer else { panic!("{what}: {answer:?}") };
            let names = [CLUSTER.to_string(), stranger.to_string(), NODE.to_string()];
            assert!(names.iter().all(|name| why.contains(name)), "{what}: {why}");
        }
    }
    for request in requests() {
        let what = format!("{request:?}");
        let answer = ask(&replica, CLUSTER, Some(ReplicaId(12)), request).await;
        assert!(matches!(answer, Response::WrongReplica(ME)), "{what}: {answer:?}");
    }
    for request in requests().into_iter().filter(|request| !matches!(request, Request::Join { .. })) {
        let what = format!("{request:?}");
        let answer = ask(&replica, CLUSTER, None, request).await;
        assert!(matches!(answer, Response::Refused(_)), "{what}: {answer:?}");
    }
    // As version 1 wrote it, which named no cluster.
    let old =
        bytes::Bytes::from_static(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 7, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    let answer = Response::decode(replica.receive_unchecked(old).await).unwrap();
    assert!(matches!(&answer, Response::Failed(why) if why.contains("format version 1")), "{answer:?}");
    // And one that only a later program can have sent.
    for request in requests() {
        let mut later = Envelope { cluster: CLUSTER, to: Some(ME), request }.encode().to_vec();
        later[0] = MESSAGE.newest() + 1;
        let answer = Response::decode(replica.receive_unchecked(later.into()).await).unwrap();
        let Response::UnknownVersion { reason, oldest, newest } = answer else { panic!("{answer:?}") };
        assert_eq!((oldest, newest), (MESSAGE.oldest(), MESSAGE.newest()));
        let versions = [format!("format version {}", MESSAGE.newest() + 1), format!("reads {MESSAGE}")];
        assert!(versions.iter().all(|version| reason.contains(version)), "{reason}");
    }
    assert_eq!((replica.status(), log.group(GroupId(0))), before);
    replica.stop().await;
}
