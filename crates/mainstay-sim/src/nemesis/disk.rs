//! Troubles of disks: a loss of power in the midst of something, and operations that fail.

use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{NodeId, random, task};
use mainstay_store::disk::sim::DiskOp;
use rand::RngExt as _;

use super::Nemesis;

/// An operation of a node's disk that is to fail.
#[derive(Debug)]
pub(super) struct InjectedFault {
    node: NodeId,
    op: DiskOp,
    /// How many operations had failed there before.
    before: u64,
}

impl Nemesis {
    pub(super) fn doom_one(self: &Arc<Self>) {
        let Some(victim) = self.victim() else { return };
        self.counts.lock().power_losses.tried += 1;
        self.cluster.doom(victim, random::rng().random_range(0..40));
        let this = self.clone();
        let pause = Duration::from_millis(random::rng().random_range(1..300));
        task::spawn(async move {
            time::sleep(pause).await;
            if this.is_over() {
                return;
            }
            let is_cut_short = this.cluster.is_without_power(victim);
            this.counts.lock().power_losses.end(is_cut_short);
            this.crash(victim, Duration::from_millis(random::rng().random_range(0..500)));
        });
    }

    /// Starts a node whose power goes again, mostly before it is up: a recovery must survive being cut short.
    pub(super) async fn restart_in_vain(&self, node: NodeId) {
        if self.is_over() || !self.cluster.is_down(node) || self.cluster.is_doomed(node) {
            return;
        }
        self.counts.lock().failed_starts.tried += 1;
        self.cluster.doom(node, random::rng().random_range(0..60));
        let failed = self.cluster.start(node).await.is_err();
        self.counts.lock().failed_starts.end(failed);
        time::sleep(Duration::from_millis(random::rng().random_range(0..200))).await;
        if !self.is_over() {
            self.cluster.lose_power(node);
        }
    }

    /// Lets one operation of a node's disk fail, once, and restarts the node's process: some operations come only then. What
    /// was written stays, synced or not.
    pub(super) fn fail_disk_once(self: &Arc<Self>) {
        let Some(victim) = self.victim().filter(|victim| !self.cluster.is_doomed(*victim)) else { return };
        let fault = self.inject(victim);
        let this = self.clone();
        let pause = Duration::from_millis(random::rng().random_range(1..500));
        let is_orderly = random::rng().random_bool(0.5);
        task::spawn(async move {
            time::sleep(pause).await;
            // A crash has taken the fault back, and healing does.
            if this.is_over() || !this.cluster.has_fault(victim) || !this.end_process(victim, is_orderly).await {
                return;
            }
            let is_up = this.cluster.start(victim).await.is_ok();
            this.end_fault(fault, is_up).await;
        });
    }

    /// Lets an operation of a node's disk fail, once.
    pub(super) fn inject(&self, node: NodeId) -> InjectedFault {
        let op = DiskOp::ALL[random::rng().random_range(0..DiskOp::ALL.len())];
        let nth_max = match op {
            DiskOp::Write | DiskOp::Sync | DiskOp::Read => 12,
            DiskOp::Open | DiskOp::Len => 8,
            _ => 2,
        };
        let before = self.cluster.struck(node);
        self.cluster.inject(node, op, random::rng().random_range(1..=nth_max));
        self.counts.lock().disk_faults.note(op, |tally| tally.tried += 1);
        InjectedFault { node, op, before }
    }

    /// Takes a fault back, if it has not struck, and sees to it that its node runs, in a process that has seen none.
    pub(super) async fn end_fault(&self, fault: InjectedFault, is_up: bool) {
        let InjectedFault { node, op, before } = fault;
        let has_struck = self.cluster.struck(node) > before;
        self.counts.lock().disk_faults.note(op, |tally| tally.end(has_struck));
        if self.cluster.has_fault(node) {
            if self.is_over() {
                // Healing takes it back.
                return;
            }
            self.cluster.mend_disk(node);
            // Even if it runs by now it may yet stumble over what has failed.
            if has_struck && is_up {
                self.end_process(node, random::rng().random_bool(0.5)).await;
            }
        }
        self.restart(node).await;
    }

    /// Ends the process of a node and leaves its machine running. False if it did not run.
    async fn end_process(&self, node: NodeId, is_orderly: bool) -> bool {
        if !is_orderly {
            return self.cluster.end_process(node);
        }
        let runs = self.cluster.replica(node).is_some();
        if let Err(locked) = self.cluster.stop(node).await {
            self.stuck.lock().get_or_insert(locked);
        }
        runs
    }
}
