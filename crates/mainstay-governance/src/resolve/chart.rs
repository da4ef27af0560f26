use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mainstay::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::entity::Entity;
use super::physical_resource::PhysicalResource;

/// How many resources a resolver can have.
pub const RESOURCES_MAX: usize = 256;

/// How many logical partitions a resolver can have. All of them are in the memory of every holder. None ever goes away: once
/// there are so many, a resource that is added takes over those that drained ones have left behind with others.
pub const PARTITIONS_MAX: usize = 8192;

/// How many moves of single entities are remembered. What was resolved before the oldest of them is resolved again.
pub const ENTITY_MOVES_KEPT: usize = 1024;

/// Which partition is on which resource, as of a version, and what has moved lately. It decides; it does nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Chart {
    /// Grows with every change.
    pub(super) version: u64,
    /// The number of shards, decided by who came first; zero before that.
    pub(super) shards: u32,
    pub(super) resources: BTreeMap<String, ResourceEntry>,
    /// By number. None ever goes away, because entities are on it.
    pub(super) partitions: Vec<PartitionPlacement>,
    /// The entities that were moved, and the version from which on, oldest first.
    pub(super) moved: VecDeque<(Entity, u64)>,
    /// Moves up to this version may be forgotten.
    pub(super) floor: u64,
}

/// A resource, and whether it gets anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ResourceEntry {
    pub(super) resource: PhysicalResource,
    pub(super) is_draining: bool,
}

/// Where a partition is, and from which version on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PartitionPlacement {
    pub(super) resource: String,
    pub(super) since: u64,
}

impl Chart {
    /// The partitions that may get new entities.
    pub(super) fn open_partitions(&self) -> impl Iterator<Item = (u32, &PhysicalResource)> {
        (0..).zip(&self.partitions).filter_map(|(number, placement)| {
            let entry = self.resources.get(&placement.resource)?;
            (!entry.is_draining).then_some((number, &entry.resource))
        })
    }

    /// The resource that a partition is on.
    pub(super) fn resource_of(&self, partition: u32) -> Option<&PhysicalResource> {
        let placement = self.partitions.get(usize::try_from(partition).ok()?)?;
        self.resources.get(&placement.resource).map(|entry| &entry.resource)
    }

    /// Adds a resource with its partitions; one that is there gets what is new. One that was drained may get entities again,
    /// and takes partitions back from the others. True if anything has changed.
    pub(super) fn add_resource(&mut self, resource: PhysicalResource) -> Result<bool> {
        self.put_resource(ResourceEntry { resource, is_draining: false })
    }

    /// As [`add_resource`](Chart::add_resource), except that one that was drained stays so: who says this repeats what was
    /// true before.
    pub(super) fn adopt_resource(&mut self, resource: PhysicalResource) -> Result<bool> {
        let is_draining = self.is_draining(&resource.name);
        self.put_resource(ResourceEntry { resource, is_draining })
    }

    fn put_resource(&mut self, mut entry: ResourceEntry) -> Result<bool> {
        entry.resource.check()?;
        let name = entry.resource.name.clone();
        let wanted = entry.resource.partitions;
        let missing = match self.resources.get(&name) {
            None if self.resources.len() >= RESOURCES_MAX => {
                return Err(overloaded(format!("there are {RESOURCES_MAX} resources already (RESOURCES_MAX)")));
            }
            None => wanted,
            Some(_) if entry.is_draining => 0,
            Some(known) if known.is_draining => wanted,
            // Some may have been moved away, and are not made up for.
            Some(known) => {
                entry.resource.partitions = wanted.max(known.resource.partitions);
                wanted.saturating_sub(known.resource.partitions)
            }
        };
        if self.resources.get(&name) == Some(&entry) {
            return Ok(false);
        }
        let missing = missing as usize;
        let room = PARTITIONS_MAX.saturating_sub(self.partitions.len());
        let mut spare = self.spare(&name, entry.resource.region.as_deref());
        // None ever goes away. If whoever comes back brought new ones each time, there would soon be no room for any.
        let taken = if self.is_draining(&name) { missing.min(spare.len()) } else { missing.saturating_sub(room) };
        if taken > spare.len() || missing - taken > room {
            return Err(overloaded(format!(
                "{missing} partitions for {name:?} would be more than {PARTITIONS_MAX} in all (PARTITIONS_MAX)"
            )));
        }
        self.version += 1;
        let placement = PartitionPlacement { resource: name.clone(), since: self.version };
        spare.truncate(taken);
        for index in spare {
            self.partitions[index] = placement.clone();
        }
        self.partitions.extend(std::iter::repeat_n(placement, missing - taken));
        self.resources.insert(name, entry);
        Ok(true)
    }

