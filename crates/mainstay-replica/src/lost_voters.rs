//! Voters of a volatile set that are gone for good.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstay_core::{Level, ReplicaId, SetId};
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::metrics::RaftServerMetrics;
use parking_lot::Mutex;

use crate::message::Response;
use crate::raft::{Raft, Types, Watched};

/// The voters of a volatile set whose nodes have another replica of it by now: they ended with their process, and their ids
/// never come back.
///
/// A volatile set whose voters are all gone but one has lost its quorum for ever, and no other voter is left that could know
/// more or lead it. Then the last one goes on with what it has: it is answered in place of those who are gone, becomes primary by
/// that, and makes itself the only voter before anything else is changed. As long as a second voter may live, nobody is answered for.
pub(crate) struct LostVoters {
    set: SetId,
    me: ReplicaId,
    is_any_lost: AtomicBool,
    lost: Mutex<BTreeSet<u64>>,
    server: OnceLock<Watched<RaftServerMetrics<Types>>>,
}

impl fmt::Debug for LostVoters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LostVoters")
            .field("set", &self.set)
            .field("me", &self.me)
            .field("lost", &*self.lost.lock())
            .finish()
    }
}

impl LostVoters {
    pub(crate) fn new(set: SetId, me: ReplicaId) -> Self {
        Self { set, me, is_any_lost: AtomicBool::new(false), lost: Mutex::default(), server: OnceLock::new() }
    }

    /// Learns of the members from openraft.
    pub(crate) fn follow(&self, raft: &Raft) {
        self.server.get_or_init(|| raft.server_metrics());
    }

    /// Takes note of what was answered to a request for a replica. Only a replica of the same cluster and set answers so, and a
    /// node has one at a time.
    pub(crate) fn heard(&self, replica: ReplicaId, answer: &Response) {
        let is_lost = matches!(answer, Response::WrongReplica(here) if *here != replica);
        // What a persisted replica has promised outlives it in the promises of others, and losing it is for people to decide.
        if is_lost && self.set.level == Level::Volatile && self.lost.lock().insert(replica.0) {
            self.is_any_lost.store(true, Ordering::Release);
            tracing::warn!(set = %self.set, %replica, "a voter of a volatile set is gone for good");
        }
    }

    /// True if every voter but this replica is gone for good.
    pub(crate) fn is_last(&self) -> bool {
        if !self.is_any_lost.load(Ordering::Acquire) {
            return false;
        }
        let Some(server) = self.server.get() else { return false };
        let server = server.borrow_watched();
        let configs = server.membership_config.get_joint_config();
        let lost = self.lost.lock();
        let mut voters = configs.iter().flatten();
        let is_voter = configs.iter().any(|voters| voters.contains(&self.me.0));
        is_voter && voters.all(|voter| *voter == self.me.0 || lost.contains(voter))
    }

    /// True if every voter but this replica is gone for good, and `replica` is one of those.
    pub(crate) fn is_answered_for(&self, replica: ReplicaId) -> bool {
        self.is_last() && self.lost.lock().contains(&replica.0)
    }

    /// True if there are voters that are gone, and this replica should make itself the only one.
    pub(crate) fn is_last_of_several(&self) -> bool {
        let is_other = |voter: &u64| *voter != self.me.0;
        self.is_last()
            && self.server.get().is_some_and(|server| {
                server.borrow_watched().membership_config.get_joint_config().iter().flatten().any(is_other)
            })
    }
}
