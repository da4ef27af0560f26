use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mainstay_core::{Epoch, Error, NodeId, Result, SetId, time};
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::errors::Fatal;
use openraft::metrics::RaftServerMetrics;
use openraft::{Instant as _, ServerState};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::committer::{Committer, not_primary};
use crate::options::Timing;
use crate::progress::Progress;
use crate::raft::{Raft, Types, Watched};
use crate::replica::Identity;

/// What a replica may do at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleState {
    /// Primary or secondary.
    pub role: Role,
    /// The newest epoch that is known of, whether it has a primary or not yet. It never goes back.
    pub epoch: Epoch,
    /// The node of the primary, where known. Never this one unless the role says so.
    pub primary: Option<NodeId>,
}

/// The two roles of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Commits and reads are served here. At most one replica of a set is primary at any moment.
    Primary,
    /// Commits are refused, and snapshots may lag behind.
    Secondary,
}

impl RoleState {
    /// The standing of a replica that knows nothing yet.
    pub(crate) fn unknown() -> Self {
        Self { role: Role::Secondary, epoch: Epoch(0), primary: None }
    }
}

/// The lease of a replica that has nobody to lose it to.
const FOR_EVER: time::Duration = time::Duration::from_secs(365 * 24 * 3_600);

/// Watches over a replica's role: primary is who leads in the newest epoch, holds the lease, has applied everything that
/// was committed before its epoch, and has no proposal without an outcome.
///
/// The lease is checked at the moment of every read, so losing it needs no notice; the watch is what deactivates actors
/// and stops services, and it turns at the latest when the lease has run out.
pub(crate) struct RoleTracker {
    set: SetId,
    data_loss: u32,
    me: u64,
    lease: time::Duration,
    server: Watched<RaftServerMetrics<Types>>,
    data: Watched<openraft::metrics::RaftDataMetrics<Types>>,
    all: Watched<openraft::metrics::RaftMetrics<Types>>,
    committer: Arc<Committer>,
    progress: Arc<Progress>,
    role_state: watch::Sender<RoleState>,
    /// The last epoch in which this replica must not be primary (any more): it has handed it over.
    stepped_back: AtomicU64,
    /// What openraft has panicked with, if it has.
    panic: OnceLock<String>,
    nudge: Notify,
    turn: Mutex<()>,
}

/// True if a replica votes: it is among the old or the new voters of a change that is under way, or among the only ones.
///
/// Openraft lets a leader without a vote go on until another takes over, and tells that other to stand for election itself
/// (`removed_leader_step_down`): a candidate that the leader has sent is elected in the midst of the leader's lease. So a leader
/// without a vote is not primary.
fn has_vote(server: &RaftServerMetrics<Types>, me: u64) -> bool {
    server.membership_config.get_joint_config().iter().any(|voters| voters.contains(&me))
}

