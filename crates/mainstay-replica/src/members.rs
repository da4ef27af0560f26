//! How replicas come into a set and leave it.
//!
//! A new replica learns first and votes only when it has what the primary has: a voter that lags, or cannot be reached,
//! would hold up every commit. The steps run as tasks of the replica, one change at a time, so that a caller who goes
//! away leaves no change half done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;

use mainstay_core::{Error, ErrorKind, NodeId, ReplicaId, Result, time};
use openraft::ChangeMembers;
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::errors::{ClientWriteError, RaftError};
use parking_lot::Mutex;

use crate::committer::not_primary;
use crate::message::{Envelope, Request, Response};
use crate::options::Timing;
use crate::raft::{LogId, Member, Types};
use crate::replica::{Identity, Replica, Status};
use crate::role_state::Role;
use crate::transport::Traffic;

/// How long a change of members may take to be committed.
const CHANGE_TIMEOUT: time::Duration = time::Duration::from_secs(10);

/// How long a caller waits for a new replica to catch up. It goes on learning afterwards.
const CATCH_UP_TIMEOUT: time::Duration = time::Duration::from_secs(60);

/// How long one request to join may take to be answered.
const JOIN_REQUEST_TIMEOUT: time::Duration = time::Duration::from_secs(5);

/// How long a replica that joins goes on without a primary that answers, or without anything that comes from one.
const JOIN_PATIENCE: time::Duration = time::Duration::from_secs(60);

/// How long a replica that joins goes on although a primary answers and feeds it, without coming any closer to being a
/// voter. Long, because a large state is put in force as one step.
const JOIN_STALL_PATIENCE: time::Duration = time::Duration::from_secs(300);

/// What is going on with the members of a set, on its primary.
#[derive(Debug, Default)]
pub(crate) struct MemberChanges {
    /// Held while the members are being changed.
    turn: tokio::sync::Mutex<()>,
    /// Those who asked to join and are being taken in: asking again starts nothing new.
    arriving: Mutex<BTreeMap<ReplicaId, NodeId>>,
}

/// How far a replica that joins has come: whatever changes here brings it closer to being a voter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WayIn {
    /// It knows of itself as a learner.
    learns: bool,
    log_next: u64,
    applied_next: u64,
    /// Pieces of a state, of the longest attempt.
    pieces: u64,
}

impl fmt::Display for WayIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { learns, log_next, applied_next, pieces } = self;
        let role = if *learns { "a learner" } else { "no member" };
        write!(f, "{role} with {log_next} log entries, {applied_next} applied, and {pieces} pieces of a state")
    }
}

/// How many replicas may be on their way in at a time.
const ARRIVING_MAX: usize = 64;

