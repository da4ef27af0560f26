//! Several requests to append under way at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use mainstay_core::time::Duration;
use mainstay_core::{Level, NodeId, ReplicaId, SetId, time};
use openraft::RaftNetworkFactory as _;
use openraft::RaftNetworkV2 as _;
use openraft::network::RPCOption;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, StreamAppendError};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::activity::Upkeep;
use crate::formats::MESSAGE;
use crate::lost_voters::LostVoters;
use crate::message::Response;
use crate::network::{Network, Peer};
use crate::raft::{Command, Entry, Member, Types, log_id, vote};
use crate::retention::Retention;
use crate::tests::CLUSTER;
use crate::transport::{Answer, Traffic, Transport};

const SET: SetId = SetId { level: Level::Volatile, number: 0 };

/// Requests that wait for their answers, in the order in which they were sent.
#[derive(Debug, Clone, Default)]
struct Waiting(Arc<Mutex<VecDeque<Sent>>>);

/// A request: as what it travels, and who waits for its answer.
type Sent = (Traffic, oneshot::Sender<Response>);

impl Waiting {
    fn len(&self) -> usize {
        self.0.lock().len()
    }

    fn answer(&self, at: usize, answer: AppendEntriesResponse<Types>) {
        let (_, waiting) = self.0.lock().remove(at).unwrap();
        drop(waiting.send(Response::Append(answer)));
    }
}

impl Transport for Waiting {
    fn call(&self, _: NodeId, _: SetId, traffic: Traffic, _: Bytes) -> Answer {
        let (send, receive) = oneshot::channel();
        self.0.lock().push_back((traffic, send));
        Box::pin(async move { Ok(receive.await.unwrap().encode(MESSAGE.written())) })
    }
}

fn network(transport: &Waiting) -> Network {
    Network {
        transport: Arc::new(transport.clone()),
        cluster: CLUSTER,
        set: SET,
        me: ReplicaId(1),
        retention: Arc::new(Retention::new(Duration::from_secs(1))),
        lost: Arc::new(LostVoters::new(SET, ReplicaId(1))),
        forgetful: Arc::default(),
        upkeep: Arc::<Upkeep>::default(),
    }
}

async fn peer(transport: &Waiting) -> Peer {
    network(transport).new_client(2, &Member { node: NodeId(2) }).await
}

/// A request with one entry of so many bytes.
fn request(index: u64, bytes: usize) -> AppendEntriesRequest<Types> {
    let payload = openraft::EntryPayload::Normal(Command(vec![0; bytes].into()));
    AppendEntriesRequest {
        vote: vote(1, 1, true),
        prev_log_id: index.checked_sub(1).map(|before| log_id(1, before)),
        entries: vec![Entry { log_id: log_id(1, index), payload }],
        leader_commit: None,
    }
}

fn option() -> RPCOption {
    RPCOption::new(Duration::from_secs(60))
}

#[tokio::test(start_paused = true)]
async fn many_are_under_way_and_answers_come_in_order() {
    let waiting = Waiting::default();
    let mut peer = peer(&waiting).await;
    let (send, mut receive) = mpsc::channel(32);
    let input = stream::poll_fn(move |cx| receive.poll_recv(cx));
    let mut answers = peer.stream_append(input, option()).await.unwrap();
    for index in 0..20 {
        send.send(request(index, 10)).await.unwrap();
    }
    assert!(answers.next().now_or_never().is_none());
    assert_eq!(waiting.len(), 8, "as many as there may be");
    // The second answer is there before the first, and waits for it.
    waiting.answer(1, AppendEntriesResponse::Success);
    assert!(answers.next().now_or_never().is_none());
    waiting.answer(0, AppendEntriesResponse::Success);
    for index in 0..2 {
        let answer = answers.next().now_or_never().expect("both are there").unwrap().unwrap();
        assert_eq!(answer.unwrap(), Some(log_id(1, index)));
    }
    assert!(answers.next().now_or_never().is_none());
    assert_eq!(waiting.len(), 8, "the next have gone out");
    // What the third lacks, those behind it lack, too.
    waiting.answer(0, AppendEntriesResponse::Conflict);
    let conflict = answers.next().now_or_never().unwrap().unwrap().unwrap().unwrap_err();
    assert!(matches!(conflict, StreamAppendError::Conflict(id) if id == log_id(1, 1)));
    assert!(answers.next().now_or_never().unwrap().is_none());
    drop(answers);
    drop(send);

    let mut answers = peer.stream_append(stream::iter([request(2, 10)]), option()).await.unwrap();
    assert!(answers.next().now_or_never().is_none());
    let last = waiting.len() - 1;
    waiting.answer(last, AppendEntriesResponse::Success);
    assert!(answers.next().await.unwrap().unwrap().is_ok());
    assert!(answers.next().await.is_none(), "it ends with the requests");
}

