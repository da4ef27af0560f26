//! The controller: what decides for the cluster, on the primary of the control set.
//!
//! A request is decided by a function of the control state, which changes a copy of it; [`reconcile`](reconcile::reconcile) brings
//! the wanted members in line; what differs is committed in the epoch of the primary, so that one that is not primary any more
//! decides nothing. Each node has a controller, and answers `NotPrimary` with it where the control set's primary is elsewhere.

mod founding;
mod incarnation;
mod joining;
mod members;
mod reconcile;
mod register;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mainstay_core::time::{self, Duration, Instant};
use mainstay_core::{ClusterId, Error, ErrorKind, Level, NodeId, ReplicaId, Result, SetId};
use mainstay_replica::{Partition, Role};
use mainstay_wire::Sender;
use mainstay_wire::tls::{Authority, PublicKey};
use tokio::sync::Notify;

use crate::control::ControlState;
use crate::control::record::ServiceRecord;
use crate::message::{ControlAnswer, ControlRequest, JoinAnswer, JoinRequest, NodeCertificate, NodeDescription};

pub use founding::Founding;
pub(crate) use founding::{FOUNDING_NODE, FOUNDING_REPLICA};

/// How long the confirmation of members that were changed meanwhile is waited for before a volatile set that seems to have lost
/// its quorum begins again.
const QUORUM_GRACE: Duration = Duration::from_secs(5);

/// How often the controller looks at what time alone changes.
const TICK: Duration = Duration::from_secs(1);

/// How long a certificate counts. It is renewed at two thirds of it.
const CERTIFICATE_LIFE: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// What a controller is made of.
#[derive(Debug, Clone)]
pub(crate) struct ControllerOptions {
    /// True if a process without a certificate needs a token to join.
    pub(crate) needs_token: bool,
    /// What issues certificates, on nodes that have it.
    pub(crate) authority: Option<Arc<Authority>>,
    /// What founds the cluster, on the node that does.
    pub(crate) founding: Option<FoundingNode>,
}

/// The node that founds a cluster.
#[derive(Debug, Clone)]
pub(crate) struct FoundingNode {
    pub(crate) founding: Founding,
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) description: NodeDescription,
    /// The persisted replicas that its folder holds already.
    pub(crate) held: Vec<(SetId, ReplicaId)>,
}

/// Decides for the cluster. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct Controller {
    partition: Partition,
    options: Arc<ControllerOptions>,
    /// One decision at a time: each is made from what the one before has committed.
    turn: Arc<tokio::sync::Mutex<Doubts>>,
    /// Told when something was decided that may have to be looked at again later.
    decided: Arc<Notify>,
}

/// Since when volatile sets seem to have lost their quorum.
type Doubts = BTreeMap<SetId, Instant>;

impl Controller {
    pub(crate) fn new(partition: Partition, options: ControllerOptions) -> Self {
        Self { partition, options: Arc::new(options), turn: Arc::default(), decided: Arc::default() }
    }

    /// Decides on a request.
    ///
    /// # Errors
    /// `NotPrimary` elsewhere than on the primary of the control set; `Invalid` and others by which the request is refused;
    /// `OutcomeUnknown` if it may or may not count, in which case it is sent again.
    pub(crate) async fn handle(&self, sender: &Sender, request: &ControlRequest) -> Result<ControlAnswer> {
        may_send(sender, request)?;
        let now = time::wall();
        let decide = |state: &mut ControlState| {
            state.cluster()?;
            decide(state, sender, request, self.options.needs_token, now)
        };
        let answer = self.change(&mut *self.turn.lock().await, decide).await?;
        self.decided.notify_one();
        match (answer, request) {
            (ControlAnswer::Joined(joined), ControlRequest::Join(request)) => {
                let certificate = self.certify(joined.node, request)?;
                Ok(ControlAnswer::Joined(JoinAnswer { certificate, ..joined }))
            }
            (answer, _) => Ok(answer),
        }
    }

    /// The certificate that a process has asked for, if there is an authority here.
    pub(crate) fn certify(&self, node: NodeId, request: &JoinRequest) -> Result<Option<NodeCertificate>> {
        let (Some(authority), Some(key)) = (&self.options.authority, &request.public_key) else { return Ok(None) };
        let key = PublicKey::from_bytes(key)?;
        let issued = authority.issue(&Sender::Node(node), &key, CERTIFICATE_LIFE)?;
        Ok(Some(NodeCertificate { chain_pem: issued.chain_pem, authority_pem: authority.certificate_pem() }))
    }

