//! Whom a primary hands over to when it is to leave its set.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use mainstay_core::{NodeId, ReplicaId, time};
use openraft::Instant as _;
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::metrics::RaftDataMetrics;

use crate::raft::Types;
use crate::replica::Replica;

/// How many heartbeats the others have to answer in: one that was lost on the way holds up the next for as long as it may take.
const HEARTBEATS_MAX: u32 = 2;

impl Replica {
    /// Calls the voters that stay and returns, of those that answer, the one that has most of the log; if none does, the one
    /// that has most. `None` if no other voter stays.
    pub(crate) async fn transfer_target(&self, staying: &BTreeSet<ReplicaId>) -> Option<(ReplicaId, NodeId)> {
        let mut voters = self.status().voters;
        voters.retain(|voter, _| *voter != self.inner.identity.replica && staying.contains(voter));
        let asked = time::now();
        // Should openraft have stopped, who hands over hears of it.
        let _ = self.inner.raft.trigger().heartbeat().await;
        let mut data = self.inner.raft.data_metrics();
        let all_answered = async {
            while !voters.keys().all(|voter| answered_within(&data.borrow_watched(), *voter, asked.elapsed())) {
                if data.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = time::timeout(self.inner.options.timing.heartbeat * HEARTBEATS_MAX, all_answered).await;
        best(voters, &data.borrow_watched(), asked)
    }
}

fn best(
    voters: BTreeMap<ReplicaId, NodeId>,
    data: &RaftDataMetrics<Types>,
    asked: time::Instant,
) -> Option<(ReplicaId, NodeId)> {
    let matched = |voter: ReplicaId| data.replication.as_ref()?.get(&voter.0).copied().flatten();
    voters
        .into_iter()
        .max_by_key(|(voter, _)| (answered_within(data, *voter, asked.elapsed()), matched(*voter), Reverse(*voter)))
}

/// True if a replica has acknowledged something that was sent to it no longer ago than that.
pub(crate) fn answered_within(data: &RaftDataMetrics<Types>, replica: ReplicaId, ago: time::Duration) -> bool {
    let last = data.heartbeat.as_ref().and_then(|calls| calls.get(&replica.0).copied().flatten());
    last.is_some_and(|sent| sent.elapsed() <= ago)
}
