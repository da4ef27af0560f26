use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use mainstay_core::{ClusterId, Error, ErrorKind, NodeId, ReplicaId, Result, SetId, random, task, time};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    VoteRequest, VoteResponse,
};
use openraft::{RaftNetworkFactory, RaftNetworkV2};
use parking_lot::Mutex;
use rand::Rng as _;

use crate::activity::Upkeep;
use crate::coalesce_empty_appends::CoalesceEmptyAppends;
use crate::lost_voters::LostVoters;
use crate::message::{Envelope, Request, Response};
use crate::pipelined_appends::PipelinedAppends;
use crate::raft::{LogId, Member, Types, Vote};
use crate::repeat::{Patience, repeat};
use crate::replica::SNAPSHOT_CHUNK_TIMEOUT;
use crate::retention::Retention;
use crate::state_machine::{SnapshotData, SnapshotOf};
use crate::transport::{Traffic, Transport};
use crate::wire;

/// The slowest way between two nodes on which entries still get through, whatever their size.
const BYTES_PER_SEC_MIN: f64 = 1_000_000.0;

/// How long the answer to a part of a state is waited for, beside the time on the way, before the part is sent again.
const PART_SILENCE_MIN: time::Duration = time::Duration::from_secs(1);

/// How long a replica may take to put a state in force. Long, because that is one step however large the state is, and
/// because who gives up sends all of it again.
const INSTALL_TIMEOUT: time::Duration = time::Duration::from_secs(300);

/// Makes openraft's connections out of our transport.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub transport: Arc<dyn Transport>,
    pub cluster: ClusterId,
    pub set: SetId,
    /// The replica that these connections are of.
    pub me: ReplicaId,
    pub retention: Arc<Retention>,
    pub lost: Arc<LostVoters>,
    /// The replicas that have forgotten entries which they had acknowledged to this one.
    pub forgetful: Arc<Mutex<BTreeSet<ReplicaId>>>,
    pub upkeep: Arc<Upkeep>,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &Member) -> Peer {
        self.peer(target, node, Traffic::Log)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Member) -> Peer {
        self.peer(target, node, Traffic::Heartbeat)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &Member) -> Peer {
        self.peer(target, node, Traffic::Snapshot)
    }
}

impl Network {
    /// The way to a replica. `appends` is what requests to append are: those of a heartbeat must not wait behind entries, and those
    /// that come after entries must not overtake them, even if they have none themselves.
    fn peer(&self, target: u64, node: &Member, appends: Traffic) -> Peer {
        let way = Way { network: self.clone(), replica: ReplicaId(target), node: node.node, appends };
        Peer { way: Arc::new(way), acknowledged: None }
    }
}

/// The way to one replica on another node.
#[derive(Debug)]
pub(crate) struct Way {
    network: Network,
    replica: ReplicaId,
    node: NodeId,
    /// As what requests to append travel.
    appends: Traffic,
}

/// One of openraft's connections to a replica on another node.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) way: Arc<Way>,
    /// The last entry that the replica has said to have.
    acknowledged: Option<LogId>,
}

impl Way {
    /// Sends entries, or none, and waits for the answer.
    pub(crate) async fn append(
        &self,
        request: AppendEntriesRequest<Types>,
        least: time::Duration,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        self.check_kept(&request)?;
        let limit = Self::append_limit(&request, least);
        match self.call(self.appends, Request::Append(request), limit).await? {
            Response::Append(response) => Ok(response),
            gone if self.is_answered_for(&gone) => Ok(AppendEntriesResponse::Success),
            other => Err(self.unexpected(&other)),
        }
    }

    async fn call(
        &self,
        traffic: Traffic,
        request: Request,
        limit: time::Duration,
    ) -> Result<Response, RPCError<Types>> {
        self.exchange(traffic, request, limit).await.map_err(|error| RPCError::Unreachable(Unreachable::new(&error)))
    }

    /// How long an append may take: a heartbeat when there is nothing to carry, and longer the more there is, because what
    /// is cut off in the midst is sent again from its beginning, and so forever.
    fn append_limit(request: &AppendEntriesRequest<Types>, least: time::Duration) -> time::Duration {
        let bytes: usize = request.entries.iter().map(wire::entry_bytes).sum();
        least + time::Duration::from_secs_f64(bytes as f64 / BYTES_PER_SEC_MIN)
    }

    async fn exchange(&self, traffic: Traffic, request: Request, limit: time::Duration) -> Result<Response> {
        let request = self.envelope(request);
        let answer = self.network.transport.call(self.node, self.network.set, traffic, request);
        let response = Response::decode(time::timeout(limit, answer).await.map_err(|_| self.no_answer())??)?;
        self.network.lost.heard(self.replica, &response);
        Ok(response)
    }