#[tokio::test(start_paused = true)]
async fn few_are_under_way_if_they_are_large_and_one_without_an_answer_fails() {
    let waiting = Waiting::default();
    let mut peer = peer(&waiting).await;
    let sizes = [100 << 10, 100 << 10, 4 << 20, 4 << 20, 10];
    let input = stream::iter((0..).zip(sizes).map(|(index, bytes)| request(index, bytes)));
    let mut answers = peer.stream_append(input, option()).await.unwrap();
    for under_way in [2, 1, 1, 1] {
        assert!(answers.next().now_or_never().is_none());
        assert_eq!(waiting.len(), under_way, "a large one goes alone");
        while waiting.len() > 0 {
            waiting.answer(0, AppendEntriesResponse::Success);
            assert!(answers.next().now_or_never().unwrap().unwrap().unwrap().is_ok());
        }
    }
    assert!(answers.next().now_or_never().unwrap().is_none());
    drop(answers);

    // News without entries wait for the entries before them, and go with those behind them.
    let empty = || AppendEntriesRequest { entries: Vec::new(), ..request(6, 0) };
    let input = stream::iter([request(4, 10), empty(), request(5, 10), empty()]);
    let mut answers = peer.stream_append(input, option()).await.unwrap();
    assert!(answers.next().now_or_never().is_none());
    assert_eq!(waiting.len(), 2);
    waiting.answer(0, AppendEntriesResponse::Success);
    assert!(answers.next().now_or_never().unwrap().unwrap().unwrap().is_ok());
    assert!(answers.next().now_or_never().is_none());
    assert_eq!(waiting.len(), 1);
    waiting.answer(0, AppendEntriesResponse::Success);
    assert!(answers.next().now_or_never().unwrap().unwrap().unwrap().is_ok());
    assert!(answers.next().now_or_never().is_none());
    assert_eq!(waiting.len(), 1);
    let began = time::now();
    let failed = answers.next().await.unwrap();
    assert!(failed.is_err() && began.elapsed() >= Duration::from_secs(60), "{failed:?}");
    assert!(answers.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn heartbeats_entries_and_votes_travel_apart() {
    let waiting = Waiting::default();
    let member = Member { node: NodeId(2) };
    let mut network = network(&waiting);
    let empty = AppendEntriesRequest { entries: Vec::new(), ..request(1, 0) };
    let mut heartbeats = network.new_heartbeat_client(2, &member).await;
    let mut entries = network.new_client(2, &member).await;
    for (peer, traffic) in [(&mut heartbeats, Traffic::Heartbeat), (&mut entries, Traffic::Log)] {
        let mut answers = peer.stream_append(stream::iter([empty.clone()]), option()).await.unwrap();
        assert!(answers.next().now_or_never().is_none());
        assert_eq!(waiting.0.lock().back().unwrap().0, traffic);
    }
    let request = openraft::raft::VoteRequest::new(vote(1, 1, false), None);
    assert!(entries.vote(request, option()).now_or_never().is_none());
    assert_eq!(waiting.0.lock().back().unwrap().0, Traffic::Heartbeat);
}
