use metrics::Counter;

use super::{Share, describe_counters, describe_gauges};

/// Reads that were answered from memory with a value that is good, by cache.
pub const CACHE_HITS: &str = "mainstay_cache_hits_total";
/// Reads that waited for the source, by cache.
pub const CACHE_MISSES: &str = "mainstay_cache_misses_total";
/// Reads that were answered with a value that is stale, by cache.
pub const CACHE_STALE: &str = "mainstay_cache_stale_total";
/// Loads that nobody waited for: ahead of the end of a value, or after it; by cache.
pub const CACHE_REFRESHES: &str = "mainstay_cache_refreshes_total";
/// Loads and stores that the source has failed, by cache and operation (`load` or `store`).
pub const CACHE_FAILURES: &str = "mainstay_cache_failures_total";
/// Writes that are acknowledged and not with the source yet, by cache.
pub const CACHE_BUFFERED: &str = "mainstay_cache_buffered";

/// What the source was asked to do.
#[derive(Clone, Copy)]
pub(crate) enum Operation {
    Load,
    Store,
}

/// What a shard of a cache measures.
pub(crate) struct CacheMetrics {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) stale: Counter,
    pub(crate) refreshes: Counter,
    pub(crate) buffered: Share,
    load_failures: Counter,
    store_failures: Counter,
}

impl CacheMetrics {
    pub(crate) fn of(cache: &'static str) -> Self {
        describe_counters(&[
            (CACHE_HITS, "Reads answered from memory"),
            (CACHE_MISSES, "Reads that waited for the source"),
            (CACHE_STALE, "Reads answered with a stale value"),
            (CACHE_REFRESHES, "Loads without a caller that waited"),
            (CACHE_FAILURES, "Loads and stores that have failed"),
        ]);
        describe_gauges(&[(CACHE_BUFFERED, "Writes that are not with the source yet")]);
        let failures =
            |operation: &'static str| metrics::counter!(CACHE_FAILURES, &[("cache", cache), ("operation", operation)]);
        Self {
            hits: metrics::counter!(CACHE_HITS, "cache" => cache),
            misses: metrics::counter!(CACHE_MISSES, "cache" => cache),
            stale: metrics::counter!(CACHE_STALE, "cache" => cache),
            refreshes: metrics::counter!(CACHE_REFRESHES, "cache" => cache),
            buffered: Share::of(metrics::gauge!(CACHE_BUFFERED, "cache" => cache)),
            load_failures: failures("load"),
            store_failures: failures("store"),
        }
    }

    /// The source has failed.
    pub(crate) fn failed(&self, operation: Operation) {
        match operation {
            Operation::Load => self.load_failures.increment(1),
            Operation::Store => self.store_failures.increment(1),
        }
    }
}
