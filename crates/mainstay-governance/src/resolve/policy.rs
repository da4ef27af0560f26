use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::chart::Chart;
use super::entity::{Entity, spread};

/// What becomes of an entity that nobody knows when it is resolved. What is chosen is stored, and stays until it is moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Policy {
    /// It is an error, `NotFound`: entities are made known by [`Resolver::assign`](super::Resolver::assign).
    #[default]
    Refuse,
    /// It goes to a partition by its hash.
    Hash,
    /// It goes to the resource with the fewest entities, and there to the partition with the fewest.
    ///
    /// Each shard counts its own entities, which are a fair sample of all, so that nobody has to be asked.
    LeastLoaded,
}

/// How many entities of a shard there are on each partition.
pub(super) type Loads = BTreeMap<u32, u64>;

/// The partition for an entity, on whatever resource may get new ones in the region if there is one; `None` if there is no
/// such resource.
pub(super) fn choose(
    policy: Policy,
    entity: &Entity,
    region: Option<&str>,
    chart: &Chart,
    loads: &Loads,
) -> Option<u32> {
    let open: Vec<(u32, &str)> = chart
        .open_partitions()
        .filter(|(_, resource)| region.is_none() || resource.region.as_deref() == region)
        .map(|(partition, resource)| (partition, resource.name.as_str()))
        .collect();
    match policy {
        Policy::Refuse => None,
        Policy::Hash => open.get(spread(entity, "partition", open.len())).map(|(partition, _)| *partition),
        Policy::LeastLoaded => least_loaded(&open, loads),
    }
}

/// The partition with the fewest entities on the resource with the fewest.
pub(super) fn least_loaded(open: &[(u32, &str)], loads: &Loads) -> Option<u32> {
    let load = |partition: &u32| loads.get(partition).copied().unwrap_or(0);
    let mut totals = BTreeMap::<&str, u64>::new();
    for (partition, resource) in open {
        let total = totals.entry(resource).or_default();
        *total = total.saturating_add(load(partition));
    }
    let (resource, _) = totals.into_iter().min_by_key(|(_, total)| *total)?;
    let of_resource = open.iter().filter(|(_, name)| *name == resource).map(|(partition, _)| *partition);
    of_resource.min_by_key(load)
}
