//! Troubles of disks: a loss of power in the midst of something, and operations that fail.

use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{NodeId, random, task};
use mainstay_store::disk::sim::DiskOp;
use rand::RngExt as _;

use super::Nemesis;

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
        let op = DiskOp::ALL[random::rng().random_range(0..DiskOp::ALL.len())];
        let nth_max = match op {
            DiskOp::Write | DiskOp::Sync | DiskOp::Read => 30,
            DiskOp::Open | DiskOp::Len => 8,
            _ => 2,
        };
        let before = self.cluster.struck(victim);
        if !self.cluster.inject(victim, op, random::rng().random_range(1..=nth_max)) {
            return;
        }
        self.counts.lock().disk_faults.note(op, |tally| tally.tried += 1);
        let this = self.clone();
        let pause = Duration::from_millis(random::rng().random_range(1..500));
        let is_orderly = random::rng().random_bool(0.5);
        task::spawn(async move {
            time::sleep(pause).await;
            // A crash has taken the fault back, and healing does.
            if this.is_over() || !this.cluster.has_fault(victim) || !this.end_process(victim, is_orderly).await {
                return;
            }
            let failed = this.cluster.start(victim).await.is_err();
            let has_struck = this.cluster.struck(victim) > before;
            this.counts.lock().disk_faults.note(op, |tally| tally.end(has_struck));
            if this.cluster.has_fault(victim) {
                if this.is_over() {
                    return;
                }
                this.cluster.mend_disk(victim);
                // Even if it runs by now it may yet stumble over what has failed.
                if has_struck && !failed {
                    this.end_process(victim, is_orderly).await;
                }
            }
            this.restart(victim).await;
        });
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