    /// Founds the cluster where that is this node's part, and keeps the wanted members in line, while this node is primary of the control set.
    pub(crate) async fn run(self) {
        let mut roles = self.partition.watch();
        loop {
            if roles.wait_for(|role_state| role_state.role == Role::Primary).await.is_err() {
                return;
            }
            let looked = self.look().await;
            let is_in_line = matches!(looked, Ok(true));
            if let Err(error) = looked
                && !error.is_retryable()
                && error.kind() != ErrorKind::OutcomeUnknown
            {
                tracing::error!(error = %error.report(), "the controller cannot keep the cluster in line; it tries again");
            }
            tokio::select! {
                () = time::sleep(TICK), if !is_in_line => {}
                () = self.decided.notified() => {}
                changed = roles.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Looks at the state, and returns whether it is in line for as long as nothing new is decided.
    async fn look(&self) -> Result<bool> {
        let mut doubts = self.turn.lock().await;
        let founded = |state: &mut ControlState| match (&state.cluster, &self.options.founding) {
            (None, Some(FoundingNode { founding, cluster, node, description, held })) => {
                *state = founding::found(founding, (*cluster, *node), description, held.iter().copied())?;
                Ok(())
            }
            _ => Ok(()),
        };
        self.change(&mut doubts, founded).await?;
        Ok(doubts.is_empty())
    }

    /// Changes the control state by a function, and what follows from that, in one commit.
    async fn change<T>(&self, doubts: &mut Doubts, decide: impl FnOnce(&mut ControlState) -> Result<T>) -> Result<T> {
        let stored = self.partition.read()?;
        let before = ControlState::read(&stored)?;
        let mut state = before.clone();
        let decided = decide(&mut state)?;
        let lost = settle_doubts(doubts, &state, time::now());
        reconcile::reconcile(&mut state, &lost)?;
        let mut batch = self.partition.batch();
        batch.in_epoch(stored.epoch());
        if state.write_changes(&before, &stored, &mut batch)? > 0 {
            self.partition.commit(batch).await?;
        }
        Ok(decided)
    }
}

/// Notes which volatile sets seem to have lost their quorum, and returns those for which that has been so for long enough.
fn settle_doubts(doubts: &mut Doubts, state: &ControlState, now: Instant) -> BTreeSet<SetId> {
    let volatile = state.sets.values().filter(|record| record.id.level == Level::Volatile);
    let suspects: BTreeSet<SetId> =
        volatile.filter(|record| incarnation::has_lost_quorum(record)).map(|record| record.id).collect();
    doubts.retain(|set, _| suspects.contains(set));
    for set in suspects {
        doubts.entry(set).or_insert(now);
    }
    doubts
        .iter()
        .filter(|(_, since)| now.saturating_duration_since(**since) >= QUORUM_GRACE)
        .map(|(set, _)| *set)
        .collect()
}

/// Refuses requests of senders that may not send them.
fn may_send(sender: &Sender, request: &ControlRequest) -> Result<()> {
    let is_allowed = match (sender, request) {
        (Sender::Joining, ControlRequest::Join(_)) => true,
        (Sender::Node(node), ControlRequest::Announce(announcement)) => *node == announcement.node,
        (Sender::Node(_), _) => true,
        (Sender::Operator(_), ControlRequest::SetReplicas { .. } | ControlRequest::RemoveNode { .. }) => true,
        (Sender::Operator(_), ControlRequest::CreateToken { .. } | ControlRequest::SetGate { .. }) => true,
        _ => false,
    };
    let what = match request {
        ControlRequest::Join(_) => "join",
        ControlRequest::Announce(_) => "announce that node",
        ControlRequest::Register(_) => "register services",
        ControlRequest::Confirm(_) => "confirm the members of a set",
        ControlRequest::SetReplicas { .. } => "change the number of replicas",
        ControlRequest::RemoveNode { .. } => "remove a node",
        ControlRequest::CreateToken { .. } => "make a join token",
        ControlRequest::SetGate { .. } => "turn a gate",
    };
    match is_allowed {
        true => Ok(()),
        false => Err(Error::invalid(format!("{sender} may not {what}: nodes and operators with a certificate may"))),
    }
}

/// Decides on a request by changing the state.
fn decide(
    state: &mut ControlState,
    sender: &Sender,
    request: &ControlRequest,
    needs_token: bool,
    now: time::WallTime,
) -> Result<ControlAnswer> {
    let from = match sender {
        Sender::Node(node) => *node,
        _ => NodeId::default(),
    };
    match request {
        ControlRequest::Join(request) => {
            return joining::join(state, request, needs_token, now).map(ControlAnswer::Joined);
        }
        ControlRequest::Register(registrations) => {
            let registered = register::register(state, registrations)?;
            return Ok(ControlAnswer::Registered(
                registered.iter().map(|record| ServiceRecord::clone(record)).collect(),
            ));
        }
        ControlRequest::Announce(announcement) => joining::announce(state, announcement)?,
        ControlRequest::Confirm(confirmation) => members::confirm(state, from, confirmation)?,
        ControlRequest::SetReplicas { target, min } => members::set_replicas(state, *target, *min)?,
        ControlRequest::RemoveNode { node, is_gone } => members::remove_node(state, *node, *is_gone, now)?,
        ControlRequest::CreateToken { hash, expires } => members::create_token(state, *hash, *expires, now)?,
        ControlRequest::SetGate { name, is_open } => members::set_gate(state, name, *is_open)?,
    }
    Ok(ControlAnswer::Done)
}
