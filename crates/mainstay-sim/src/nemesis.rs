use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstay_core::time::{self, Duration, Instant};
use mainstay_core::{NodeId, ReplicaId, random, task};
use mainstay_replica::Troubles;
use parking_lot::Mutex;
use rand::RngExt as _;

use crate::cluster::Cluster;
use crate::event;

/// Makes things go wrong, one after the other, by the seed.
#[derive(Debug)]
pub(crate) struct Nemesis {
    cluster: Arc<Cluster>,
    changing_members: AtomicBool,
    /// The time of trouble has ended: what was still to come does not cut anybody off any more.
    is_over: AtomicBool,
    next_node: Mutex<u64>,
    pub counts: Mutex<Counts>,
    /// A node that could not be started again.
    pub stuck: Mutex<Option<String>>,
}

/// How often what was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes killed; one that was down already cannot be.
    pub crashes: Tally,
    /// Cuts and spells of bad network.
    pub network_troubles: u64,
    /// Members added.
    pub additions: Tally,
    /// Members removed.
    pub removals: Tally,
    /// Primaries that handed over.
    pub hand_overs: Tally,
}

/// How often something was tried, and how often it succeeded: only that puts anything to the test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often it was tried.
    pub tried: u64,
    /// How often it succeeded.
    pub done: u64,
}

impl Tally {
    fn end(&mut self, succeeded: bool) {
        self.done += u64::from(succeeded);
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.tried += other.tried;
        self.done += other.done;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.done, self.tried)
    }
}

