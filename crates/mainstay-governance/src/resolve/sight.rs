use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::chart::Chart;
use super::entity::Entity;
use super::resolution::{Resolution, Ticket};
use crate::lease::HeldLease;

/// What a process sees of a resolver's map, and up to when it may rely on it.
pub(super) struct Sight {
    chart: Chart,
    moved: HashMap<Entity, u64>,
    pub(super) lease: HeldLease,
    calls: HashMap<String, Arc<Calls>>,
    /// Rung when the last call on a resource that is being drained has ended.
    bell: Arc<Notify>,
}

/// The calls under way on one resource.
struct Calls {
    count: AtomicU64,
    is_draining: AtomicBool,
    bell: Arc<Notify>,
}

/// A call that is under way under a resolution. What is being drained waits for it; drop it when the call has ended.
#[must_use = "the call counts as under way until this is dropped"]
pub struct Pass(Arc<Calls>);

/// What becomes of a call that is about to begin.
pub(super) enum Verdict {
    /// It may begin, and counts as under way.
    Begun(Pass),
    /// What it stands on does not hold any more.
    Moved,
    /// It stands on a later version than is known here, or what is known here may be old: renew first.
    Unknown,
}

impl Sight {
    pub(super) fn new(chart: Chart, lease: HeldLease, bell: Arc<Notify>) -> Self {
        let mut sight = Self { chart: Chart::default(), moved: HashMap::new(), lease, calls: HashMap::new(), bell };
        sight.apply(chart);
        sight
    }

    pub(super) fn version(&self) -> u64 {
        self.chart.version
    }

    /// Takes over a later map. Returns the entities that have moved since the last one; `None` if it is not known which.
    pub(super) fn apply(&mut self, mut chart: Chart) -> Option<Vec<Entity>> {
        let seen = self.chart.version;
        let moved: Vec<Entity> = chart.moved.iter().filter(|(_, at)| *at > seen).map(|(it, _)| it.clone()).collect();
        self.moved.extend(std::mem::take(&mut chart.moved));
        self.moved.retain(|_, at| *at > chart.floor);
        let is_complete = chart.floor <= seen;
        self.chart = chart;
        let calls = &mut self.calls;
        calls.retain(|_, calls| calls.count.load(Ordering::SeqCst) > 0);
        for (name, entry) in &self.chart.resources {
            let calls = calls.entry(name.clone()).or_insert_with(|| Arc::new(Calls::new(self.bell.clone())));
            calls.is_draining.store(entry.is_draining, Ordering::SeqCst);
        }
        is_complete.then_some(moved)
    }

    /// What is known of an entity on a partition; `None` if the partition is not known.
    pub(super) fn resolution(&self, entity: &Entity, partition: u32) -> Option<Resolution> {
        let resource = self.chart.resource_of(partition)?.clone();
        Some(Resolution { entity: entity.clone(), partition, resource, version: self.chart.version })
    }

    /// True if an entity has moved, or may have, since a version.
    pub(super) fn has_moved_since(&self, entity: &Entity, version: u64) -> bool {
        version < self.chart.floor || self.moved.get(entity).is_some_and(|at| *at > version)
    }

    /// Begins a call on a resource, if what it stands on holds.
    pub(super) fn begin(&self, ticket: &Ticket, resource: &str, now: Instant) -> Verdict {
        if !self.lease.is_held(now) || ticket.version > self.chart.version {
            return Verdict::Unknown;
        }
        let placement = usize::try_from(ticket.partition).ok().and_then(|index| self.chart.partitions.get(index));
        let holds = placement
            .is_some_and(|placement| placement.resource == resource && placement.since <= ticket.version)
            && !self.has_moved_since(&ticket.entity, ticket.version);
        match self.calls.get(resource) {
            Some(calls) if holds => {
                calls.count.fetch_add(1, Ordering::SeqCst);
                Verdict::Begun(Pass(calls.clone()))
            }
            _ => Verdict::Moved,
        }
    }

    /// The resources on which calls are under way.
    pub(super) fn busy(&self) -> BTreeSet<String> {
        let busy = self.calls.iter().filter(|(_, calls)| calls.count.load(Ordering::SeqCst) > 0);
        busy.map(|(name, _)| name.clone()).collect()
    }
}

impl Calls {
    fn new(bell: Arc<Notify>) -> Self {
        Self { count: AtomicU64::new(0), is_draining: AtomicBool::new(false), bell }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let was_last = self.0.count.fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last && self.0.is_draining.load(Ordering::SeqCst) {
            self.0.bell.notify_one();
        }
    }
}

impl std::fmt::Debug for Pass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pass({} under way)", self.0.count.load(Ordering::SeqCst))
    }
}
