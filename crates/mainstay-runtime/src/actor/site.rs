use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use mainstay_core::{ActorId, Result};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::actor::event::departure::Departures;
use crate::actor::gate::Gate;
use crate::actor::hall::HallCore;
use crate::call::chain::Link;

/// An actor without its type: who it is, where, and what it has to do with others.
pub(crate) struct Site {
    pub(crate) id: ActorId,
    pub(crate) hall: Arc<HallCore>,
    pub(crate) gate: Gate,
    /// The turns of this actor that have called others and have not ended.
    callers: Mutex<Vec<Arc<Link>>>,
    /// Told when nobody has the actor any more, once its place is closed.
    pub(crate) emptied: Notify,
    /// The events that are leaving it.
    pub(crate) departures: Departures,
    /// The cell with the actor.
    cell: Weak<dyn Any + Send + Sync>,
}

impl Site {
    pub(crate) fn new(id: ActorId, hall: Arc<HallCore>, cell: Weak<dyn Any + Send + Sync>) -> Self {
        Self {
            id,
            hall,
            gate: Gate::default(),
            callers: Mutex::default(),
            emptied: Notify::new(),
            departures: Departures::default(),
            cell,
        }
    }

    pub(crate) fn callers(&self) -> MutexGuard<'_, Vec<Arc<Link>>> {
        self.callers.lock()
    }

    /// The cell, if it is one of this type.
    pub(crate) fn cell<C: Send + Sync + 'static>(&self) -> Option<Arc<C>> {
        self.cell.upgrade()?.downcast().ok()
    }

    /// A value as of the last turn, committed or not.
    pub(crate) fn state(&self, name: &str) -> Result<Option<Bytes>> {
        self.gate.state(self, name)
    }
}

/// The type and the id of the actor.
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.hall.address.service, self.id)
    }
}
