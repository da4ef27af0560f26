use std::collections::BTreeSet;
use std::fmt;

use mainstay_core::{NodeId, ReplicaId};
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::metrics::RaftServerMetrics;
use parking_lot::RwLock;

use crate::message::Request;
use crate::raft::{Raft, Types, Watched};
use crate::replica::Identity;

/// Which nodes a replica takes requests from: those of the members of its set, and those that are about to be.
///
/// A replica follows the members by its log, and its log may lack the newest. What a replica is told to expect is what the set is
/// going to have; it is to be told before the members change, so that a new primary is not a stranger to one that lags behind.
pub(crate) struct Senders {
    identity: Identity,
    server: Watched<RaftServerMetrics<Types>>,
    expected: RwLock<Expected>,
}

#[derive(Debug)]
enum Expected {
    Nodes(BTreeSet<NodeId>),
    Anyone,
}

impl fmt::Debug for Senders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Senders").field("expected", &*self.expected.read()).finish_non_exhaustive()
    }
}

impl Senders {
    pub(crate) fn new(identity: Identity, raft: &Raft) -> Self {
        Self { identity, server: raft.server_metrics(), expected: RwLock::new(Expected::Nodes(BTreeSet::new())) }
    }

    pub(crate) fn expect(&self, nodes: BTreeSet<NodeId>) {
        *self.expected.write() = Expected::Nodes(nodes);
    }

    pub(crate) fn expect_anyone(&self) {
        *self.expected.write() = Expected::Anyone;
    }

    /// Refuses a request of a node that has no part in the set, or that speaks for a replica of another node.
    ///
    /// # Errors
    /// What the node is told.
    pub(crate) fn check(&self, from: NodeId, request: &Request) -> Result<(), String> {
        let Identity { set, replica, node, .. } = self.identity;
        let is_expected = match &*self.expected.read() {
            Expected::Anyone => return Ok(()),
            Expected::Nodes(nodes) => nodes.contains(&from),
        };
        let server = self.server.borrow_watched();
        let configs = [&server.membership_config, &server.committed_membership_config];
        let mut members = configs.iter().flat_map(|config| config.nodes());
        if !is_expected && !members.any(|(_, member)| member.node == from) {
            return Err(format!(
                "node {from} is no member of set {set} as replica {replica} on node {node} knows it: a node that was removed is to be \
                 stopped, and a new one is taken in by the primary"
            ));
        }
        let Some(speaker) = speaker(request) else { return Ok(()) };
        let mut at = configs.iter().filter_map(|config| config.get_node(&speaker.0));
        match at.next() {
            Some(member) if member.node != from => {
                Err(format!("node {from} speaks for replica {speaker} of set {set}, which is on node {}", member.node))
            }
            _ => Ok(()),
        }
    }
}

/// The replica that a request says it comes from, if it does.
fn speaker(request: &Request) -> Option<ReplicaId> {
    let vote = match request {
        Request::Append(append) => &append.vote,
        Request::Vote(request) | Request::PreVote(request) => &request.vote,
        Request::Transfer(transfer) => transfer.from_leader(),
        Request::SnapshotEnd { vote, .. } => vote,
        Request::Join { replica, .. } => return Some(*replica),
        Request::SnapshotChunk { .. } => return None,
    };
    Some(ReplicaId(vote.leader_id.voted_for))
}
