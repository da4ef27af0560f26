//! Troubles of the network.

use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{NodeId, random, task};
use mainstay_replica::Troubles;
use rand::RngExt as _;

use super::Nemesis;
use crate::event;

impl Nemesis {
    /// The most that a lease has to stand: one replica has not heard of the primary for long, and those who have restart at
    /// the very moment at which the primary is cut off.
    pub(super) fn usurp(self: &Arc<Self>) {
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
            if this.is_over() {
                return;
            }
            this.counts.lock().usurpations.end(true);
            this.cut_off(primary);
            for other in others.into_iter().filter(|other| *other != usurper) {
                this.crash(other, Duration::from_millis(random::rng().random_range(0..20)));
            }
        });
    }

    pub(super) fn isolate(&self) {
        if let Some(victim) = self.victim() {
            self.cut_off(victim);
        }
    }

    pub(super) fn cut_off(&self, victim: NodeId) {
        if self.is_over() {
            return;
        }
        self.counts.lock().network_troubles += 1;
        event!(self.cluster.trace, "{victim} is cut off");
        for other in self.cluster.ids().into_iter().filter(|other| *other != victim) {
            self.cluster.network.cut(victim, other);
            self.cluster.network.cut(other, victim);
        }
    }

    pub(super) fn cut_one_way(&self) {
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

    pub(super) fn mend_network(&self) {
        event!(self.cluster.trace, "the network is well");
        self.cluster.network.heal();
        self.cluster.network.set_troubles(self.cluster.scenario.calm);
    }

    pub(super) fn spoil_network(&self) {
        let mut rng = random::rng();
        let mut troubles = Troubles {
            loss: rng.random_range(0.0..0.3),
            duplication: rng.random_range(0.0..0.3),
            delay_min: Duration::from_micros(100),
            delay_max: Duration::from_millis(rng.random_range(1..150)),
            ..Troubles::default()
        };
        if rng.random_bool(0.5) {
            troubles.late = rng.random_range(0.0..0.3);
            troubles.late_max = Duration::from_millis(rng.random_range(500..6_000));
            self.counts.lock().late_spells += 1;
        }
        self.counts.lock().network_troubles += 1;
        event!(self.cluster.trace, "the network is bad: {troubles:?}");
        self.cluster.network.set_troubles(troubles);
    }
}
