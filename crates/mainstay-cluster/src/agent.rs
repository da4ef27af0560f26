//! The node agent: what keeps the replicas of this node as the control state wants them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, Level, NodeId, ReplicaId, Result, SetId, task};
use mainstay_replica::Role;
use tokio::sync::Notify;

use crate::control::record::SetRecord;
use crate::control::{CONTROL_SET, ControlState, ControlWatch};
use crate::control_client::ControlClient;
use crate::message::{Confirmation, ControlRequest};
use crate::node_sets::{HeldReplica, NodeSets};

/// How often the agent looks by itself: after what has failed, and for roles that have moved.
const TICK: Duration = Duration::from_millis(500);

/// How long the outcome of a change takes to be seen here.
const SETTLE: Duration = Duration::from_millis(20);

/// How long a confirmation is tried before the agent looks again.
const CONFIRM_TIME_LIMIT: Duration = Duration::from_secs(10);

/// Creates and drops the replicas of this node, founds sets where that is its part, and changes the members of the sets that it leads.
///
/// It does one step after the other and keeps nothing in mind: after a crash at any point it looks at what is wanted and what there
/// is, and goes on.
pub(crate) struct NodeAgent {
    node: NodeId,
    /// The number that this start of the node has drawn.
    session: u128,
    sets: Arc<dyn NodeSets>,
    client: ControlClient,
    control: ControlWatch,
    /// The sets that a task is changing or confirming the members of.
    busy: Arc<Busy>,
}

/// Which sets are being worked on.
#[derive(Debug, Default)]
struct Busy {
    sets: parking_lot::Mutex<BTreeSet<SetId>>,
    done: Notify,
}

/// The place of one of them, until it is dropped.
struct Place {
    busy: Arc<Busy>,
    set: SetId,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.busy.sets.lock().remove(&self.set);
        self.busy.done.notify_one();
    }
}

impl fmt::Debug for NodeAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeAgent").field("node", &self.node).finish_non_exhaustive()
    }
}

impl NodeAgent {
    pub(crate) fn new(
        (node, session): (NodeId, u128),
        sets: Arc<dyn NodeSets>,
        client: ControlClient,
        control: ControlWatch,
    ) -> Self {
        Self { node, session, sets, client, control, busy: Arc::default() }
    }

    /// Works until it is stopped.
    pub(crate) async fn run(mut self) {
        loop {
            let state = self.control.get_and_update();
            self.look(&state).await;
            let busy = self.busy.clone();
            let is_settled = self.is_settled(&state);
            tokio::select! {
                is_there = self.control.changed() => if !is_there { return },
                () = busy.done.notified() => {}
                // A cluster in which all is as wanted wakes nobody up.
                () = time::sleep(TICK), if !is_settled => {}
            }
        }
    }

    /// True if the replicas of this node are those that are wanted here, and every set has confirmed the members that it is to have:
    /// then nothing is to be done before the control state changes.
    fn is_settled(&self, state: &ControlState) -> bool {
        let held: BTreeMap<SetId, ReplicaId> =
            self.sets.held().into_iter().map(|held| (held.set, held.replica)).collect();
        let is_announced = state.nodes.get(&self.node).is_some_and(|node| node.session == self.session);
        let is_as_wanted = |record: &SetRecord| {
            record.wanted == record.confirmed && record.wanted.on(self.node) == held.get(&record.id).copied()
        };
        is_announced && state.sets.values().all(is_as_wanted)
    }

    async fn look(&self, state: &Arc<ControlState>) {
        let held: BTreeMap<SetId, HeldReplica> = self.sets.held().into_iter().map(|held| (held.set, held)).collect();
        for replica in held.values() {
            if state.is_retired(replica.set, replica.replica) {
                self.drop_replica(replica).await;
            }
        }
        // Until the cluster has taken note of this start, it wants the volatile replicas of the one before: their memory is gone, and
        // one that came back under their ids would have forgotten what it has promised.
        let is_announced = state.nodes.get(&self.node).is_some_and(|node| node.session == self.session);
        for record in state.sets.values().filter(|record| is_announced || record.id.level == Level::Persisted) {
            self.sets
                .expect(record.id, record.wanted.all().chain(record.confirmed.all()).map(|(_, node)| node).collect());
            if let Err(error) = self.hold(record, held.get(&record.id)).await {
                complain(record.id, &error, "a replica cannot be created here yet");
            }
            if let Some(held) = held.get(&record.id).filter(|held| held.role_state.role == Role::Primary) {
                self.lead(record, held);
            }
        }
    }

    async fn drop_replica(&self, held: &HeldReplica) {
        let HeldReplica { set, replica, .. } = held;
        match self.sets.drop_replica(*set, *replica).await {
            Ok(()) => tracing::info!(%set, %replica, "a replica was dropped: its set is held by other nodes now"),
            Err(error) => complain(*set, &error, "a replica cannot be dropped yet"),
        }
    }

    /// Creates the replica of a set that is wanted here, and founds the set if that is its part.
    async fn hold(&self, record: &SetRecord, held: Option<&HeldReplica>) -> Result<()> {
        let Some(replica) = record.wanted.on(self.node) else { return Ok(()) };
        match held.map(|held| held.replica) {
            Some(other) if other != replica => return Ok(()),
            Some(_) => {}
            // Every node has its replica of the control set from the start on.
            None if record.id == CONTROL_SET => return Ok(()),
            None => self.sets.create(record.id, replica, record.data_loss).await?,
        }
        if record.founder == replica && record.confirmed.is_empty() {
            self.sets.found(record.id).await?;
        }
        Ok(())
    }

    /// Changes the members of a set that this node leads to those that are wanted, and says when they are.
    fn lead(&self, record: &SetRecord, held: &HeldReplica) {
        let is_as_wanted = held.members == record.wanted;
        if is_as_wanted && held.members == record.confirmed {
            return;
        }
        if !self.busy.sets.lock().insert(record.id) {
            return;
        }
        let place = Place { busy: self.busy.clone(), set: record.id };
        let (sets, client) = (self.sets.clone(), self.client.clone());
        let (set, wanted) = (record.id, record.wanted.clone());
        let confirmation = is_as_wanted.then(|| Confirmation {
            set,
            replica: held.replica,
            epoch: held.role_state.epoch,
            members: held.members.clone(),
        });
        task::spawn(async move {
            let place = place;
            let worked = match confirmation {
                Some(confirmation) => {
                    client.request(&ControlRequest::Confirm(confirmation), CONFIRM_TIME_LIMIT).await.map(drop)
                }
                None => sets.set_members(set, &wanted).await,
            };
            // Not again at once: this node's own view takes a moment to follow, and what has failed waits for something.
            let pause = match worked {
                Ok(()) => SETTLE,
                Err(error) => {
                    complain(set, &error, "the members of a set cannot be changed to what is wanted yet");
                    TICK
                }
            };
            time::sleep(pause).await;
            drop(place);
        });
    }
}

/// Notes what does not work yet. What passes by itself is for those who look closely.
fn complain(set: SetId, error: &mainstay_core::Error, what: &str) {
    match error.kind() {
        kind if error.is_retryable() || matches!(kind, ErrorKind::OutcomeUnknown | ErrorKind::Conflict) => {
            tracing::debug!(%set, error = %error.report(), "{what}; it is tried again");
        }
        _ => tracing::warn!(%set, error = %error.report(), "{what}; it is tried again"),
    }
}