impl Nemesis {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        let next_node = Mutex::new(cluster.scenario.replicas + 1);
        Self {
            cluster,
            changing_members: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            next_node,
            counts: Mutex::default(),
            stuck: Mutex::default(),
        }
    }

    /// Makes things go wrong until a moment.
    pub(crate) async fn run(self: Arc<Self>, until: Instant) {
        loop {
            time::sleep(Duration::from_millis(random::rng().random_range(20..900))).await;
            if time::now() >= until {
                self.is_over.store(true, Ordering::Relaxed);
                return;
            }
            match random::rng().random_range(0..100) {
                0..20 => self.crash_one(),
                20..28 => self.crash_all(),
                28..34 => self.doom_one(),
                34..48 => self.isolate(),
                48..52 => self.usurp(),
                52..58 => self.cut_one_way(),
                58..68 => self.heal(),
                68..77 => self.spoil_network(),
                77..84 => self.hand_over(),
                84..89 => self.checkpoint(),
                _ => self.change_members(),
            }
        }
    }

    /// A running node; often the primary, which has most to lose.
    fn victim(&self) -> Option<NodeId> {
        if random::rng().random_bool(0.4)
            && let Some(primary) = self.cluster.primary()
        {
            return Some(primary.status().identity.node);
        }
        let nodes = self.cluster.running();
        (!nodes.is_empty()).then(|| nodes[random::rng().random_range(0..nodes.len())])
    }

    fn crash_one(self: &Arc<Self>) {
        if let Some(victim) = self.victim() {
            self.crash(victim, Duration::from_millis(random::rng().random_range(0..2_000)));
        }
    }

    fn crash_all(self: &Arc<Self>) {
        for node in self.cluster.running() {
            self.crash(node, Duration::from_millis(random::rng().random_range(0..500)));
        }
    }

    fn doom_one(self: &Arc<Self>) {
        let Some(victim) = self.victim() else { return };
        self.cluster.doom(victim, random::rng().random_range(0..40));
        let this = self.clone();
        let pause = Duration::from_millis(random::rng().random_range(1..300));
        task::spawn(async move {
            time::sleep(pause).await;
            this.crash(victim, Duration::from_millis(random::rng().random_range(0..500)));
        });
    }

    fn crash(self: &Arc<Self>, node: NodeId, down: Duration) {
        self.counts.lock().crashes.tried += 1;
        let crashed = self.cluster.crash(node);
        self.counts.lock().crashes.end(crashed);
        let this = self.clone();
        task::spawn(async move {
            time::sleep(down).await;
            this.restart(node).await;
        });
    }

    /// Starts a node again if it has not been taken away meanwhile.
    pub(crate) async fn restart(&self, node: NodeId) {
        if !self.cluster.ids().contains(&node) {
            return;
        }
        if let Err(error) = self.cluster.start(node).await {
            self.stuck.lock().get_or_insert(format!("{node} could not be started again: {error:?}"));
        }
    }

    /// The most that a lease has to stand: one replica has not heard of the primary for long, and those who have restart at
    /// the very moment at which the primary is cut off.
    fn usurp(self: &Arc<Self>) {
        let Some(primary) = self.cluster.primary().map(|replica| replica.status().identity.node) else { return };
        let others: Vec<NodeId> = self.cluster.running().into_iter().filter(|node| *node != primary).collect();
        if others.is_empty() {
            return;
        }
        let usurper = others[random::rng().random_range(0..others.len())];
        event!(self.cluster.trace, "{usurper} does not hear of {primary} any more");
        self.cluster.network.cut(primary, usurper);
        self.cluster.network.cut(usurper, primary);
        let this = self.clone();
        let pause = Duration::from_millis(random::rng().random_range(300..1_500));
        task::spawn(async move {
            time::sleep(pause).await;
            if this.is_over.load(Ordering::Relaxed) {
                return;
            }
            this.cut_off(primary);
            for other in others.into_iter().filter(|other| *other != usurper) {
                this.crash(other, Duration::from_millis(random::rng().random_range(0..20)));
            }
        });
    }

    fn isolate(&self) {
        if let Some(victim) = self.victim() {
            self.cut_off(victim);
        }
    }

    fn cut_off(&self, victim: NodeId) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        self.counts.lock().network_troubles += 1;
        event!(self.cluster.trace, "{victim} is cut off");
        for other in self.cluster.ids().into_iter().filter(|other| *other != victim) {
            self.cluster.network.cut(victim, other);
            self.cluster.network.cut(other, victim);
        }
    }

    fn cut_one_way(&self) {
        let (Some(from), Some(to)) = (self.victim(), self.victim()) else { return };
        self.counts.lock().network_troubles += 1;
        event!(self.cluster.trace, "the way from {from} to {to} is cut");
        self.cluster.network.cut(from, to);
    }

    fn heal(&self) {
        event!(self.cluster.trace, "the network is well");
        self.cluster.network.heal();
        self.cluster.network.set_troubles(self.cluster.scenario.calm);
    }

    fn spoil_network(&self) {
        let mut rng = random::rng();
        let troubles = Troubles {
            loss: rng.random_range(0.0..0.3),
            duplication: rng.random_range(0.0..0.3),
            delay_min: Duration::from_micros(100),
            delay_max: Duration::from_millis(rng.random_range(1..150)),
            ..Troubles::default()
        };
        self.counts.lock().network_troubles += 1;
        event!(self.cluster.trace, "the network is bad: {troubles:?}");
        self.cluster.network.set_troubles(troubles);
    }

    fn hand_over(self: &Arc<Self>) {
        let (Some(primary), Some(to)) = (self.cluster.primary(), self.victim()) else { return };
        self.counts.lock().hand_overs.tried += 1;
        if random::rng().random_bool(0.5) {
            // Who has handed over may never hear what came of it.
            let (this, node) = (self.clone(), primary.status().identity.node);
            let pause = Duration::from_micros(random::rng().random_range(0..10_000));
            task::spawn(async move {
                time::sleep(pause).await;
                this.cut_off(node);
            });
        }
        let this = self.clone();
        task::spawn(async move {
            let (trace, node) = (&this.cluster.trace, primary.status().identity.node);
            event!(trace, "{node} hands over to {to}");
            let result = primary.hand_over(ReplicaId(to.0)).await;
            // To itself it has nothing to hand over.
            this.counts.lock().hand_overs.end(result.is_ok() && node != to);
            event!(trace, "handed over to {to}: {:?}", result.map_err(|error| error.kind()));
        });
    }

    fn checkpoint(self: &Arc<Self>) {
        let Some(replica) = self.victim().and_then(|victim| self.cluster.replica(victim)) else { return };
        task::spawn(async move { drop(replica.checkpoint().await) });
    }

    fn change_members(self: &Arc<Self>) {
        if self.changing_members.swap(true, Ordering::Relaxed) {
            return;
        }
        let this = self.clone();
        task::spawn(async move {
            if let Some(primary) = this.cluster.primary() {
                let voters = primary.status().voters;
                let shrink = voters.len() > 3 && random::rng().random_bool(0.5);
                if shrink {
                    let gone = voters.keys().nth(random::rng().random_range(0..voters.len())).copied();
                    this.remove(primary, gone.unwrap_or_default()).await;
                } else {
                    this.add(primary).await;
                }
            }
            this.changing_members.store(false, Ordering::Relaxed);
        });
    }

    async fn add(&self, primary: mainstay_replica::Replica) {
        let node = {
            let mut next = self.next_node.lock();
            *next += 1;
            NodeId(*next - 1)
        };
        event!(self.cluster.trace, "{node} is to become a member");
        self.counts.lock().additions.tried += 1;
        if let Err(error) = self.cluster.start(node).await {
            self.stuck.lock().get_or_insert(format!("{node} could not be started: {error:?}"));
            return;
        }
        let adding = primary.add_member(ReplicaId(node.0), node);
        let result = time::timeout(Duration::from_secs(5), adding).await;
        let added = matches!(result, Ok(Ok(())));
        self.counts.lock().additions.end(added);
        event!(self.cluster.trace, "{node} became a member: {added}");
    }

    async fn remove(&self, primary: mainstay_replica::Replica, replica: ReplicaId) {
        event!(self.cluster.trace, "{replica} is to leave");
        self.counts.lock().removals.tried += 1;
        let removing = primary.remove_member(replica);
        let result = time::timeout(Duration::from_secs(5), removing).await;
        let removed = matches!(result, Ok(Ok(())));
        self.counts.lock().removals.end(removed);
        event!(self.cluster.trace, "{replica} left: {removed}");
        if removed {
            self.cluster.retire(NodeId(replica.0));
        }
    }
}