    fn envelope(&self, request: Request) -> Bytes {
        Envelope { cluster: self.network.cluster, to: Some(self.replica), request }.encode()
    }

    /// True if the replica is gone for good and so are all others: who is left goes on without them.
    fn is_answered_for(&self, response: &Response) -> bool {
        matches!(response, Response::WrongReplica(_)) && self.network.lost.is_answered_for(self.replica)
    }

    fn no_answer(&self) -> Error {
        Error::new(
            ErrorKind::Timeout,
            format!("replica {} of set {} on node {} did not answer", self.replica, self.network.set, self.node),
        )
    }

    fn unexpected(&self, response: &Response) -> RPCError<Types> {
        let Self { replica, node, network, .. } = self;
        let set = network.set;
        RPCError::Unreachable(Unreachable::from_string(match response {
            Response::WrongReplica(here) => {
                format!(
                    "node {node} has lost replica {replica} of set {set} and has {here} now: it joins as a new member"
                )
            }
            Response::UnknownVersion { reason, oldest, newest } => format!(
                "replica {replica} of set {set} on node {node} reads messages of versions {oldest} to {newest}: {reason}"
            ),
            Response::Refused(why) => format!("node {node} refuses requests for replica {replica} of set {set}: {why}"),
            other => format!("replica {replica} on node {node} answered {other:?}"),
        }))
    }

    /// Refuses to send entries that the log is to lose: openraft then lets go of them, and sends the state.
    fn check_kept(&self, request: &AppendEntriesRequest<Types>) -> Result<(), RPCError<Types>> {
        let kept = self.network.retention.first();
        if request.entries.first().is_none_or(|entry| entry.log_id.index >= kept) {
            return Ok(());
        }
        Err(RPCError::Unreachable(Unreachable::from_string(format!(
            "replica {} of set {} on node {} lacks entries before {kept}, which are kept no longer: it gets the state",
            self.replica, self.network.set, self.node
        ))))
    }

    /// True if an answer tells of a later vote for this replica than that of the request. Nobody knows such a vote before this
    /// replica, unless the request is obsolete by now; openraft would take this replica for its own successor.
    fn is_of_mine(&self, told: &Vote, sent: &Vote) -> bool {
        told.leader_id.voted_for == self.network.me.0 && told > sent
    }

    /// Sends a piece of a state, or that it is complete; both may come twice.
    async fn send_part(&self, request: Request, limit: time::Duration) -> Result<Response, RPCError<Types>> {
        let request = self.envelope(request);
        let first = PART_SILENCE_MIN + time::Duration::from_secs_f64(request.len() as f64 / BYTES_PER_SEC_MIN);
        let ask = || self.network.transport.call(self.node, self.network.set, Traffic::Snapshot, request.clone());
        let answer = repeat(ask, Patience { first, limit }).await;
        let answer = answer.and_then(|answer| Response::decode(answer.ok_or_else(|| self.no_answer())?));
        answer.map_err(|error| RPCError::Unreachable(Unreachable::new(&error)))
    }

    async fn send_snapshot(&self, vote: Vote, snapshot: SnapshotOf) -> Result<Vote, StreamingError<Types>> {
        let SnapshotData::Local(state) = snapshot.snapshot else {
            return Err(StreamingError::Unreachable(Unreachable::from_string("only an own snapshot can be sent")));
        };
        let transfer = random::rng().next_u64();
        let next = snapshot.meta.last_log_id.map_or(0, |id| id.index + 1);
        let sending = self.network.retention.send(self.replica, transfer, next);
        let failed = |error: Error| StreamingError::Unreachable(Unreachable::new(&error));
        let mut export = task::blocking(move || state.export()).await.map_err(failed)?;
        let mut number = 0;
        loop {
            // Reading a piece may touch the disk.
            let (rest, chunk) = task::blocking(move || {
                let chunk = export.next();
                (export, chunk)
            })
            .await;
            export = rest;
            let Some(chunk) = chunk else { break };
            let chunk: Bytes = chunk.map_err(failed)?;
            let bytes = chunk.len();
            let request = Request::SnapshotChunk { transfer, number, chunk };
            match self.send_part(request, SNAPSHOT_CHUNK_TIMEOUT).await? {
                Response::Done => {
                    number += 1;
                    sending.answered();
                    self.network.upkeep.copied(bytes);
                }
                gone if self.is_answered_for(&gone) => return Ok(vote),
                other => return Err(self.unexpected(&other).into()),
            }
        }
        sending.silent_for(INSTALL_TIMEOUT);
        let request = Request::SnapshotEnd { transfer, chunks: number, vote, meta: snapshot.meta };
        match self.send_part(request, INSTALL_TIMEOUT).await? {
            Response::Snapshot(told) if !self.is_of_mine(&told, &vote) => {
                sending.arrived();
                Ok(told)
            }
            other => Err(self.unexpected(&other).into()),
        }
    }
}