    /// The partitions that other resources have above what they came with, by their places: those that were left behind by
    /// what was drained. What is in the region comes first, and then what came last: so that a resource which comes back gets
    /// its own, if nothing has happened in between.
    fn spare(&self, name: &str, region: Option<&str>) -> Vec<usize> {
        let mut spare = Vec::new();
        for (other, entry) in self.resources.iter().filter(|(other, _)| *other != name) {
            let is_far = entry.resource.region.as_deref() != region;
            let placements = self.partitions.iter().enumerate().filter(|(_, placement)| placement.resource == *other);
            let mut placements: Vec<_> =
                placements.map(|(index, placement)| (is_far, Reverse((placement.since, index)), index)).collect();
            placements.sort_unstable();
            let excess = placements.len().saturating_sub(entry.resource.partitions as usize);
            spare.extend(placements.into_iter().take(excess));
        }
        spare.sort_unstable();
        spare.into_iter().map(|(.., index)| index).collect()
    }

    /// True if a resource was drained, and not added again since.
    pub(super) fn is_draining(&self, name: &str) -> bool {
        self.resources.get(name).is_some_and(|entry| entry.is_draining)
    }

    /// Moves a partition. True if it was elsewhere.
    pub(super) fn move_partition(&mut self, partition: u32, resource: &str) -> Result<bool> {
        self.target(resource)?;
        let count = self.partitions.len();
        let placement = usize::try_from(partition).ok().and_then(|index| self.partitions.get_mut(index));
        let Some(placement) = placement else {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("there is no partition {partition}: there are {count}"),
            ));
        };
        if placement.resource == resource {
            return Ok(false);
        }
        self.version += 1;
        *placement = PartitionPlacement { resource: resource.to_owned(), since: self.version };
        Ok(true)
    }

    /// Notes that entities have moved to other partitions.
    pub(super) fn announce(&mut self, entities: Vec<Entity>) {
        if entities.is_empty() {
            return;
        }
        self.version += 1;
        let entities: BTreeSet<Entity> = entities.into_iter().collect();
        self.moved.retain(|(known, _)| !entities.contains(known));
        self.moved.extend(entities.into_iter().map(|entity| (entity, self.version)));
        while self.moved.len() > ENTITY_MOVES_KEPT {
            if let Some((_, version)) = self.moved.pop_front() {
                self.floor = self.floor.max(version);
            }
        }
    }

    /// Moves everything away from a resource: to those of its region if there are any, and among them to those with the
    /// fewest partitions. True if anything has changed.
    pub(super) fn drain(&mut self, name: &str) -> Result<bool> {
        let Some(entry) = self.resources.get(name) else { return Err(self.unknown(name)) };
        let (region, was_draining) = (entry.resource.region.clone(), entry.is_draining);
        let mut loads: BTreeMap<String, usize> = BTreeMap::new();
        let others = || self.resources.values().filter(|other| !other.is_draining && other.resource.name != name);
        let is_near = |other: &&ResourceEntry| other.resource.region == region;
        let has_near = others().any(|other| is_near(&other));
        for other in others().filter(|other| !has_near || is_near(other)) {
            let count = self.partitions.iter().filter(|placement| placement.resource == other.resource.name).count();
            loads.insert(other.resource.name.clone(), count);
        }
        let is_used = self.partitions.iter().any(|placement| placement.resource == name);
        if was_draining && !is_used {
            return Ok(false);
        }
        if loads.is_empty() && is_used {
            return Err(Error::invalid(format!(
                "{name:?} cannot be drained, because there is no other resource to take its partitions: add one first"
            )));
        }
        self.version += 1;
        for placement in self.partitions.iter_mut().filter(|placement| placement.resource == name) {
            let Some((target, count)) = loads.iter_mut().min_by_key(|(_, count)| **count) else { break };
            *count += 1;
            *placement = PartitionPlacement { resource: target.clone(), since: self.version };
        }
        if let Some(entry) = self.resources.get_mut(name) {
            entry.is_draining = true;
        }
        Ok(true)
    }

    /// Forgets a resource that nothing lives on.
    pub(super) fn remove_resource(&mut self, name: &str) -> Result<()> {
        if !self.resources.contains_key(name) {
            return Err(self.unknown(name));
        }
        let left = self.partitions.iter().filter(|placement| placement.resource == name).count();
        if left > 0 {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("{name:?} still has {left} partitions: drain it before it is removed"),
            ));
        }
        self.version += 1;
        self.resources.remove(name);
        Ok(())
    }

    /// Refuses a resource that cannot get anything.
    pub(super) fn target(&self, name: &str) -> Result<&PhysicalResource> {
        match self.resources.get(name) {
            None => Err(self.unknown(name)),
            Some(entry) if entry.is_draining => Err(Error::invalid(format!(
                "{name:?} is being drained: choose another resource, or add this one again"
            ))),
            Some(entry) => Ok(&entry.resource),
        }
    }

    /// The same without the moves that somebody knows who has seen a version.
    pub(super) fn since(&self, seen: u64) -> Self {
        let moved = self.moved.iter().filter(|(_, version)| *version > seen).cloned().collect();
        Self { moved, ..self.clone() }
    }

    fn unknown(&self, name: &str) -> Error {
        let known: Vec<String> = self.resources.keys().map(|name| format!("{name:?}")).collect();
        Error::new(ErrorKind::NotFound, format!("there is no resource {name:?}: there are {}", known.join(", ")))
    }
}

fn overloaded(text: String) -> Error {
    Error::new(ErrorKind::Overloaded, format!("{text}: open a second resolver for more"))
}

#[cfg(test)]
mod tests;
