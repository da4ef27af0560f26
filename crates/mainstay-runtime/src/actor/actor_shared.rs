use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use mainstay_core::{ActorId, Result};
use mainstay_state::EpochLease;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::actor::actor_table::ActorPartition;
use crate::actor::cell::removal::Removable;
use crate::actor::event::departure::Departures;
use crate::actor::gate::Gate;
use crate::actor::revival::Revival;
use crate::call::chain::{HeldResource, Link, TurnIdentity};

/// An actor without its type: who it is, where, and what it has to do with others.
pub(crate) struct ActorShared {
    pub(crate) id: ActorId,
    pub(crate) partition: Arc<ActorPartition>,
    pub(crate) gate: Gate,
    /// The turns of this actor that have called others and have not ended.
    callers: Mutex<Vec<Arc<Link>>>,
    /// Told when nobody has the actor any more, once its place is closed.
    pub(crate) emptied: Notify,
    /// True while a turn has the actor to itself that is being polled right now, and nobody waits: a hint that it will be
    /// over in a moment.
    pub(crate) is_in_passing: AtomicBool,
    /// How many [engagements](crate::actor::keep_alive::KeepAlive) it has.
    keep_alives: AtomicU32,
    /// How many callers wait for an answer that it gives later.
    owed: AtomicU32,
    /// How many bytes of its state are in memory, as they are stored.
    weight: AtomicU64,
    /// Whether it is to come back by itself.
    pub(crate) revival: Revival,
    /// The events that are leaving it.
    pub(crate) departures: Departures,
    /// The cell with the actor.
    cell: Weak<dyn Removable>,
}

impl ActorShared {
    pub(crate) fn new(id: ActorId, partition: Arc<ActorPartition>, cell: Weak<dyn Removable>) -> Self {
        Self {
            id,
            partition,
            gate: Gate::default(),
            callers: Mutex::default(),
            emptied: Notify::new(),
            is_in_passing: AtomicBool::new(false),
            keep_alives: AtomicU32::new(0),
            owed: AtomicU32::new(0),
            weight: AtomicU64::new(0),
            revival: Revival::default(),
            departures: Departures::default(),
            cell,
        }
    }

    /// The cell, if it is one of this type.
    pub(crate) fn cell<C: Send + Sync + 'static>(&self) -> Option<Arc<C>> {
        let cell: Arc<dyn Any + Send + Sync> = self.cell.upgrade()?;
        cell.downcast().ok()
    }

    /// Takes the actor out of memory when the turns under way have ended.
    pub(crate) fn depart(&self) {
        if let Some(cell) = self.cell.upgrade() {
            cell.depart();
        }
    }

    /// Drops the object if it is idle and not what is stored.
    pub(crate) fn shed(&self) {
        if let Some(cell) = self.cell.upgrade() {
            cell.shed();
        }
    }

    /// Notes that a part of its state in memory has grown or shrunk. What is counted is the size as it is stored.
    pub(crate) fn weigh(&self, before: u32, after: u32) {
        let memory_budget = &self.partition.memory_budget;
        match before.cmp(&after) {
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Less => {
                self.weight.fetch_add(u64::from(after - before), Ordering::Relaxed);
                memory_budget.grow(u64::from(after - before));
            }
            std::cmp::Ordering::Greater => {
                self.weight.fetch_sub(u64::from(before - after), Ordering::Relaxed);
                memory_budget.shrink(u64::from(before - after));
            }
        }
    }

    /// How many bytes of its state are in memory, as they are stored.
    pub(crate) fn weight(&self) -> u64 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Notes that nothing of its state is in memory.
    pub(crate) fn unload(&self) {
        self.partition.memory_budget.shrink(self.weight.swap(0, Ordering::Relaxed));
    }

    /// True if the actor owes an answer, or waits for something outside of its turns.
    pub(crate) fn is_engaged(&self) -> bool {
        self.keep_alives.load(Ordering::Relaxed) > 0
    }

    /// How many callers wait for an answer that it gives later.
    pub(crate) fn owed(&self) -> usize {
        self.owed.load(Ordering::Relaxed) as usize
    }

    pub(super) fn owe(&self) {
        self.owed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn settle(&self) {
        self.owed.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn engage(&self) {
        self.keep_alives.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn disengage(&self) {
        self.keep_alives.fetch_sub(1, Ordering::Relaxed);
    }

    /// A value as of the last turn, committed or not.
    pub(crate) fn state(&self, name: &str) -> Result<Option<Bytes>> {
        self.gate.state(self, name)
    }
}

impl HeldResource for ActorShared {
    fn callers(&self) -> Option<&Mutex<Vec<Arc<Link>>>> {
        Some(&self.callers)
    }

    fn remedy(&self) -> String {
        "let one of them answer later (`Deferred`) or make the call after the turn".to_owned()
    }

    fn lease(&self) -> Option<&EpochLease> {
        self.partition.lease.as_ref()
    }

    fn capacity(&self) -> Option<usize> {
        None
    }

    fn identity(&self) -> Option<TurnIdentity> {
        Some(TurnIdentity { service: self.partition.address.service.clone(), actor: Some(self.id.clone()) })
    }
}

/// The type and the id of the actor.
impl fmt::Display for ActorShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.partition.address.service, self.id)
    }
}
