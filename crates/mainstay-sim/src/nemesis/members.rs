//! Changes of the members, and hand-overs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, NodeId, ReplicaId, Result, random, task};
use rand::RngExt as _;

use super::Nemesis;
use crate::event;

/// How long a change of members is waited for.
const CHANGE_PATIENCE: Duration = Duration::from_secs(5);

/// With how many voters none is removed.
const VOTERS_MIN: usize = 3;

impl Nemesis {
    pub(super) fn hand_over(self: &Arc<Self>) {
        let (Some(primary), Some(to)) = (self.primary(), self.victim()) else { return };
        self.counts.lock().hand_overs.tried += 1;
        if random::rng().random_bool(0.5) {
            // Who has handed over may never hear what came of it.
            let this = self.clone();
            let pause = Duration::from_micros(random::rng().random_range(0..10_000));
            task::spawn(async move {
                time::sleep(pause).await;
                this.cut_off(primary);
            });
        }
        let this = self.clone();
        task::spawn(async move {
            let handed_over = this.hand_over_to(primary, to).await;
            // To itself it has nothing to hand over.
            this.counts.lock().hand_overs.end(handed_over && primary != to);
        });
    }

    async fn hand_over_to(&self, primary: NodeId, to: NodeId) -> bool {
        event!(self.cluster.trace, "{primary} hands over to {to}");
        let handing = self.cluster.on_node(primary, |replica| async move { replica.hand_over(ReplicaId(to.0)).await });
        let result = ended(handing).await;
        event!(self.cluster.trace, "handed over to {to}: {result:?}");
        result == Some(Ok(()))
    }

    pub(super) fn checkpoint(self: &Arc<Self>) {
        let Some(victim) = self.victim() else { return };
        self.counts.lock().checkpoints.tried += 1;
        let this = self.clone();
        task::spawn(async move {
            let made = this.cluster.on_node(victim, |replica| async move { replica.checkpoint().await });
            let made = ended(made).await == Some(Ok(()));
            this.counts.lock().checkpoints.end(made);
        });
    }

    /// Adds or removes a member, if no change is under way.
    pub(super) fn change_members(self: &Arc<Self>) {
        self.alone(|this| async move {
            let Some(primary) = this.primary() else { return };
            let voters = this.voters(primary);
            if voters.len() > VOTERS_MIN && random::rng().random_bool(0.5) {
                let gone = voters[random::rng().random_range(0..voters.len())];
                this.remove(primary, gone).await;
            } else {
                this.add(primary).await;
            }
        });
    }

    /// Removes a member and, meanwhile, hands over to it.
    pub(super) fn hand_over_to_leaver(self: &Arc<Self>) {
        self.alone(|this| async move {
            let Some(primary) = this.primary() else { return };
            let others: Vec<NodeId> = this.voters(primary).into_iter().filter(|node| *node != primary).collect();
            if others.len() < VOTERS_MIN {
                return;
            }
            let leaver = others[random::rng().random_range(0..others.len())];
            this.counts.lock().hand_overs_to_leavers.tried += 1;
            let pause = Duration::from_micros(random::rng().random_range(0..20_000));
            let handing = async {
                time::sleep(pause).await;
                this.hand_over_to(primary, leaver).await
            };
            let ((), handed_over) = tokio::join!(this.remove(primary, leaver), handing);
            this.counts.lock().hand_overs_to_leavers.end(handed_over);
        });
    }

    /// Does something to the members, unless something else is being done to them.
    fn alone<F>(self: &Arc<Self>, change: impl FnOnce(Arc<Self>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.changing_members.swap(true, Ordering::Relaxed) {
            return;
        }
        let (this, change) = (self.clone(), change(self.clone()));
        task::spawn(async move {
            change.await;
            this.changing_members.store(false, Ordering::Relaxed);
        });
    }

    fn primary(&self) -> Option<NodeId> {
        self.cluster.primary().map(|replica| replica.status().identity.node)
    }

    fn voters(&self, primary: NodeId) -> Vec<NodeId> {
        self.cluster.replica(primary).map(|replica| replica.status().voters.into_values().collect()).unwrap_or_default()
    }

    async fn add(&self, primary: NodeId) {
        let node = {
            let mut next = self.next_node.lock();
            *next += 1;
            NodeId(*next - 1)
        };
        event!(self.cluster.trace, "{node} is to become a member");
        self.counts.lock().additions.tried += 1;
        // The first start of a node, and the state that it gets from others, have operations of their own.
        let mut fault = (!self.is_over() && random::rng().random_bool(0.3)).then(|| self.inject(node));
        match (self.cluster.start(node).await, fault.take()) {
            (Ok(()), pending) => fault = pending,
            (Err(_), Some(struck)) => self.end_fault(struck, false).await,
            (Err(error), None) => {
                self.stuck.lock().get_or_insert(format!("{node} could not be started: {error:?}"));
                return;
            }
        }
        let adding = self.cluster.on_node(primary, |replica| async move {
            time::timeout(CHANGE_PATIENCE, replica.add_member(ReplicaId(node.0), node)).await
        });
        let added = changed(adding).await;
        self.counts.lock().additions.end(added);
        event!(self.cluster.trace, "{node} became a member: {added}");
        if let Some(fault) = fault {
            self.end_fault(fault, true).await;
        }
    }

    /// Removes a member. Now and then the primary crashes half way, and every other member that was removed goes on running: it
    /// may not have heard of it.
    async fn remove(self: &Arc<Self>, primary: NodeId, gone: NodeId) {
        event!(self.cluster.trace, "{gone} is to leave");
        self.counts.lock().removals.tried += 1;
        let removing = self.cluster.on_node(primary, |replica| async move {
            time::timeout(CHANGE_PATIENCE, replica.remove_member(ReplicaId(gone.0))).await
        });
        if random::rng().random_bool(0.25) {
            self.crash_soon(primary);
        }
        let removed = changed(removing).await;
        self.counts.lock().removals.end(removed);
        event!(self.cluster.trace, "{gone} left: {removed}");
        if !removed {
            return;
        }
        if random::rng().random_bool(0.5) {
            self.counts.lock().outcasts += 1;
        } else {
            self.cluster.retire(gone);
        }
    }

    /// Crashes the primary of a change within some milliseconds.
    fn crash_soon(self: &Arc<Self>, primary: NodeId) {
        self.counts.lock().removals_cut_short.tried += 1;
        let this = self.clone();
        let pause = Duration::from_micros(random::rng().random_range(0..30_000));
        let down = Duration::from_millis(random::rng().random_range(0..1_000));
        task::spawn(async move {
            time::sleep(pause).await;
            if !this.is_over() {
                let is_under_way = this.changing_members.load(Ordering::Relaxed);
                this.crash(primary, down);
                this.counts.lock().removals_cut_short.end(is_under_way);
            }
        });
    }
}

/// How something ended that a node was to do; `None` if the node did not run, or has ended before.
async fn ended(doing: Option<task::JoinHandle<Result<()>>>) -> Option<std::result::Result<(), ErrorKind>> {
    doing?.await.ok().map(|result| result.map_err(|error| error.kind()))
}

/// True if a change of members was done in time.
async fn changed<T>(doing: Option<task::JoinHandle<std::result::Result<Result<()>, T>>>) -> bool {
    match doing {
        Some(doing) => matches!(doing.await, Ok(Ok(Ok(())))),
        None => false,
    }
}
