use std::collections::BTreeMap;
use std::sync::Weak;

use mainstay_core::SetId;
use mainstay_core::time::{self, Duration};
use mainstay_core::timings::Timings;
use mainstay_replica::{LogActivity, NodeReplicas, SetActivity};
use mainstay_runtime::metric;
use parking_lot::Mutex;

use super::recorder;
use crate::node::Inner;

/// How often what the log and the replicas have counted is handed to the recorder. Samples of histograms wait in memory for
/// as long.
pub(crate) const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);

/// Hands what the log and the replicas count by themselves to the recorder of the process, whosever it is: as
/// differences, so that the nodes of one process add up.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    sets: BTreeMap<SetId, SetActivity>,
    log: LogActivity,
}

impl Publisher {
    /// Hands over what has come since the last time.
    pub(crate) fn publish(&self, replicas: &NodeReplicas) {
        let mut last = self.last.lock();
        for (set, now) in replicas.activity() {
            // Most sets of an idle node; the first time counts, so that every series is there from the start.
            if last.sets.get(&set) == Some(&now) {
                continue;
            }
            publish_set(set, &now, &last.sets.remove(&set).unwrap_or_default());
            last.sets.insert(set, now);
        }
        let health = replicas.health();
        for replica in replicas.replicas() {
            let set = replica.identity().set;
            let has_stopped = health.stopped.iter().any(|(stopped, _)| *stopped == set);
            metrics::gauge!(metric::REPLICA_STOPPED, "set" => set.to_string()).set(f64::from(u8::from(has_stopped)));
        }
        metrics::gauge!(metric::LOG_STOPPED).set(f64::from(u8::from(health.log_failure.is_some())));
        metrics::gauge!(metric::LOG_LOW_SPACE).set(f64::from(u8::from(health.low_space.is_some())));
        if let Some(free) = health.free_bytes {
            metrics::gauge!(metric::LOG_FREE_BYTES).set(free as f64);
        }
        let log = replicas.log_activity();
        metrics::counter!(metric::LOG_BYTES).increment(log.bytes.saturating_sub(last.log.bytes));
        metrics::counter!(metric::LOG_FLUSHES).increment(log.flushes.saturating_sub(last.log.flushes));
        record(&metrics::histogram!(metric::LOG_FLUSH), &log.timings, &last.log.timings);
        last.log = log;
    }
}

fn publish_set(set: SetId, now: &SetActivity, before: &SetActivity) {
    let name = set.to_string();
    let count = |metric: &'static str, now: u64, before: u64| {
        metrics::counter!(metric, "set" => name.clone()).increment(now.saturating_sub(before));
    };
    count(metric::REPLICA_COMMITS, now.commits, before.commits);
    count(metric::REPLICA_ENTRIES, now.entries, before.entries);
    count(metric::REPLICA_COMMIT_BYTES, now.bytes, before.bytes);
    count(metric::REPLICA_THROTTLED, now.throttled, before.throttled);
    count(metric::REPLICA_CHECKPOINT_BYTES, now.checkpoint_bytes, before.checkpoint_bytes);
    count(metric::REPLICA_COPIED_BYTES, now.copied_bytes, before.copied_bytes);
    let show = |metric: &'static str, now: u64| metrics::gauge!(metric, "set" => name.clone()).set(now as f64);
    show(metric::REPLICA_COMMITS_WAITING, now.waiting);
    show(metric::REPLICA_UNSAVED_BYTES, now.unsaved_bytes);
    show(metric::STORE_ENTRIES, now.held.entries);
    show(metric::STORE_BYTES, now.held.bytes);
    let checkpoints = metrics::histogram!(metric::REPLICA_CHECKPOINT, "set" => name.clone());
    record(&checkpoints, &now.checkpoints, &before.checkpoints);
    record(&metrics::histogram!(metric::REPLICA_COMMIT, "set" => name), &now.timings, &before.timings);
}

fn record(histogram: &metrics::Histogram, now: &Timings, before: &Timings) {
    for (mean, count) in now.since(before).means() {
        histogram.record_many(mean, usize::try_from(count).unwrap_or(usize::MAX));
    }
}

/// Publishes again and again, as long as the node lives.
pub(crate) async fn keep_publishing(node: Weak<Inner>, interval: Duration) {
    loop {
        time::sleep(interval).await;
        let Some(node) = node.upgrade() else { return };
        publish(&node);
    }
}

/// Publishes once.
pub(crate) fn publish(node: &Inner) {
    node.publish_metrics();
    recorder::tidy();
}
