mod counts;
mod disk;
mod members;
mod network;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstay_core::time::{self, Duration, Instant};
use mainstay_core::{NodeId, random, task};
use parking_lot::Mutex;
use rand::RngExt as _;

pub use self::counts::{Counts, DiskFaults, Tally};
use crate::cluster::Cluster;
use crate::event;

/// Makes things go wrong, one after the other, by the seed.
#[derive(Debug)]
pub(crate) struct Nemesis {
    cluster: Arc<Cluster>,
    changing_members: AtomicBool,
    /// The time of trouble has ended: what was still to come does not come any more.
    is_over: AtomicBool,
    next_node: Mutex<u64>,
    pub counts: Mutex<Counts>,
    /// A node that could not be started again.
    pub stuck: Mutex<Option<String>>,
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
                0..16 => self.crash_one(),
                16..22 => self.crash_all(),
                22..28 => self.doom_one(),
                28..38 => self.fail_disk_once(),
                38..50 => self.isolate(),
                50..54 => self.usurp(),
                54..58 => self.cut_one_way(),
                58..66 => self.mend_network(),
                66..75 => self.spoil_network(),
                75..80 => self.hand_over(),
                80..85 => self.hand_over_to_leaver(),
                85..88 => self.checkpoint(),
                _ => self.change_members(),
            }
        }
    }

    /// Ends all trouble, that which was announced and has not come yet with it: the network is well, no disk fails any more,
    /// and every node runs.
    pub(crate) async fn heal_everything(&self) {
        event!(self.cluster.trace, "everything heals");
        self.is_over.store(true, Ordering::Relaxed);
        self.cluster.network.heal();
        self.cluster.network.set_troubles(self.cluster.scenario.calm);
        for node in self.cluster.ids() {
            self.cluster.disarm(node);
            self.restart(node).await;
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
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

    fn crash(self: &Arc<Self>, node: NodeId, down: Duration) {
        self.counts.lock().crashes.tried += 1;
        let crashed = self.cluster.crash(node);
        self.counts.lock().crashes.end(crashed);
        if !crashed && self.cluster.is_down(node) {
            // Its process does not run, perhaps for want of power; its machine crashes all the same.
            self.cluster.lose_power(node);
        }
        let this = self.clone();
        task::spawn(async move {
            time::sleep(down).await;
            if random::rng().random_bool(0.2) {
                this.restart_in_vain(node).await;
            }
            this.restart(node).await;
        });
    }

    /// Starts a node again if it has not been taken away meanwhile.
    pub(crate) async fn restart(&self, node: NodeId) {
        if !self.cluster.ids().contains(&node) {
            return;
        }
        // Whoever lets its disk fail starts it again.
        if let Err(error) = self.cluster.start(node).await
            && !self.cluster.is_doomed(node)
        {
            self.stuck.lock().get_or_insert(format!("{node} could not be started again: {error:?}"));
        }
    }
}

#[cfg(test)]
mod tests;