impl Peer {
    /// Refuses an answer to entries that no replica gives that follows the protocol: openraft takes such an answer at its word,
    /// and may count entries as stored that are not.
    pub(crate) fn check_answer(
        &mut self,
        sent: &SentEntries,
        response: AppendEntriesResponse<Types>,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let makes_sense = match &response {
            AppendEntriesResponse::Success => true,
            AppendEntriesResponse::HigherVote(vote) => !self.way.is_of_mine(vote, &sent.vote),
            // All or nothing: replicas take the entries of a request in as a whole.
            AppendEntriesResponse::PartialSuccess(last) => *last == sent.prev || *last == sent.last,
            // Nothing comes before the first entry that could be in conflict.
            AppendEntriesResponse::Conflict => sent.prev.is_some(),
        };
        if !makes_sense {
            return Err(self.way.unexpected(&Response::Append(response)));
        }
        match &response {
            AppendEntriesResponse::Success => self.acknowledged = self.acknowledged.max(sent.last),
            AppendEntriesResponse::PartialSuccess(last) => self.acknowledged = self.acknowledged.max(*last),
            AppendEntriesResponse::Conflict if sent.prev <= sent.acknowledged => self.tell_of_lost_entries(),
            AppendEntriesResponse::Conflict | AppendEntriesResponse::HigherVote(_) => {}
        }
        Ok(response)
    }

    /// Says, once, that the replica has forgotten what it had acknowledged.
    fn tell_of_lost_entries(&mut self) {
        let Some(entry) = self.acknowledged.take() else { return };
        self.way.network.forgetful.lock().insert(self.way.replica);
        tracing::error!(
            set = %self.way.network.set,
            replica = %self.way.replica,
            node = %self.way.node,
            %entry,
            "a replica lacks entries that it has acknowledged: its data folder was replaced by an older copy, or its disk loses writes; \
             it gets them again, but until then commits may be on fewer nodes than a quorum: in a cluster start such a node with an \
             empty folder instead, so that it joins as a new member"
        );
    }
}

/// What a request carries.
pub(crate) struct SentEntries {
    vote: Vote,
    /// The entry before those that are sent.
    pub(crate) prev: Option<LogId>,
    /// The last of those, or the one before them if there are none.
    pub(crate) last: Option<LogId>,
    /// The last entry that the replica had acknowledged when these were sent. What it acknowledges while they are under way may reach it
    /// behind them.
    acknowledged: Option<LogId>,
}

impl SentEntries {
    fn of(request: &AppendEntriesRequest<Types>, acknowledged: Option<LogId>) -> Self {
        let last = request.entries.last().map(|entry| entry.log_id).or(request.prev_log_id);
        Self { vote: request.vote, prev: request.prev_log_id, last, acknowledged }
    }
}

impl Peer {
    /// What a request carries that is sent now.
    pub(crate) fn sending(&self, request: &AppendEntriesRequest<Types>) -> SentEntries {
        SentEntries::of(request, self.acknowledged)
    }
}

impl RaftNetworkV2<Types> for Peer {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let sent = self.sending(&request);
        let answer = self.way.append(request, option.hard_ttl()).await?;
        self.check_answer(&sent, answer)
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<Types>, RPCError<Types>>>, RPCError<Types>>>
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + Send + Unpin + 'static,
    {
        let appends = PipelinedAppends::new(self, CoalesceEmptyAppends::new(input), option.hard_ttl());
        Box::pin(async move { Ok::<BoxStream<'s, _>, _>(Box::pin(appends)) })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let granted = VoteResponse::new(request.vote, request.last_log_id, true);
        match self.way.call(Traffic::Heartbeat, Request::Vote(request), option.hard_ttl()).await? {
            Response::Vote(response) if !self.way.is_of_mine(&response.vote, &granted.vote) => Ok(response),
            gone if self.way.is_answered_for(&gone) => Ok(granted),
            other => Err(self.way.unexpected(&other)),
        }
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let granted = VoteResponse::new(request.vote, request.last_log_id, true);
        match self.way.call(Traffic::Heartbeat, Request::PreVote(request), option.hard_ttl()).await? {
            Response::Vote(response) if !self.way.is_of_mine(&response.vote, &granted.vote) => Ok(response),
            gone if self.way.is_answered_for(&gone) => Ok(granted),
            other => Err(self.way.unexpected(&other)),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: SnapshotOf,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = self.way.send_snapshot(vote, snapshot) => sent.map(SnapshotResponse::new),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<openraft::raft::TransferLeaderResponse<Types>, RPCError<Types>> {
        match self.way.call(Traffic::Heartbeat, Request::Transfer(request), option.hard_ttl()).await? {
            Response::Done => Ok(Ok(())),
            other => Err(self.way.unexpected(&other)),
        }
    }
}
