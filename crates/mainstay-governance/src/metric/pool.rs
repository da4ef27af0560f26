use metrics::{Counter, Histogram};

use super::{Share, describe_counters, describe_gauges, describe_seconds};

/// How many members a pool has, by resource and pool.
pub const POOL_SIZE: &str = "mainstay_pool_size";
/// Members that are leased now, by resource and pool.
pub const POOL_LEASED: &str = "mainstay_pool_leased";
/// Callers that wait for a lease now, by resource and pool.
pub const POOL_WAITING: &str = "mainstay_pool_waiting";
/// How long callers waited for a lease that they got, by resource and pool.
pub const POOL_WAIT: &str = "mainstay_pool_wait_seconds";
/// Tries to open the resource of a member, by resource and pool.
pub const POOL_OPENS: &str = "mainstay_pool_opens_total";
/// Openings, jobs and checks that have left a member without an open resource, by resource and pool.
pub const POOL_FAILURES: &str = "mainstay_pool_failures_total";
/// Circuit breakers of members that have opened, by resource and pool.
pub const POOL_BREAKER_TRIPS: &str = "mainstay_pool_breaker_trips_total";

/// What the coordinator of a pool measures.
pub(crate) struct CoordinatorMetrics {
    pub(crate) size: Share,
    pub(crate) leased: Share,
    pub(crate) waiting: Share,
    pub(crate) wait: Histogram,
}

impl CoordinatorMetrics {
    pub(crate) fn of(resource: &'static str, pool: &str) -> Self {
        describe_gauges(&[
            (POOL_SIZE, "Members of a pool"),
            (POOL_LEASED, "Members that are leased"),
            (POOL_WAITING, "Callers that wait for a lease"),
        ]);
        describe_seconds(POOL_WAIT, "How long callers waited for a lease");
        let labels = || [("resource", resource.to_owned()), ("pool", pool.to_owned())];
        Self {
            size: Share::of(metrics::gauge!(POOL_SIZE, &labels())),
            leased: Share::of(metrics::gauge!(POOL_LEASED, &labels())),
            waiting: Share::of(metrics::gauge!(POOL_WAITING, &labels())),
            wait: metrics::histogram!(POOL_WAIT, &labels()),
        }
    }
}

/// What a member of a pool counts.
pub(crate) struct MemberMetrics {
    pub(crate) opens: Counter,
    pub(crate) failures: Counter,
    pub(crate) trips: Counter,
}

impl MemberMetrics {
    pub(crate) fn of(resource: &'static str, pool: &str) -> Self {
        describe_counters(&[
            (POOL_OPENS, "Tries to open the resource of a member"),
            (POOL_FAILURES, "Openings, jobs and checks that have left a member without an open resource"),
            (POOL_BREAKER_TRIPS, "Circuit breakers of members that have opened"),
        ]);
        let labels = || [("resource", resource.to_owned()), ("pool", pool.to_owned())];
        Self {
            opens: metrics::counter!(POOL_OPENS, &labels()),
            failures: metrics::counter!(POOL_FAILURES, &labels()),
            trips: metrics::counter!(POOL_BREAKER_TRIPS, &labels()),
        }
    }
}