impl Replica {
    /// Asks the nodes of a set, again and again, to take this replica in; returns when it is a voter.
    ///
    /// # Errors
    /// `Invalid` without another node to ask, and if a node refuses this one for good: because it belongs to another cluster, or
    /// lives by another timing; `UnknownVersion` if a node runs an earlier program, which cannot read the request. `Timeout` if for a minute no primary was found among the nodes, or nothing
    /// came from it, or if for five minutes it came no closer to being a voter; asking again is fine. `Fatal` if the replica has stopped.
    pub async fn join(&self, nodes: &[NodeId]) -> Result<()> {
        let Identity { cluster, set, replica, node, .. } = self.inner.identity;
        let timing = self.inner.options.timing;
        let request = Envelope { cluster, to: None, request: Request::Join { replica, node, timing } }.encode();
        let pause = timing.heartbeat;
        let mut ask: Vec<NodeId> = nodes.iter().copied().filter(|other| *other != node).collect();
        if ask.is_empty() {
            return Err(Error::invalid(format!("joining set {set} needs the id of at least one other node")));
        }
        let (mut answered, mut fed) = (time::now(), time::now());
        let mut received = self.inner.receiver.received();
        let (mut way, mut moved) = (self.way_in(), time::now());
        loop {
            let status = self.status();
            if status.failure.is_some() || self.inner.scope.is_stopped() {
                return Err(self.stopped());
            }
            if self.is_voter_for_good(replica, node) {
                return Ok(());
            }
            if std::mem::replace(&mut received, self.inner.receiver.received()) != received {
                fed = time::now();
            }
            if answered.min(fed).elapsed() > JOIN_PATIENCE {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "none of the nodes {nodes:?} took replica {replica} into set {set} within {JOIN_PATIENCE:?}: see \
                         that the set has a primary which can reach node {node}, and join again"
                    ),
                ));
            }
            if std::mem::replace(&mut way, self.way_in()) != way {
                moved = time::now();
            }
            if moved.elapsed() > JOIN_STALL_PATIENCE {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "replica {replica} is no voter of set {set} although its primary answers; for \
                         {JOIN_STALL_PATIENCE:?} it got nothing new and stands at {way}: see in the primary's log why it \
                         cannot change the members, and that most of them run, then join again"
                    ),
                ));
            }
            let to = ask[0];
            ask.rotate_left(1);
            let call = self.inner.transport.call(to, set, Traffic::Heartbeat, request.clone());
            let answer = time::timeout(JOIN_REQUEST_TIMEOUT, call).await;
            match answer.ok().and_then(Result::ok).and_then(|bytes| Response::decode(bytes).ok()) {
                Some(Response::Done) => {
                    answered = time::now();
                    // It is the primary: ask it first the next time, too.
                    ask.rotate_right(1);
                }
                Some(Response::NotPrimary(Some(hint))) => {
                    if let Some(at) = ask.iter().position(|node| *node == hint) {
                        ask.swap(0, at);
                    }
                }
                Some(Response::Refused(why)) => {
                    return Err(Error::invalid(format!(
                        "node {to} does not take replica {replica} into set {set}: {why}"
                    )));
                }
                Some(Response::UnknownVersion { reason, .. }) => {
                    return Err(Error::new(
                        ErrorKind::UnknownVersion,
                        format!("node {to} cannot read what replica {replica} of set {set} asks it: {reason}"),
                    ));
                }
                _ => {}
            }
            time::sleep(pause).await;
        }
    }

    /// How far this replica has come on its way in.
    fn way_in(&self) -> WayIn {
        let Status { identity, learners, log_next, applied_next, .. } = self.status();
        let learns = learners.contains_key(&identity.replica);
        WayIn { learns, log_next, applied_next, pieces: self.inner.receiver.pieces() }
    }

    /// Takes a replica in: first it learns until it has caught up, then it votes. Older replicas on the same node are
    /// removed by the same step.
    ///
    /// # Errors
    /// `NotPrimary` elsewhere than on the primary; `Retry` while another change of members is under way; `Timeout` if the
    /// replica has not caught up after a minute (it goes on learning, and does not vote: call again);
    /// `OutcomeUnknown` if the others did not confirm the change in time.
    pub async fn add_member(&self, replica: ReplicaId, node: NodeId) -> Result<()> {
        if self.is_voter_for_good(replica, node) {
            return Ok(());
        }
        let this = self.clone();
        self.change(async move { this.add_learner(replica, node).await }).await?;
        self.caught_up(replica, node).await?;
        let this = self.clone();
        self.change(async move {
            let rivals = this.rivals(replica, node);
            let voters = this.voters_to_be().into_iter().filter(|voter| !rivals.contains(voter));
            let voters: BTreeSet<u64> = voters.chain([replica]).map(|id| id.0).collect();
            this.change_members(ChangeMembers::ReplaceAllVoters(voters)).await
        })
        .await
    }

    /// Removes a replica from the set. A primary does not remove itself, because who is outside of the set must not serve
    /// it: it hands over to another voter that answers and answers `NotPrimary` itself; ask the new primary then.
    ///
    /// # Errors
    /// `NotPrimary` elsewhere than on the primary, and for the primary itself; `Retry` while another change of members is under way; `Invalid` for the
    /// last voter; `OutcomeUnknown` if the others did not confirm the change in time.
    pub async fn remove_member(&self, replica: ReplicaId) -> Result<()> {
        let this = self.clone();
        self.change(async move {
            let status = this.status();
            if this.voters_to_be().iter().eq([&replica]) {
                return Err(Error::invalid(format!(
                    "replica {replica} is the last of set {}: add another before you remove it",
                    this.inner.identity.set
                )));
            }
            let gone = BTreeSet::from([replica.0]);
            if status.voters.contains_key(&replica) {
                this.change_members(ChangeMembers::RemoveVoters(gone)).await
            } else if status.learners.contains_key(&replica) {
                this.change_members(ChangeMembers::RemoveNodes(gone)).await
            } else {
                Ok(())
            }
        })
        .await
    }

    /// Answers a replica that wants to join.
    pub(crate) fn take_in(&self, replica: ReplicaId, node: NodeId, timing: Timing) -> Response {
        if timing != self.inner.options.timing {
            return Response::Refused(format!(
                "node {node} lives by {timing:?} and node {} by {:?}, and leases are safe only if all nodes live by the same: set \
                 ReplicaOptions::timing of node {node} to that",
                self.inner.identity.node, self.inner.options.timing
            ));
        }
        let role_state = self.role_state();
        if role_state.role != Role::Primary {
            return Response::NotPrimary(role_state.primary);
        }
        {
            let mut arriving = self.inner.member_changes.arriving.lock();
            if arriving.len() >= ARRIVING_MAX && !arriving.contains_key(&replica) {
                return Response::Failed(format!("{ARRIVING_MAX} replicas are being taken in already: ask later"));
            }
            if arriving.insert(replica, node).is_some() {
                return Response::Done;
            }
        }
        // Catching up may take long; who joins asks until it sees itself among the voters.
        let this = self.clone();
        self.inner.scope.spawn(async move {
            if let Err(error) = this.add_member(replica, node).await {
                tracing::debug!(%error, %replica, %node, "could not take a replica in yet");
            }
            this.inner.member_changes.arriving.lock().remove(&replica);
        });
        Response::Done
    }

    /// Other replicas on a node, which a new one there replaces.
    fn rivals(&self, replica: ReplicaId, node: NodeId) -> BTreeSet<ReplicaId> {
        let status = self.status();
        let members = status.voters.into_iter().chain(status.learners);
        members.filter(|(id, at)| *at == node && *id != replica).map(|(id, _)| id).collect()
    }

    async fn add_learner(&self, replica: ReplicaId, node: NodeId) -> Result<()> {
        let status = self.status();
        let learners = self.rivals(replica, node).into_iter().filter(|id| status.learners.contains_key(id));
        let gone: BTreeSet<u64> = learners.map(|id| id.0).collect();
        if !gone.is_empty() {
            self.change_members(ChangeMembers::RemoveNodes(gone)).await?;
        }
        let known = status.voters.get(&replica).or_else(|| status.learners.get(&replica));
        if known == Some(&node) {
            return Ok(());
        }
        // Not with openraft's own way to wait: it takes everybody within `replication_lag_threshold` for caught up.
        self.change_members(ChangeMembers::AddNodes(BTreeMap::from([(replica.0, Member { node })]))).await
    }

    /// Waits until a learner has what the log had when this was called.
    pub(crate) async fn caught_up(&self, replica: ReplicaId, node: NodeId) -> Result<()> {
        let goal = self.status().log_next;
        let caught_up = async {
            let mut metrics = self.inner.raft.metrics();
            loop {
                {
                    let now = metrics.borrow_watched();
                    let Some(replication) = &now.replication else {
                        return Err(not_primary(self.inner.identity.set, self.role_state().primary));
                    };
                    let matched = replication.get(&replica.0).copied().flatten();
                    if matched.map_or(0, |id| id.index + 1) >= goal {
                        return Ok(());
                    }
                }
                if metrics.changed().await.is_err() {
                    return Err(self.stopped());
                }
            }
        };
        time::timeout(CATCH_UP_TIMEOUT, caught_up).await.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Timeout,
                format!(
                    "replica {replica} of set {} has not caught up within {CATCH_UP_TIMEOUT:?}; it does not vote: see that \
                     node {node} runs and can be reached, and add it again",
                    self.inner.identity.set
                ),
            ))
        })
    }

    /// Carries out a change of members, alone and to its end even if the caller goes away.
    pub(crate) async fn change(&self, step: impl Future<Output = Result<()>> + Send + 'static) -> Result<()> {
        let this = self.clone();
        let set = self.inner.identity.set;
        let changed = self.inner.scope.spawn(async move {
            let Ok(_turn) = this.inner.member_changes.turn.try_lock() else {
                return Err(Error::new(
                    ErrorKind::Retry,
                    format!("the members of set {set} are being changed already: retry when that is done"),
                ));
            };
            step.await
        });
        match time::timeout(CHANGE_TIMEOUT, changed).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(self.stopped()),
            Err(_) => Err(Error::new(
                ErrorKind::OutcomeUnknown,
                format!(
                    "the change of the members of set {set} was not confirmed within {CHANGE_TIMEOUT:?}: it may or may not \
                     happen; look at the members before you try again"
                ),
            )),
        }
    }

    /// Carries out a change, and with it one that is half done. If this replica is not among the voters that the set has
    /// then, it hands over to one that is, which carries the change out.
    pub(crate) async fn change_members(&self, change: ChangeMembers<u64, Member>) -> Result<()> {
        self.change_members_to(change, false).await
    }

    /// The same; if they are to, voters that go learn on.
    pub(crate) async fn change_members_to(&self, change: ChangeMembers<u64, Member>, learn_on: bool) -> Result<()> {
        let staying = self.voters_after(&change);
        if !staying.is_empty() && !staying.contains(&self.inner.identity.replica) {
            return Err(self.leave_to(staying).await);
        }
        self.outlive_others().await?;
        self.write_members(change, learn_on).await
    }

    /// Makes this replica the only voter of a volatile set of which all others are gone for good. Before any other change: one that
    /// took a living voter in would need the votes of those who are gone.
    async fn outlive_others(&self) -> Result<()> {
        if !self.inner.lost.is_last_of_several() {
            return Ok(());
        }
        let Identity { set, replica, node, .. } = self.inner.identity;
        tracing::warn!(
            %set, %replica, %node,
            "all other voters of a volatile set are gone: it goes on with what this replica has, and what they alone had is lost"
        );
        self.write_members(ChangeMembers::ReplaceAllVoters(BTreeSet::from([replica.0])), false).await?;
        Err(Error::new(
            ErrorKind::Retry,
            format!("replica {replica} has just become the only voter of set {set}: retry"),
        ))
    }

    async fn write_members(&self, change: ChangeMembers<u64, Member>, learn_on: bool) -> Result<()> {
        let before = self.membership_id().await?;
        match self.inner.raft.change_membership(change, learn_on).await {
            Ok(_) => Ok(()),
            // Only the second step was refused: the first is in force, and the next primary goes on from there.
            Err(RaftError::APIError(lost @ ClientWriteError::ForwardToLeader(_)))
                if self.membership_id().await? != before =>
            {
                Err(self.change_unknown().with_source(lost))
            }
            Err(error) => Err(self.membership_error(error)),
        }
    }

    /// Hands over to one of those who stay, as who is outside of a set must not lead it. Returns what the caller of the
    /// change is told.
    pub(crate) async fn leave_to(&self, staying: BTreeSet<ReplicaId>) -> Error {
        let Identity { set, replica, node, .. } = self.inner.identity;
        let Some((transfer_target, at)) = self.transfer_target(&staying).await else {
            return Error::invalid(format!(
                "replica {replica} on node {node} is primary of set {set} and none of the voters would stay in the set: add \
                 one on another node first"
            ));
        };
        match self.hand_over(transfer_target).await {
            Ok(()) => not_primary(set, Some(self.role_state().primary.unwrap_or(at))),
            Err(error) => error,
        }
    }

    /// The entry that the members in force come from.
    async fn membership_id(&self) -> Result<Option<LogId>> {
        let id = self.inner.raft.with_raft_state(|state| *state.membership_state.effective().log_id()).await;
        id.map_err(|fatal| self.stopped().with_source(fatal))
    }

    fn membership_error(&self, error: RaftError<Types, ClientWriteError<Types>>) -> Error {
        let set = self.inner.identity.set;
        match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => {
                not_primary(set, forward.leader_node.map(|member| member.node))
            }
            RaftError::APIError(lost @ ClientWriteError::LogEntryDiscarded(_)) => {
                self.change_unknown().with_source(lost)
            }
            RaftError::APIError(other) => {
                Error::new(ErrorKind::Retry, format!("the members of set {set} cannot be changed at the moment: retry"))
                    .with_source(other)
            }
            RaftError::Fatal(fatal) => self.stopped().with_source(fatal),
        }
    }

    fn change_unknown(&self) -> Error {
        Error::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "this node stopped being primary of set {} while its members were changed: the change may or may not \
                 happen; look at the members before you try again",
                self.inner.identity.set
            ),
        )
    }
}
