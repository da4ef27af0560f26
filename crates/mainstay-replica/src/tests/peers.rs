//! Messages of peers as they are, and the same damaged and cut off: each is answered, and none makes anybody panic.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration};
use mainstay_core::{ClusterId, Epoch, Level, NodeId, PartitionId, ReplicaId, SetId};
use mainstay_store::log::MemoryLog;
use mainstay_store::state::{MemoryStore, WriteBatch};
use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::command::CommandBuilder;
use crate::formats::MESSAGE;
use crate::in_process::{Handler, InProcessNetwork};
use crate::message::{Envelope, Request, Response};
use crate::options::ReplicaOptions;
use crate::raft::{Command, Entry, LogId, Member, Membership, SnapshotMeta, StoredMembership, Vote, log_id, vote};
use crate::replica::{Identity, Replica};
use crate::tests::CLUSTER;
use crate::transport::{Answer, Traffic, Transport};

const SET: SetId = SetId { level: Level::Volatile, number: 0 };
const ME: ReplicaId = ReplicaId(1);

/// Draws messages that a replica could get.
struct Peer(StdRng);

impl Peer {
    fn number(&mut self) -> u64 {
        // Mostly such as fit together; sometimes at the ends.
        match self.0.random_range(0..10) {
            0 => 0,
            1 => u64::MAX,
            _ => self.0.random_range(1..6),
        }
    }

    fn log_id(&mut self) -> LogId {
        log_id(self.0.random_range(0..4), self.0.random_range(0..8))
    }

    fn optional_log_id(&mut self) -> Option<LogId> {
        self.0.random_bool(0.7).then(|| self.log_id())
    }

    fn vote(&mut self) -> Vote {
        vote(self.0.random_range(0..6), self.0.random_range(1..4), self.0.random())
    }

    fn membership(&mut self) -> Membership {
        let ids = 1..=self.0.random_range(1..4_u64);
        let members: BTreeMap<u64, Member> = ids.map(|id| (id, Member { node: NodeId(id) })).collect();
        let voters = members.keys().copied().collect();
        Membership::new(vec![voters], members).unwrap()
    }

    fn entry(&mut self, index: u64) -> Entry {
        let payload = match self.0.random_range(0..4) {
            0 => EntryPayload::Blank,
            1 => EntryPayload::Membership(self.membership()),
            _ => {
                let mut batch = WriteBatch::new();
                batch.put(b"key", b"value").add(b"count", 1).put_stamped(b"q", b"", b"").delete_range(b"a", None);
                let mut builder = CommandBuilder::new(Epoch(self.0.random_range(0..4)), 64);
                builder.push([batch.as_bytes()].into_iter());
                EntryPayload::Normal(Command(builder.finish()))
            }
        };
        Entry { log_id: log_id(self.0.random_range(1..4), index), payload }
    }

    fn append(&mut self) -> AppendEntriesRequest<crate::raft::Types> {
        let prev_log_id = self.optional_log_id();
        let first = prev_log_id.map_or(0, |id| id.index + 1);
        let entries = (first..first + self.0.random_range(0..4)).map(|index| self.entry(index)).collect();
        AppendEntriesRequest { vote: self.vote(), prev_log_id, entries, leader_commit: self.optional_log_id() }
    }

    fn request(&mut self) -> Request {
        let vote_request = |peer: &mut Self| {
            let mut request = VoteRequest::new(peer.vote(), peer.optional_log_id());
            request.leadership_transfer = peer.0.random();
            request
        };
        match self.0.random_range(0..8) {
            0..2 => Request::Append(self.append()),
            2 => Request::Vote(vote_request(self)),
            3 => Request::PreVote(vote_request(self)),
            4 => Request::Transfer(TransferLeaderRequest::new(self.vote(), self.number(), self.optional_log_id())),
            5 => {
                // The first piece often enough that others meet a transfer which is under way.
                let number = if self.0.random() { 0 } else { self.number() };
                Request::SnapshotChunk { transfer: 1, number, chunk: self.chunk() }
            }
            6 => Request::SnapshotEnd { transfer: 1, chunks: self.number(), vote: self.vote(), meta: self.meta() },
            _ => {
                let mut timing = ReplicaOptions::default().timing;
                if self.0.random_bool(0.2) {
                    timing.heartbeat = Duration::from_nanos(self.number());
                }
                Request::Join { replica: ReplicaId(self.number()), node: NodeId(self.number()), timing }
            }
        }
    }

    /// Of an empty state, which is one chunk: the first is right.
    fn chunk(&mut self) -> Bytes {
        let state: Arc<dyn mainstay_store::state::StateStore> = Arc::new(MemoryStore::new());
        let chunk = state.snapshot().unwrap().export().unwrap().next().unwrap().unwrap();
        if self.0.random() { chunk } else { self.damaged(chunk) }
    }

    fn meta(&mut self) -> SnapshotMeta {
        let last_membership = StoredMembership::new(self.optional_log_id(), self.membership());
        SnapshotMeta { last_log_id: self.optional_log_id(), last_membership }
    }

