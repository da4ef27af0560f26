//! What is measured: the names of all metrics, what they mean, and the handles through which they are counted.
//!
//! Everything is recorded through the `metrics` facade, for whichever recorder the process has; without one it costs next
//! to nothing. Handles are bound to the recorder that is there when they are made: when something is opened or an actor is
//! activated, and kept from then on.
//!
//! Labels are names that a program gives to a few things: `resource` and `pool`, `batch`, `queue`, `limit`, `resolver`, `cache`.
//! Nothing is labelled by an entity, by the key of a value or by the id of an actor. Of limits, whose names may well be those of
//! customers, [`LIMITS_LABELLED_MAX`] have a label of their own.

mod share;

mod batch;
mod cache;
mod limit;
mod pool;
mod resolver;

pub use batch::{
    BATCH_BATCHES, BATCH_FAILURES, BATCH_ITEMS, BATCH_WAITING, BATCH_WRITE, QUEUE_BATCHES, QUEUE_FAILURES, QUEUE_ITEMS,
    QUEUE_WAITING, QUEUE_WRITE,
};
pub use cache::{CACHE_BUFFERED, CACHE_FAILURES, CACHE_HITS, CACHE_MISSES, CACHE_REFRESHES, CACHE_STALE};
pub use limit::{LIMIT_GRANTED, LIMIT_REFUSED, LIMIT_WAITING, LIMITS_LABELLED_MAX};
pub use pool::{POOL_BREAKER_TRIPS, POOL_FAILURES, POOL_LEASED, POOL_OPENS, POOL_SIZE, POOL_WAIT, POOL_WAITING};
pub use resolver::{RESOLVER_HITS, RESOLVER_LOOKUPS, RESOLVER_MOVED};

pub(crate) use batch::{BatchMetrics, QueueMetrics};
pub(crate) use cache::{CacheMetrics, Operation};
pub(crate) use limit::{LimitLabels, LimitMetrics};
pub(crate) use pool::{CoordinatorMetrics, MemberMetrics};
pub(crate) use resolver::ResolverMetrics;
pub(crate) use share::Share;

use metrics::Unit;

/// Tells the recorder of the process what counters mean.
fn describe_counters(counters: &[(&'static str, &'static str)]) {
    for (name, about) in counters {
        metrics::describe_counter!(*name, *about);
    }
}

/// Tells the recorder of the process what gauges mean.
fn describe_gauges(gauges: &[(&'static str, &'static str)]) {
    for (name, about) in gauges {
        metrics::describe_gauge!(*name, *about);
    }
}

/// Tells the recorder of the process what a histogram means.
fn describe_seconds(name: &'static str, about: &'static str) {
    metrics::describe_histogram!(name, Unit::Seconds, about);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    const SOURCES: [&str; 5] = [
        include_str!("metric/batch.rs"),
        include_str!("metric/cache.rs"),
        include_str!("metric/limit.rs"),
        include_str!("metric/pool.rs"),
        include_str!("metric/resolver.rs"),
    ];

    #[test]
    fn the_guide_lists_every_metric_and_no_other() {
        let guide = include_str!("../../../docs/guide/observability.md");
        let (_, guide) = guide.split_once("`mainstay::governance` adds these.").unwrap();
        let listed = guide.lines().filter_map(|line| line.strip_prefix("| `mainstay_")?.split('`').next());
        let written = SOURCES.iter().flat_map(|source| source.split("\"mainstay_").skip(1));
        let known: BTreeSet<_> = written.filter_map(|rest| rest.split('"').next()).collect();
        assert!(!known.is_empty());
        assert_eq!(listed.collect::<BTreeSet<_>>(), known);
    }
}
