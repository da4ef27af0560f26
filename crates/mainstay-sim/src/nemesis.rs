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
    /// Disks whose power went in the midst of something; only what a running node does can be cut short.
    pub power_losses: Tally,
    /// Nodes whose power went again while they started; one that was up before that is not counted as done.
    pub failed_starts: Tally,
    /// Cuts and spells of bad network.
    pub network_troubles: u64,
    /// Cuts of one direction alone; they are network troubles, too.
    pub one_way_cuts: u64,
    /// Primaries that were cut off just when all who had heard of them restarted, but for one.
    pub usurpations: Tally,
    /// Checkpoints made out of turn.
    pub checkpoints: Tally,
    /// Members added.
    pub additions: Tally,
    /// Members removed.
    pub removals: Tally,
    /// Primaries that handed over.
    pub hand_overs: Tally,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.power_losses += other.power_losses;
        self.failed_starts += other.failed_starts;
        self.network_troubles += other.network_troubles;
        self.one_way_cuts += other.one_way_cuts;
        self.usurpations += other.usurpations;
        self.checkpoints += other.checkpoints;
        self.additions += other.additions;
        self.removals += other.removals;
        self.hand_overs += other.hand_overs;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { crashes, power_losses, failed_starts, network_troubles, one_way_cuts, .. } = self;
        let Self { usurpations, checkpoints, additions, removals, hand_overs, .. } = self;
        write!(f, "{crashes} crashes, {power_losses} losses of power, {failed_starts} while starting, ")?;
        write!(
            f,
            "{usurpations} usurpations, {hand_overs} hand-overs, {additions} members added, {removals} removed, "
        )?;
        write!(f, "{checkpoints} checkpoints; {network_troubles} network troubles, {one_way_cuts} of them one way")
    }
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
        self.counts.lock().power_losses.tried += 1;
        self.cluster.doom(victim, random::rng().random_range(0..40));
        let this = self.clone();
        let pause = Duration::from_millis(random::rng().random_range(1..300));
        task::spawn(async move {
            time::sleep(pause).await;
            let is_cut_short = this.cluster.is_without_power(victim);
            this.counts.lock().power_losses.end(is_cut_short);
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
            if random::rng().random_bool(0.2) {
                this.restart_in_vain(node).await;
            }
            this.restart(node).await;
        });
    }

    /// Starts a node whose power goes again, mostly before it is up: a recovery must survive being cut short.
    async fn restart_in_vain(&self, node: NodeId) {
        if self.is_over.load(Ordering::Relaxed) || !self.cluster.is_down(node) || self.cluster.is_doomed(node) {
            return;
        }
        self.counts.lock().failed_starts.tried += 1;
        self.cluster.doom(node, random::rng().random_range(0..60));
        let failed = self.cluster.start(node).await.is_err();
        self.counts.lock().failed_starts.end(failed);
        time::sleep(Duration::from_millis(random::rng().random_range(0..200))).await;
        self.cluster.lose_power(node);
    }

    /// Starts a node again if it has not been taken away meanwhile.
    pub(crate) async fn restart(&self, node: NodeId) {
        if !self.cluster.ids().contains(&node) {
            return;
        }
        // Whoever takes its power away starts it again.
        if let Err(error) = self.cluster.start(node).await
            && !self.cluster.is_doomed(node)
        {
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
        self.counts.lock().usurpations.tried += 1;
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
            this.counts.lock().usurpations.end(true);
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
        let Some(from) = self.victim() else { return };
        let others: Vec<NodeId> = self.cluster.running().into_iter().filter(|node| *node != from).collect();
        if others.is_empty() {
            return;
        }
        let one = others[random::rng().random_range(0..others.len())];
        let (from, to) = if random::rng().random_bool(0.5) { (from, one) } else { (one, from) };
        self.counts.lock().network_troubles += 1;
        self.counts.lock().one_way_cuts += 1;
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
        self.counts.lock().checkpoints.tried += 1;
        let this = self.clone();
        task::spawn(async move {
            let made = replica.checkpoint().await.is_ok();
            this.counts.lock().checkpoints.end(made);
        });
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