    fn response(&mut self) -> Response {
        match self.0.random_range(0..11) {
            0 => Response::Append(AppendEntriesResponse::Success),
            1 => Response::Append(AppendEntriesResponse::PartialSuccess(self.optional_log_id())),
            2 => Response::Append(AppendEntriesResponse::Conflict),
            3 => Response::Append(AppendEntriesResponse::HigherVote(self.vote())),
            4 => Response::Vote(VoteResponse::new(self.vote(), self.optional_log_id(), self.0.random())),
            5 => Response::Done,
            6 => Response::Snapshot(self.vote()),
            7 => Response::WrongReplica(ReplicaId(self.number())),
            8 => Response::NotPrimary(self.0.random::<bool>().then(|| NodeId(self.number()))),
            9 => Response::Refused("why".to_owned()),
            _ => Response::Failed("why".to_owned()),
        }
    }

    /// Changes bytes, cuts some off or puts some in.
    fn damaged(&mut self, bytes: Bytes) -> Bytes {
        let mut bytes = bytes.to_vec();
        for _ in 0..self.0.random_range(1..4) {
            let at = self.0.random_range(0..=bytes.len());
            match self.0.random_range(0..4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.0.random()),
                // Lengths and numbers at their ends.
                2 => bytes.iter_mut().skip(at).take(8).for_each(|byte| *byte = 255),
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = self.0.random();
                    }
                }
            }
        }
        bytes.into()
    }
}

async fn founded() -> Replica {
    let identity = Identity { cluster: CLUSTER, set: SET, replica: ME, node: NodeId(1), data_loss: 0 };
    let transport = InProcessNetwork::new().endpoint(NodeId(1));
    let (log, store) = (Arc::new(MemoryLog::new()), Arc::new(MemoryStore::new()));
    let replica = Replica::start(identity, ReplicaOptions::default(), log, store, transport).await.unwrap();
    replica.bootstrap(&BTreeMap::from([(ME, NodeId(1))])).await.unwrap();
    replica
}

#[tokio::test(start_paused = true)]
async fn whatever_a_peer_sends_is_answered() {
    let (mut taken, mut refused) = (0, 0);
    for seed in 0..40 {
        let mut peer = Peer(StdRng::seed_from_u64(seed));
        let replica = founded().await;
        for number in 0..60 {
            let cluster = if peer.0.random_bool(0.95) { CLUSTER } else { ClusterId(peer.0.random()) };
            let to = peer.0.random_bool(0.9).then_some(ME);
            let request = Envelope { cluster, to, request: peer.request() }.encode();
            let request = if peer.0.random() { request } else { peer.damaged(request) };
            match Envelope::decode(request.clone()) {
                Ok(_) => taken += 1,
                Err(_) => refused += 1,
            }
            let answer = time::timeout(Duration::from_secs(60), replica.receive_unchecked(request)).await;
            let answer = answer.unwrap_or_else(|_| panic!("seed {seed}, message {number}: no answer"));
            Response::decode(answer).unwrap_or_else(|error| panic!("seed {seed}, message {number}: {error}"));
            // A panic of openraft is caught where it runs: nobody hears of it who does not ask.
            let lives = replica.inner.raft.with_raft_state(|_| ()).await;
            assert!(lives.is_ok(), "seed {seed}, message {number}: {lives:?}");
            assert_eq!(replica.status().failure, None, "seed {seed}, message {number}");
        }
        replica.kill();
    }
    assert!(taken > 400 && refused > 200, "{taken} {refused}");
}

/// A way to others on which some answers are damaged, or are those of a peer that makes them up.
#[derive(Debug)]
struct Liars {
    inner: Arc<dyn Transport>,
    rng: Mutex<StdRng>,
}

impl Transport for Liars {
    fn call(&self, to: NodeId, set: SetId, traffic: Traffic, request: Bytes) -> Answer {
        let answer = self.inner.call(to, set, traffic, request);
        let mut rng = self.rng.lock();
        let (is_false, is_made_up) = (rng.random_bool(0.15), rng.random_bool(0.3));
        let mut peer = Peer(StdRng::seed_from_u64(rng.random()));
        Box::pin(async move {
            let answer = answer.await?;
            Ok(match (is_false, is_made_up) {
                (false, _) => answer,
                (true, false) => peer.damaged(answer),
                (true, true) => peer.response().encode(MESSAGE.newest()),
            })
        })
    }
}

async fn among_liars(network: &InProcessNetwork, node: u64, seed: u64) -> Replica {
    let identity = Identity { cluster: CLUSTER, set: SET, replica: ReplicaId(node), node: NodeId(node), data_loss: 0 };
    let rng = Mutex::new(StdRng::seed_from_u64(seed * 10 + node));
    let transport = Arc::new(Liars { inner: network.endpoint(NodeId(node)), rng });
    let mut options = ReplicaOptions::default();
    // Short, so that states are sent, too.
    options.checkpoint.bytes = 2_000;
    options.checkpoint.log_keep_bytes = 0;
    let (log, store) = (Arc::new(MemoryLog::new()), Arc::new(MemoryStore::new()));
    let replica = Replica::start(identity, options, log, store, transport).await.unwrap();
    let receiver = replica.clone();
    let receive: Handler = Arc::new(move |_, _, request| {
        let receiver = receiver.clone();
        Box::pin(async move { receiver.receive_unchecked(request).await })
    });
    network.attach(NodeId(node), Scope::new(), receive);
    replica
}