impl RoleTracker {
    pub(crate) fn new(
        identity: &Identity,
        raft: &Raft,
        timing: &Timing,
        committer: Arc<Committer>,
        progress: Arc<Progress>,
    ) -> Self {
        Self {
            set: identity.set,
            data_loss: identity.data_loss,
            me: *raft.node_id(),
            lease: timing.lease(),
            server: raft.server_metrics(),
            data: raft.data_metrics(),
            all: raft.metrics(),
            committer,
            progress,
            role_state: watch::Sender::new(RoleState::unknown()),
            stepped_back: AtomicU64::new(0),
            panic: OnceLock::new(),
            nudge: Notify::new(),
            turn: Mutex::new(()),
        }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<RoleState> {
        self.role_state.subscribe()
    }

    pub(crate) fn role_state(&self) -> RoleState {
        *self.role_state.borrow()
    }

    /// The epoch, if this replica is primary and its lease holds at this moment.
    pub(crate) fn check(&self) -> Result<Epoch> {
        let role_state = self.role_state();
        // Openraft may have moved on and this task not heard of it yet.
        let leads = {
            let server = self.server.borrow_watched();
            server.state == ServerState::Leader
                && has_vote(&server, self.me)
                && server.vote.leader_id.term == role_state.epoch.term()
        };
        let held = || self.leases_until().is_some_and(|until| time::now() < until);
        if role_state.role == Role::Primary && leads && held() {
            Ok(role_state.epoch)
        } else {
            Err(self.refusal(role_state))
        }
    }

    fn refusal(&self, role_state: RoleState) -> Error {
        let hint = if role_state.role == Role::Primary { None } else { role_state.primary };
        not_primary(self.set, hint)
    }

    /// Steps back for good in an epoch, before leadership is handed to another replica: who is asked to take over may do
    /// so at any time, however late it hears of it and whatever lease there is.
    pub(crate) fn step_back(&self, epoch: Epoch) {
        self.stepped_back.fetch_max(epoch.0, Ordering::SeqCst);
        self.update();
        self.nudge.notify_one();
    }

    /// True if this replica is a quorum by itself.
    fn is_alone(&self) -> bool {
        let server = self.server.borrow_watched();
        let config = server.membership_config.get_joint_config();
        !config.is_empty() && config.iter().all(|voters| voters.len() == 1 && voters.contains(&self.me))
    }

    /// Why the replica has stopped, if it did so by itself.
    pub(crate) fn failure(&self) -> Option<String> {
        let told = self.all.borrow_watched().running_state.as_ref().err().map(ToString::to_string);
        told.or_else(|| self.panic.get().cloned())
    }

    /// The same, but nothing for a replica that was told to stop.
    pub(crate) fn broken(&self) -> Option<String> {
        let told = self.all.borrow_watched().running_state.as_ref().err().map(|fatal| match fatal {
            Fatal::Stopped => None,
            fatal => Some(fatal.to_string()),
        });
        told.unwrap_or_else(|| self.panic.get().cloned())
    }

    /// Gives the role up because the replica has stopped: from now on nothing is served.
    pub(crate) fn retire(&self) {
        self.stepped_back.store(u64::MAX, Ordering::SeqCst);
        let why = self.failure().unwrap_or_else(|| "it was shut down".to_owned());
        let _turn = self.turn.lock();
        self.publish(RoleState { role: Role::Secondary, primary: None, ..self.role_state() });
        self.progress.stop(&why);
        self.committer.stop(why);
    }

    /// Until when reads may be served, as far as is known.
    fn leases_until(&self) -> Option<time::Instant> {
        let alone = self.is_alone();
        #[cfg(feature = "planted-bugs")]
        let alone = alone || crate::planted::reads_without_lease();
        if alone {
            return Some(time::now() + FOR_EVER);
        }
        let age = self.data.borrow_watched().last_quorum_acked?.elapsed();
        Some(time::now() + self.lease.checked_sub(age)?)
    }

    /// What the standing should be now, and when it will have to be looked at again by itself.
    fn judge(&self) -> (RoleState, Option<time::Instant>) {
        let (is_leader, has_vote, term, primary) = {
            let server = self.server.borrow_watched();
            let node = server.current_leader.and_then(|id| server.membership_config.get_node(&id).map(|m| m.node));
            let is_leader = server.state == ServerState::Leader;
            (is_leader, has_vote(&server, self.me), server.vote.leader_id.term, node)
        };
        let current = self.role_state();
        let led = Epoch::new(self.data_loss, term);
        let epoch = led.max(current.epoch);
        // Who leads and may not serve has nobody to send a caller to: it is not the primary, and knows of no other.
        let secondary = RoleState { role: Role::Secondary, epoch, primary: primary.filter(|_| !is_leader) };
        if !is_leader || !has_vote || epoch != led || led.0 <= self.stepped_back.load(Ordering::SeqCst) {
            return (secondary, None);
        }
        let now = time::now();
        let Some(until) = self.leases_until().filter(|until| now < *until) else { return (secondary, None) };
        let stays = current.role == Role::Primary && current.epoch == epoch;
        let caught_up = self.data.borrow_watched().last_applied.is_some_and(|id| id.leader_id.term == term);
        let is_settled = self.committer.is_settled();
        #[cfg(feature = "planted-bugs")]
        let is_settled = is_settled || crate::planted::serves_unsettled();
        if stays || (caught_up && is_settled) {
            (RoleState { role: Role::Primary, epoch, primary }, Some(until))
        } else {
            (secondary, None)
        }
    }

    /// Judges and publishes as one step: two tasks may do so at a time.
    fn update(&self) -> (RoleState, Option<time::Instant>) {
        let _turn = self.turn.lock();
        let judged = self.judge();
        self.publish(judged.0);
        judged
    }

    fn publish(&self, next: RoleState) {
        let current = self.role_state();
        if next == current {
            return;
        }
        let was = (current.role == Role::Primary).then_some(current.epoch);
        let is = (next.role == Role::Primary).then_some(next.epoch);
        if was != is {
            // The role is gone before anybody hears that an outcome is unknown: who read here in between would keep a value
            // from before a commit that may yet happen, in an epoch that may yet go on.
            if was.is_some() {
                let primary = next.primary.filter(|_| is.is_none());
                self.role_state.send_replace(RoleState { role: Role::Secondary, primary, ..next });
            }
            self.committer.close(next.primary);
            if let Some(epoch) = is {
                // Before anybody hears of the role: who does may commit.
                self.committer.open(epoch);
            }
            let (set, replica, epoch, role) = (self.set, self.me, next.epoch, next.role);
            // Of a replica that is alone it says no more than that the node has started or stopped.
            match self.is_alone() {
                true => tracing::debug!(%set, replica, %epoch, ?role, "role changed"),
                false => tracing::info!(%set, replica, %epoch, ?role, "role changed"),
            }
        }
        self.committer.point_to(next.primary);
        // Those who watch are woken for a change alone.
        self.role_state.send_if_modified(|role_state| std::mem::replace(role_state, next) != next);
    }

    /// Keeps the standing up to date until the task is stopped.
    pub(crate) async fn run(self: Arc<Self>, raft: Raft) {
        let mut server = self.server.clone();
        let mut data = self.data.clone();
        loop {
            let (next, until) = self.update();
            // Who is primary by itself has nobody to call and nobody to stand against: it need not wake up.
            raft.runtime_config().tick(!(next.role == Role::Primary && self.is_alone()));
            let leads = self.server.borrow_watched().state == ServerState::Leader;
            let waiting_to_lead = leads && next.role == Role::Secondary;
            let expiry = async {
                match until {
                    Some(until) => time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = server.changed() => if changed.is_err() { break },
                () = self.nudge.notified() => {}
                () = self.committer.settled(), if waiting_to_lead => {}
                changed = data.changed(), if waiting_to_lead => if changed.is_err() { break },
                () = expiry => {}
            }
        }
        // Openraft tells of everything that ends it, except of a panic. Who has been told need not ask.
        if self.failure().is_none()
            && let Err(fatal @ Fatal::Panicked) = raft.with_raft_state(|_| ()).await
        {
            let _ = self.panic.set(fatal.to_string());
        }
        if let Some(cause) = self.broken() {
            tracing::error!(
                set = %self.set,
                replica = self.me,
                cause,
                "the replica of a set has stopped: its partitions are neither served nor written to on this node; what was \
                 acknowledged is kept; mend the cause and restart the node"
            );
        }
        self.retire();
    }
}
