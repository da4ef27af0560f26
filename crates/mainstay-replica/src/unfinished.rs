//! Changes of members that end with the primary that began them.
//!
//! A change of voters takes two steps: first both the old and the new voters decide together, then the new ones alone. A
//! primary that loses its role between the two leaves a set in which a member that is gone may still be needed for every
//! commit. The next primary takes the second step; and if it is itself to go with it, it hands over to one that stays.

use std::collections::BTreeSet;
use std::sync::Weak;

use mainstay_core::{NodeId, ReplicaId, time};
use openraft::ChangeMembers;
use openraft::async_runtime::watch::WatchReceiver as _;

use crate::raft::Member;
use crate::replica::{Inner, Replica};
use crate::role_state::Role;

impl Replica {
    /// The voters of the set, or those that it has when the change that is under way is done.
    pub(crate) fn voters_to_be(&self) -> BTreeSet<ReplicaId> {
        let metrics = self.inner.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let last = metrics.membership_config.get_joint_config().last();
        last.into_iter().flatten().map(|id| ReplicaId(*id)).collect()
    }

    /// The voters that the set has after a change. Openraft takes the second step of a change that is half done together with
    /// any other, and be it only a learner that is added.
    pub(crate) fn voters_after(&self, change: &ChangeMembers<u64, Member>) -> BTreeSet<ReplicaId> {
        let mut voters = self.voters_to_be();
        match change {
            ChangeMembers::RemoveVoters(gone) => voters.retain(|voter| !gone.contains(&voter.0)),
            ChangeMembers::ReplaceAllVoters(all) => voters = all.iter().map(|id| ReplicaId(*id)).collect(),
            // Who is added does not push anybody out, and learners are no voters.
            _ => {}
        }
        voters
    }

    /// True if a replica votes and nobody can change that behind its back: the members are committed, no change is under way,
    /// and there is no older replica on its node.
    pub(crate) fn is_voter_for_good(&self, replica: ReplicaId, node: NodeId) -> bool {
        let metrics = self.inner.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let members = &metrics.committed_membership_config;
        let [voters] = &members.get_joint_config()[..] else { return false };
        let here = members.nodes().filter(|(_, member)| member.node == node).map(|(id, _)| *id);
        voters.contains(&replica.0) && here.eq([replica.0])
    }
}

/// Takes the second step of changes that this replica finds half done as primary, until it is stopped.
pub(crate) async fn finish_changes(inner: Weak<Inner>) {
    let Some((mut role_state, mut server, pause)) = inner
        .upgrade()
        .map(|inner| (inner.role_tracker.watch(), inner.raft.server_metrics(), inner.options.timing.heartbeat))
    else {
        return;
    };
    loop {
        let is_primary = role_state.borrow_and_update().role == Role::Primary;
        let is_half_done = server.borrow_and_update().membership_config.get_joint_config().len() > 1;
        if is_primary && is_half_done {
            let Some(inner) = inner.upgrade() else { return };
            let replica = Replica { inner };
            let this = replica.clone();
            let second = async move { this.change_members(ChangeMembers::AddVoterIds(BTreeSet::new())).await };
            // One that this replica has begun itself is under way, and this is refused.
            if let Err(error) = replica.change(second).await {
                tracing::debug!(%error, "a change of members is not finished yet");
            }
            drop(replica);
            time::sleep(pause).await;
            continue;
        }
        tokio::select! {
            biased;
            changed = role_state.changed() => if changed.is_err() { return },
            changed = server.changed() => if changed.is_err() { return },
        }
    }
}
