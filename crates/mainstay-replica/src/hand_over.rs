//! How a primary hands its role to another replica: those who use its partitions let their work end, what is proposed gets its
//! outcome, and only then the role moves. So no caller loses an answer by it.

use std::collections::BTreeSet;

use mainstay_core::{Epoch, Error, ErrorKind, NodeId, ReplicaId, Result, time};
use openraft::async_runtime::watch::WatchReceiver as _;

use crate::committer::not_primary;
use crate::quiescence::Round;
use crate::replica::Replica;
use crate::role_state::Role;
use crate::transfer_target::answered_within;

/// How long those who use a partition may take to let their work end. What takes longer is cut off.
pub(crate) const QUIESCE_TIMEOUT: time::Duration = time::Duration::from_secs(3);

/// How long the commits under way may take to get their outcome, and the next primary to have them all. Without that the role stays.
const SETTLE_TIMEOUT: time::Duration = time::Duration::from_secs(2);

/// How long a new primary may take to show up after the old one stepped back.
const HAND_OVER_TIMEOUT: time::Duration = time::Duration::from_secs(5);

impl Replica {
    /// Hands the role of primary to another voter and waits until this one has heard that another is primary.
    ///
    /// First those who [take part](crate::Partition::quiescence) let their work end, for up to three seconds; commits that come
    /// meanwhile wait, and are sent on to the next primary when the role has moved. Dropping the future does not take it back.
    ///
    /// # Errors
    /// `NotPrimary` elsewhere than on the primary, `NotFound` for a replica that does not vote, `Retry` while another hand-over is
    /// under way. `Timeout` if that replica does not answer or is too far behind: this one goes on as before. `Timeout` as well if
    /// no other was primary soon after this one has stepped back: the set elects one by itself then, and it may be this one.
    pub async fn hand_over(&self, to: ReplicaId) -> Result<()> {
        let set = self.inner.identity.set;
        let epoch = self.inner.role_tracker.check()?;
        let Some(node) = self.status().voters.get(&to).copied() else {
            return Err(Error::new(ErrorKind::NotFound, format!("replica {to} is not a voter of set {set}")));
        };
        if to == self.inner.identity.replica {
            return Ok(());
        }
        // In a task of its own: once this replica has stepped back, openraft must hear of it even if the caller goes away,
        // because only then the others elect a primary should `to` not take over.
        let this = self.clone();
        let handed_over = self.inner.scope.spawn(async move { this.hand_over_in(epoch, to, node).await });
        handed_over.await.unwrap_or_else(|_| Err(self.stopped()))
    }

    /// Hands the role over to the voter that answers and has most of the log. A replica that is the only voter keeps it.
    ///
    /// # Errors
    /// As [`hand_over`](Self::hand_over).
    pub async fn resign(&self) -> Result<()> {
        let others: BTreeSet<ReplicaId> = self.status().voters.into_keys().collect();
        match self.transfer_target(&others).await {
            Some((to, _)) => self.hand_over(to).await,
            None => Ok(()),
        }
    }

    async fn hand_over_in(&self, epoch: Epoch, to: ReplicaId, node: NodeId) -> Result<()> {
        let set = self.inner.identity.set;
        let Some(round) = self.inner.participants.begin() else {
            return Err(Error::new(ErrorKind::Retry, format!("set {set} is being handed over already: retry")));
        };
        let mut watch = self.watch();
        let lost = watch.wait_for(|role_state| role_state.role != Role::Primary || role_state.epoch != epoch);
        let _held = tokio::select! {
            biased;
            _ = lost => return Err(not_primary(set, self.role_state().primary)),
            prepared = self.prepare(to, &round) => prepared?,
        };
        self.inner.role_tracker.step_back(epoch, node);
        let told = self.inner.raft.trigger().transfer_leader(to.0).await;
        told.map_err(|fatal| self.stopped().with_source(fatal))?;
        let me = self.inner.identity.node;
        let moved =
            watch.wait_for(|role_state| role_state.epoch > epoch && role_state.primary.is_some_and(|node| node != me));
        match time::timeout(HAND_OVER_TIMEOUT, moved).await {
            Ok(_) => Ok(()),
            Err(time::Elapsed) => Err(Error::new(
                ErrorKind::Timeout,
                format!("replica {to} did not take over set {set} in time; the set elects a primary by itself"),
            )),
        }
    }

    /// Lets all work end, and sees to it that the next primary has everything. Commits are held back for as long as what is
    /// returned is kept.
    async fn prepare(&self, to: ReplicaId, round: &Round) -> Result<HeldCommits> {
        let set = self.inner.identity.set;
        if time::timeout(QUIESCE_TIMEOUT, round.all_done()).await.is_err() {
            tracing::warn!(%set, "calls have not ended in time before a hand-over, and are cut off");
        }
        let held = HeldCommits::new(self);
        let settled = async {
            while !self.inner.committer.is_settled() {
                self.inner.committer.settled().await;
            }
            // A change of members that is half done is finished by the next primary, and must not keep the role here: it may wait for
            // a voter that is gone.
            if !self.is_changing_members() {
                self.has_all(to).await;
            }
        };
        time::timeout(SETTLE_TIMEOUT, settled).await.map_err(|time::Elapsed| {
            Error::new(
                ErrorKind::Timeout,
                format!(
                    "replica {to} cannot take over set {set}, because it does not answer or lacks commits: the role stays, retry"
                ),
            )
        })?;
        Ok(held)
    }

    fn is_changing_members(&self) -> bool {
        self.inner.raft.server_metrics().borrow_watched().membership_config.get_joint_config().len() > 1
    }

    /// Waits until a replica answers and has all of the log.
    async fn has_all(&self, to: ReplicaId) {
        let asked = time::now();
        // Should openraft have stopped, the transfer says so.
        let _ = self.inner.raft.trigger().heartbeat().await;
        let mut data = self.inner.raft.data_metrics();
        loop {
            {
                let data = data.borrow_watched();
                let matched = data.replication.as_ref().and_then(|all| all.get(&to.0).copied().flatten());
                if matched == data.last_log && answered_within(&data, to, asked.elapsed()) {
                    return;
                }
            }
            if data.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Commits that wait until the role has moved, or stays.
struct HeldCommits {
    replica: Replica,
}

impl HeldCommits {
    fn new(replica: &Replica) -> Self {
        replica.inner.committer.hold();
        Self { replica: replica.clone() }
    }
}

impl Drop for HeldCommits {
    fn drop(&mut self) {
        self.replica.inner.committer.go_on();
    }
}
