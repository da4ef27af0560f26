//! The members of a set as a whole: whoever decides where replicas are says what it wants, again and again, and the primary
//! takes the steps that are left.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_core::{Error, ErrorKind, NodeId, ReplicaId, Result, SetId};
use openraft::ChangeMembers;
use openraft::async_runtime::watch::WatchReceiver as _;

use crate::raft::Member;
use crate::replica::{Identity, Replica};

/// The members that a set is to have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    /// The replicas that vote, with their nodes.
    pub voters: BTreeMap<ReplicaId, NodeId>,
    /// The replicas that only learn.
    pub learners: BTreeMap<ReplicaId, NodeId>,
}

impl Members {
    fn all(&self) -> impl Iterator<Item = (ReplicaId, NodeId)> + '_ {
        self.voters.iter().chain(&self.learners).map(|(replica, node)| (*replica, *node))
    }

    fn contains(&self, replica: ReplicaId) -> bool {
        self.voters.contains_key(&replica) || self.learners.contains_key(&replica)
    }

    fn voter_ids(&self) -> BTreeSet<ReplicaId> {
        self.voters.keys().copied().collect()
    }

    /// Refuses what no set can have.
    fn check(&self, set: SetId) -> Result<()> {
        if self.voters.is_empty() {
            return Err(Error::invalid(format!("set {set} needs at least one replica that votes")));
        }
        if let Some(both) = self.voters.keys().find(|voter| self.learners.contains_key(voter)) {
            return Err(Error::invalid(format!("replica {both} of set {set} is to vote and to learn: one of the two")));
        }
        let mut at = BTreeMap::new();
        for (replica, node) in self.all() {
            if let Some(other) = at.insert(node, replica) {
                return Err(Error::invalid(format!(
                    "replicas {other} and {replica} of set {set} would both be on node {node}, and a node holds one of a set"
                )));
            }
        }
        Ok(())
    }
}

/// The members of a set at a moment.
#[derive(Debug, PartialEq, Eq)]
struct Current {
    /// The voters, or those that it has when the change that is under way is done.
    voters: BTreeSet<ReplicaId>,
    nodes: BTreeMap<ReplicaId, NodeId>,
    /// A quorum knows them, and no change is under way.
    is_settled: bool,
}

impl Current {
    fn is(&self, wanted: &Members) -> bool {
        self.is_settled && self.voters == wanted.voter_ids() && self.nodes == wanted.all().collect()
    }
}

impl Replica {
    /// Gives the set exactly these members: new ones learn until they have what the primary has, then the voters change in one step
    /// from those that there are to those that are wanted, and whatever else there is goes. Where nothing is to be done nothing is,
    /// and after whatever interruption the next call does the rest.
    ///
    /// A primary that is not among the voters wanted hands over to one that is, and answers `NotPrimary`; that one is to be asked then.
    /// If none of them votes yet, all of them become voters beside the primary first.
    ///
    /// # Errors
    /// `Invalid` without a voter, for two replicas on a node, for one that is to vote and to learn, and for one that is on another node
    /// by now; `NotPrimary` elsewhere than on the primary, and as above; `Retry` while another change of members is under way;
    /// `Timeout` if a new voter has not caught up after a minute (it goes on learning, and does not vote: call again);
    /// `OutcomeUnknown` if the others did not confirm a change in time: call again.
    pub async fn set_members(&self, wanted: &Members) -> Result<()> {
        let Identity { set, replica: me, .. } = self.inner.identity;
        wanted.check(set)?;
        self.inner.role_tracker.check()?;
        self.add_learners(wanted).await?;
        let arriving: Vec<_> = wanted.voters.iter().filter(|(id, _)| !self.current().voters.contains(id)).collect();
        for (replica, node) in arriving {
            self.caught_up(*replica, *node).await?;
        }
        if !wanted.voters.contains_key(&me) {
            return Err(self.leave_set_to(wanted).await);
        }
        self.change_voters(wanted, wanted.voter_ids()).await?;
        self.remove_others(wanted).await?;
        if self.current().is(wanted) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Retry, format!("the members of set {set} were changed by another caller: retry")))
    }

    fn current(&self) -> Current {
        let metrics = self.inner.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let (newest, committed) = (&metrics.membership_config, &metrics.committed_membership_config);
        let configs = newest.get_joint_config();
        Current {
            voters: configs.last().into_iter().flatten().map(|id| ReplicaId(*id)).collect(),
            nodes: newest.nodes().map(|(id, member)| (ReplicaId(*id), member.node)).collect(),
            is_settled: configs.len() == 1 && newest.log_id() == committed.log_id(),
        }
    }

    /// Adds the replicas that are missing, all as learners.
    async fn add_learners(&self, wanted: &Members) -> Result<()> {
        let set = self.inner.identity.set;
        let current = self.current();
        let mut missing = BTreeMap::new();
        for (replica, node) in wanted.all() {
            match current.nodes.get(&replica) {
                Some(at) if *at != node => {
                    return Err(Error::invalid(format!(
                        "replica {replica} of set {set} is on node {at}, not on {node}: a replica stays where it is, give one on \
                         another node a new id"
                    )));
                }
                Some(_) => {}
                None => drop(missing.insert(replica.0, Member { node })),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let this = self.clone();
        self.change(async move { this.change_members(ChangeMembers::AddNodes(missing)).await }).await
    }

    /// Changes the voters to these in one step. Those that go learn on if that is wanted of one of them.
    async fn change_voters(&self, wanted: &Members, voters: BTreeSet<ReplicaId>) -> Result<()> {
        let current = self.current();
        if current.is_settled && current.voters == voters {
            return Ok(());
        }
        let learns_on = current.voters.difference(&voters).any(|voter| wanted.learners.contains_key(voter));
        let all = voters.iter().map(|voter| voter.0).collect();
        let this = self.clone();
        self.change(async move { this.change_members_to(ChangeMembers::ReplaceAllVoters(all), learns_on).await }).await
    }

    /// Removes the learners that are not wanted.
    async fn remove_others(&self, wanted: &Members) -> Result<()> {
        let gone: BTreeSet<u64> =
            self.current().nodes.into_keys().filter(|id| !wanted.contains(*id)).map(|id| id.0).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let this = self.clone();
        self.change(async move { this.change_members(ChangeMembers::RemoveNodes(gone)).await }).await
    }

    /// Hands over to one of the voters wanted. Returns what the caller is told.
    async fn leave_set_to(&self, wanted: &Members) -> Error {
        let voters = wanted.voter_ids();
        if self.current().voters.is_disjoint(&voters) {
            let with_me = voters.iter().copied().chain([self.inner.identity.replica]).collect();
            if let Err(error) = self.change_voters(wanted, with_me).await {
                return error;
            }
        }
        self.leave_to(voters).await
    }
}
