use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use super::{Share, describe_counters, describe_gauges, describe_seconds};

/// Items that wait for their batch to begin, by the name of the executor.
pub const BATCH_WAITING: &str = "mainstay_batch_waiting";
/// Batches that have ended, in whatever way, by the name of the executor.
pub const BATCH_BATCHES: &str = "mainstay_batch_batches_total";
/// Items of batches that have ended; by batches, that is how large they are.
pub const BATCH_ITEMS: &str = "mainstay_batch_items_total";
/// Items whose callers were told that they are not written, or may not be.
pub const BATCH_FAILURES: &str = "mainstay_batch_failures_total";
/// How long writers took for one try.
pub const BATCH_WRITE: &str = "mainstay_batch_write_seconds";

/// Items that wait in durable queues, by the name of their writer.
pub const QUEUE_WAITING: &str = "mainstay_queue_waiting";
/// Batches that durable queues have written, by the name of their writer.
pub const QUEUE_BATCHES: &str = "mainstay_queue_batches_total";
/// Items that durable queues have written, by the name of their writer.
pub const QUEUE_ITEMS: &str = "mainstay_queue_items_total";
/// Writes of durable queues that have failed, by the name of their writer.
pub const QUEUE_FAILURES: &str = "mainstay_queue_failures_total";
/// How long writes of durable queues took, by the name of their writer.
pub const QUEUE_WRITE: &str = "mainstay_queue_write_seconds";

/// What a batch executor measures.
pub(crate) struct BatchMetrics {
    pub(crate) waiting: Gauge,
    batches: Counter,
    items: Counter,
    pub(crate) failures: Counter,
    pub(crate) write: Histogram,
}

impl std::fmt::Debug for BatchMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BatchMetrics")
    }
}

impl BatchMetrics {
    pub(crate) fn of(executor: &str) -> Self {
        describe_gauges(&[(BATCH_WAITING, "Items that wait for their batch to begin")]);
        describe_counters(&[
            (BATCH_BATCHES, "Batches that have ended"),
            (BATCH_ITEMS, "Items of batches that have ended"),
            (BATCH_FAILURES, "Items that are not written, or may not be"),
        ]);
        describe_seconds(BATCH_WRITE, "How long writers took for one try");
        let batch = || executor.to_owned();
        Self {
            waiting: metrics::gauge!(BATCH_WAITING, "batch" => batch()),
            batches: metrics::counter!(BATCH_BATCHES, "batch" => batch()),
            items: metrics::counter!(BATCH_ITEMS, "batch" => batch()),
            failures: metrics::counter!(BATCH_FAILURES, "batch" => batch()),
            write: metrics::histogram!(BATCH_WRITE, "batch" => batch()),
        }
    }

    /// A batch has ended.
    pub(crate) fn batch(&self, items: usize, failed: usize) {
        self.batches.increment(1);
        self.items.increment(items as u64);
        self.failures.increment(failed as u64);
    }
}

/// What a durable queue measures.
pub(crate) struct QueueMetrics {
    pub(crate) waiting: Share,
    batches: Counter,
    items: Counter,
    failures: Counter,
    write: Histogram,
}

impl QueueMetrics {
    pub(crate) fn of(writer: &'static str) -> Self {
        describe_gauges(&[(QUEUE_WAITING, "Items that wait in durable queues")]);
        describe_counters(&[
            (QUEUE_BATCHES, "Batches that durable queues have written"),
            (QUEUE_ITEMS, "Items that durable queues have written"),
            (QUEUE_FAILURES, "Writes of durable queues that have failed"),
        ]);
        describe_seconds(QUEUE_WRITE, "How long writes of durable queues took");
        Self {
            waiting: Share::of(metrics::gauge!(QUEUE_WAITING, "queue" => writer)),
            batches: metrics::counter!(QUEUE_BATCHES, "queue" => writer),
            items: metrics::counter!(QUEUE_ITEMS, "queue" => writer),
            failures: metrics::counter!(QUEUE_FAILURES, "queue" => writer),
            write: metrics::histogram!(QUEUE_WRITE, "queue" => writer),
        }
    }

    /// A write has ended.
    pub(crate) fn written(&self, items: usize, is_written: bool, took: Duration) {
        self.write.record(took.as_secs_f64());
        match is_written {
            true => {
                self.batches.increment(1);
                self.items.increment(items as u64);
            }
            false => self.failures.increment(1),
        }
    }
}
