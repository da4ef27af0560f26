//! The types that openraft is told to use. Nothing outside this crate sees them.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use mainstay_core::{NodeId, SequenceNumber};
use openraft::raft::responder::Responder;

use crate::runtime::ReplicaRuntime;
use crate::state_machine::StateMachine;

/// The configuration of openraft's types: at most one leader per term, so that the term is the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Types;

impl openraft::RaftTypeConfig for Types {
    type D = Command;
    type R = Applied;
    type NodeId = u64;
    type Node = Member;
    type Term = u64;
    type LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>;
    type Vote = openraft::impls::Vote<Self::LeaderId>;
    type Payload = openraft::EntryPayload<Command, u64, Member>;
    type Entry = openraft::Entry<<Self::LeaderId as openraft::vote::RaftLeaderId>::Committed, Self::Payload>;
    type AsyncRuntime = ReplicaRuntime;
    type Responder<T>
        = Reply<T>
    where
        T: openraft::OptionalSend + 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: openraft::OptionalSend + 'static;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

pub(crate) type Raft = openraft::Raft<Types, StateMachine>;
pub(crate) type Vote = openraft::type_config::alias::VoteOf<Types>;
pub(crate) type LogId = openraft::type_config::alias::LogIdOf<Types>;
pub(crate) type Entry = openraft::type_config::alias::EntryOf<Types>;
pub(crate) type Membership = openraft::Membership<u64, Member>;
pub(crate) type StoredMembership = openraft::type_config::alias::StoredMembershipOf<Types>;
pub(crate) type SnapshotMeta = openraft::type_config::alias::SnapshotMetaOf<Types>;
pub(crate) type WriteResult = openraft::raft::ClientWriteResult<Types>;

/// A value of openraft's that can be looked at and waited for.
pub(crate) type Watched<T> =
    <<ReplicaRuntime as openraft::AsyncRuntime>::Watch as openraft::async_runtime::watch::Watch>::Receiver<T>;

pub(crate) fn vote(term: u64, node: u64, committed: bool) -> Vote {
    if committed { Vote::new_committed(term, node) } else { Vote::new(term, node) }
}

pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId::new_term_index(term, index)
}

/// The node that a replica lives on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Member {
    pub node: NodeId,
}

/// What a log entry carries: the commits of many callers, encoded once (see [`crate::command`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command(pub Bytes);

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command of {} bytes", self.0.len())
    }
}

/// What applying an entry answers to who proposed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The index of the entry in the log.
    pub index: u64,
    /// False if the entry was proposed in another epoch than it was meant for: nothing of it was applied.
    pub accepted: bool,
    /// The commits in it that cannot be applied to the state as it is, and why: nothing of them was applied.
    pub refused: Refusals,
}

/// Commits by their sequence numbers, each with what is wrong with it.
pub(crate) type Refusals = BTreeMap<SequenceNumber, String>;

/// Calls back when a proposal has an outcome.
pub(crate) struct Reply<T>(Box<dyn FnOnce(T) + Send>);

impl<T> Reply<T> {
    pub(crate) fn new(complete: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Box::new(complete))
    }
}

impl<T: openraft::OptionalSend + 'static> Responder<Types, T> for Reply<T> {
    fn on_complete(self, result: T) {
        (self.0)(result);
    }
}
