//! Whose requests a replica takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Level, NodeId, ReplicaId, SetId};
use mainstay_store::log::MemoryLog;
use mainstay_store::state::MemoryStore;
use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest};

use crate::in_process::InProcessNetwork;
use crate::message::{Envelope, Request, Response};
use crate::options::ReplicaOptions;
use crate::raft::{Entry, SnapshotMeta, log_id, vote};
use crate::replica::{Identity, Replica};
use crate::role_state::Role;
use crate::tests::CLUSTER;

const SET: SetId = SetId { level: Level::Volatile, number: 0 };
const ME: ReplicaId = ReplicaId(1);

async fn start() -> Replica {
    let identity = Identity { cluster: CLUSTER, set: SET, replica: ME, node: NodeId(1), data_loss: 0 };
    let transport = InProcessNetwork::new().endpoint(NodeId(1));
    let (log, store) = (Arc::new(MemoryLog::new()), Arc::new(MemoryStore::new()));
    Replica::start(identity, ReplicaOptions::default(), log, store, transport).await.unwrap()
}

/// One of each kind that a replica can send, in the name of a replica.
fn requests(speaker: u64) -> Vec<Request> {
    let (elected, candidate) = (vote(50, speaker, true), vote(50, speaker, false));
    let entries = vec![Entry { log_id: log_id(50, 0), payload: EntryPayload::Blank }];
    let timing = ReplicaOptions::default().timing;
    vec![
        Request::Append(AppendEntriesRequest { vote: elected, prev_log_id: None, entries, leader_commit: None }),
        Request::Vote(VoteRequest::new(candidate, Some(log_id(49, 1_000)))),
        Request::PreVote(VoteRequest::new(candidate, Some(log_id(49, 1_000)))),
        Request::Transfer(TransferLeaderRequest::new(elected, ME.0, None)),
        Request::SnapshotEnd { transfer: 1, chunks: 1, vote: elected, meta: SnapshotMeta::default() },
        Request::Join { replica: ReplicaId(speaker), node: NodeId(speaker), timing },
    ]
}

async fn ask(replica: &Replica, from: u64, request: Request) -> Response {
    let to = (!matches!(request, Request::Join { .. })).then_some(ME);
    let request = Envelope { cluster: CLUSTER, to, request }.encode();
    Response::decode(replica.receive(NodeId(from), request).await).unwrap()
}

async fn is_refused(replica: &Replica, from: u64, request: Request, says: &str) {
    let told = format!("{request:?}");
    match ask(replica, from, request).await {
        Response::Refused(why) => assert!(why.contains(says), "{why}"),
        other => panic!("{told} of node {from} was answered {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_replica_takes_requests_only_from_nodes_that_it_was_told_of() {
    let replica = start().await;
    let before = replica.status();
    let chunk = || Request::SnapshotChunk { transfer: 1, number: 0, chunk: vec![1, 2, 3].into() };
    for request in requests(2).into_iter().chain([chunk()]) {
        is_refused(&replica, 2, request, "node n2 is no member of set volatile-0").await;
    }
    replica.expect_members([NodeId(3)]);
    for request in requests(2).into_iter().chain([chunk()]) {
        is_refused(&replica, 2, request, "node n2 is no member of set volatile-0").await;
    }
    assert_eq!(replica.status(), before, "what is refused changes nothing");
    replica.expect_members([NodeId(2), NodeId(3)]);
    for request in requests(2) {
        let answer = ask(&replica, 2, request).await;
        assert!(!matches!(answer, Response::Refused(_)), "{answer:?}");
    }
    assert_eq!(replica.status().log_next, 1, "an entry came in");
}

#[tokio::test(start_paused = true)]
async fn a_member_is_heard_for_itself_and_a_node_that_was_removed_is_not() {
    let replica = start().await;
    let members = BTreeMap::from([(ME, NodeId(1)), (ReplicaId(2), NodeId(2)), (ReplicaId(3), NodeId(3))]);
    replica.bootstrap(&members).await.unwrap();
    // Without the others no vote is granted and nothing else changes: it stays a set of three.
    for (from, speaker) in [(3, 2), (2, 3), (2, 1)] {
        for request in requests(speaker) {
            is_refused(&replica, from, request, &format!("node n{from} speaks for replica r{speaker}")).await;
        }
    }
    for request in requests(9) {
        is_refused(&replica, 9, request, "node n9 is no member").await;
    }
    let answer =
        ask(&replica, 2, Request::PreVote(VoteRequest::new(vote(50, 2, false), Some(log_id(49, 1_000))))).await;
    assert!(matches!(answer, Response::Vote(_)), "{answer:?}");

    // Who is no member any more is a stranger, as soon as the set knows.
    let replica = start().await;
    replica.bootstrap(&BTreeMap::from([(ME, NodeId(1))])).await.unwrap();
    let primary = replica.watch().wait_for(|role_state| role_state.role == Role::Primary).await.map(|state| *state);
    primary.unwrap();
    time::timeout(Duration::from_secs(1), replica.add_member(ReplicaId(4), NodeId(4))).await.unwrap_err();
    assert_eq!(replica.status().learners.len(), 1);
    let pre_vote = || Request::PreVote(VoteRequest::new(vote(50, 4, false), None));
    assert!(!matches!(ask(&replica, 4, pre_vote()).await, Response::Refused(_)));
    replica.remove_member(ReplicaId(4)).await.unwrap();
    is_refused(&replica, 4, pre_vote(), "a node that was removed is to be stopped").await;
}