#[tokio::test(start_paused = true)]
async fn whatever_a_peer_answers_stops_nobody() {
    for seed in 0..20 {
        let network = InProcessNetwork::new();
        let mut replicas = Vec::new();
        for node in 1..=3 {
            replicas.push(among_liars(&network, node, seed).await);
        }
        let members = (1..=3).map(|node| (ReplicaId(node), NodeId(node))).collect();
        replicas[0].bootstrap(&members).await.unwrap();
        for number in 0..100_u64 {
            for replica in &replicas {
                let partition = replica.partition(PartitionId(0));
                let mut batch = partition.batch();
                batch.put(&number.to_be_bytes(), &[7; 100]);
                // What is lied to may not get it done, or not know.
                drop(time::timeout(Duration::from_millis(200), partition.commit(batch)).await);
            }
            match number % 40 {
                20 => network.heal(),
                // Who was cut off lacks more than the log has.
                39 => (1..=3).for_each(|node| network.cut(NodeId(node), NodeId(1 + number / 40 % 3))),
                _ => {}
            }
            for replica in &replicas {
                let lives = replica.inner.raft.with_raft_state(|_| ()).await;
                assert!(lives.is_ok(), "seed {seed}, commit {number}: {lives:?}");
            }
        }
        replicas.iter().for_each(Replica::kill);
    }
}

/// Others that give every vote, and answer entries as they are told to without taking them in.
#[derive(Debug)]
struct Pretenders(Lie);

type Lie = fn(&AppendEntriesRequest<crate::raft::Types>) -> AppendEntriesResponse<crate::raft::Types>;

impl Transport for Pretenders {
    fn call(&self, _: NodeId, _: SetId, _: Traffic, request: Bytes) -> Answer {
        let response = match Envelope::decode(request).unwrap().request {
            Request::Vote(vote) | Request::PreVote(vote) => {
                Response::Vote(VoteResponse::new(vote.vote, vote.last_log_id, true))
            }
            Request::Append(append) => Response::Append((self.0)(&append)),
            _ => Response::Failed("not this".to_owned()),
        };
        Box::pin(async move { Ok(response.encode(MESSAGE.newest())) })
    }
}

#[tokio::test(start_paused = true)]
async fn entries_count_as_stored_only_if_they_were_sent() {
    let lies: [Lie; 3] = [
        |append| AppendEntriesResponse::PartialSuccess(Some(log_id(append.vote.leader_id.term, 1_000))),
        |_| AppendEntriesResponse::PartialSuccess(None),
        |_| AppendEntriesResponse::Conflict,
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let identity = Identity { cluster: CLUSTER, set: SET, replica: ME, node: NodeId(1), data_loss: 0 };
        let (log, store) = (Arc::new(MemoryLog::new()), Arc::new(MemoryStore::new()));
        let others = Arc::new(Pretenders(lie));
        let replica = Replica::start(identity, ReplicaOptions::default(), log, store, others).await.unwrap();
        let members = (1..=3).map(|node| (ReplicaId(node), NodeId(node))).collect();
        replica.bootstrap(&members).await.unwrap();
        let partition = replica.partition(PartitionId(0));
        let mut batch = partition.batch();
        batch.put(b"k", b"v");
        let committed = time::timeout(Duration::from_secs(10), partition.commit(batch)).await;
        assert!(!matches!(committed, Ok(Ok(_))), "lie {number}: nobody else has it");
        let lives = replica.inner.raft.with_raft_state(|_| ()).await;
        assert!(lives.is_ok(), "lie {number}: {lives:?}");
        replica.kill();
    }
}

#[test]
fn messages_are_read_as_they_were_written_or_refused() {
    let mut peer = Peer(StdRng::seed_from_u64(1));
    for _ in 0..3_000 {
        let request = Envelope { cluster: CLUSTER, to: Some(ME), request: peer.request() }.encode();
        assert_eq!(Envelope::decode(request.clone()).unwrap().encode(), request);
        for len in 0..request.len() {
            assert!(Envelope::decode(request.slice(..len)).is_err(), "cut off at {len}");
        }
        let response = peer.response().encode(MESSAGE.written());
        assert_eq!(Response::decode(response.clone()).unwrap().encode(MESSAGE.written()), response);
        for len in 0..response.len() {
            assert!(Response::decode(response.slice(..len)).is_err(), "cut off at {len}");
        }
        drop(Envelope::decode(peer.damaged(request)));
        drop(Response::decode(peer.damaged(response)));
    }
}
