use metrics::Counter;

use super::describe_counters;

/// Entities that were resolved from memory, by resolver.
pub const RESOLVER_HITS: &str = "mainstay_resolver_hits_total";
/// Entities for which an actor was asked, by resolver.
pub const RESOLVER_LOOKUPS: &str = "mainstay_resolver_lookups_total";
/// Calls that did not begin because the entity had moved, by resolver.
pub const RESOLVER_MOVED: &str = "mainstay_resolver_moved_total";

/// What a resolver counts.
#[derive(Clone)]
pub(crate) struct ResolverMetrics {
    pub(crate) hits: Counter,
    pub(crate) lookups: Counter,
    pub(crate) moved: Counter,
}

impl ResolverMetrics {
    pub(crate) fn of(resolver: &str) -> Self {
        describe_counters(&[
            (RESOLVER_HITS, "Entities that were resolved from memory"),
            (RESOLVER_LOOKUPS, "Entities for which an actor was asked"),
            (RESOLVER_MOVED, "Calls that did not begin because the entity had moved"),
        ]);
        let resolver = || resolver.to_owned();
        Self {
            hits: metrics::counter!(RESOLVER_HITS, "resolver" => resolver()),
            lookups: metrics::counter!(RESOLVER_LOOKUPS, "resolver" => resolver()),
            moved: metrics::counter!(RESOLVER_MOVED, "resolver" => resolver()),
        }
    }
}
