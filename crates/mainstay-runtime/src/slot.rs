use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mainstay_core::task::Scope;
use mainstay_core::time;
use mainstay_core::{ActorId, Error, ErrorKind, NodeId, Result};
use tokio::sync::watch;

use crate::actor::event::audience::Audience;
use crate::actor::hall::Seats;
use crate::actor::seat::Seat;
use crate::call::arrival::Deadline;
use crate::router::Address;

/// How many calls of a service's partition may run at a time, and how many of any partition may wait until it is open; beyond it is
/// `Overloaded`. Each holds its arguments and mostly a task. Calls that have come to an actor are bounded there, by its settings
/// `mailbox` and `calls_max`.
pub const CALLS_PER_PARTITION_MAX: usize = 16_384;

/// The place of a partition's object on this node. It is there whether or not the object is, and is what calls wait at.
pub struct Slot {
    address: Arc<Address>,
    occupant: watch::Sender<Occupant>,
    calls: AtomicUsize,
    /// Who listens to its actors, wherever they are.
    audience: Arc<Audience>,
}

/// What is in a slot.
#[derive(Clone)]
pub(crate) enum Occupant {
    /// Nothing yet: the partition has no primary that is known of.
    Awaited,
    /// Nothing: the primary is on another node.
    Elsewhere(NodeId),
    /// An object that is being opened.
    Opening,
    /// An object that could not be opened; it is tried again.
    Failed { kind: ErrorKind, why: Arc<str> },
    /// An object.
    Open(Arc<Opened>),
    /// Nothing any more: the node has stopped.
    Stopped,
}

/// An object as calls see it.
pub(crate) struct Opened {
    pub(crate) tenant: Tenant,
    /// Where its calls run.
    pub(crate) scope: Scope,
}

/// What is called in a partition.
pub(crate) enum Tenant {
    /// One object, behind each of its interfaces: an `Arc` of the interface's own type.
    Service(Vec<(TypeId, Box<dyn Any + Send + Sync>)>),
    /// Many, by their ids.
    Actors(Arc<dyn Seats>),
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let occupant = match &*self.occupant.borrow() {
            Occupant::Awaited => "awaited",
            Occupant::Elsewhere(_) => "elsewhere",
            Occupant::Opening => "opening",
            Occupant::Failed { .. } => "failed",
            Occupant::Open(_) => "open",
            Occupant::Stopped => "stopped",
        };
        write!(f, "Slot({}, {occupant}, {} calls)", self.address, self.calls.load(Ordering::Relaxed))
    }
}

impl Slot {
    pub(crate) fn new(address: Arc<Address>) -> Self {
        let occupant = watch::Sender::new(Occupant::Awaited);
        Self { address, occupant, calls: AtomicUsize::new(0), audience: Arc::default() }
    }

    /// The partition whose place this is.
    pub fn address(&self) -> &Arc<Address> {
        &self.address
    }

    /// Who listens to its actors.
    pub(crate) fn audience(&self) -> &Arc<Audience> {
        &self.audience
    }

    /// What is in the slot.
    pub(crate) fn occupant(&self) -> Occupant {
        self.occupant.borrow().clone()
    }

    /// How many actors are in memory here.
    pub(crate) fn active_actors(&self) -> u64 {
        match &*self.occupant.borrow() {
            Occupant::Open(opened) => match &opened.tenant {
                Tenant::Actors(actors) => actors.active(),
                Tenant::Service(_) => 0,
            },
            _ => 0,
        }
    }

    /// Changes what is in the slot, for good once it has stopped.
    pub(crate) fn put(&self, occupant: Occupant) {
        let is_stopped = matches!(occupant, Occupant::Stopped);
        self.occupant.send_if_modified(|current| {
            if matches!(current, Occupant::Stopped) {
                return false;
            }
            *current = occupant;
            true
        });
        if is_stopped {
            self.audience.stop();
        }
    }

    /// Admits a call once there is an object.
    pub(crate) async fn enter(self: &Arc<Self>, method: &'static str, deadline: &mut Deadline) -> Result<Ticket> {
        let count = Count::new(self)?;
        let ready = self.settled(&self.occupant.borrow());
        let opened = match ready {
            Some(settled) => settled?,
            None => match deadline.moment() {
                None => self.wait().await?,
                Some(deadline) => match time::timeout_at(deadline, self.wait()).await {
                    Ok(settled) => settled?,
                    Err(time::Elapsed) => return Err(self.late(method)),
                },
            },
        };
        Ok(Ticket { opened, _count: count })
    }

    /// Waits for an object, or for the certainty that there will be none.
    async fn wait(&self) -> Result<Arc<Opened>> {
        let mut occupant = self.occupant.subscribe();
        loop {
            if let Some(settled) = self.settled(&occupant.borrow_and_update()) {
                return settled;
            }
            if occupant.changed().await.is_err() {
                return Err(self.stopped());
            }
        }
    }

    /// What a call gets from this occupant; `None` if it is worth waiting.
    fn settled(&self, occupant: &Occupant) -> Option<Result<Arc<Opened>>> {
        match occupant {
            Occupant::Open(opened) => Some(Ok(opened.clone())),
            Occupant::Awaited | Occupant::Opening => None,
            Occupant::Elsewhere(node) => Some(Err(Error::new(
                ErrorKind::NotPrimary { hint: Some(*node) },
                format!("{} is not on this node: its primary is on node {node}", self.address),
            ))),
            Occupant::Failed { kind, why } => {
                Some(Err(Error::new(*kind, format!("{} cannot be opened: {why}; it is tried again", self.address))))
            }
            Occupant::Stopped => Some(Err(self.stopped())),
        }
    }

    pub(crate) fn stopped(&self) -> Error {
        Error::fatal(format!("{} is gone, because its node has stopped: start it again", self.address))
    }

    fn late(&self, method: &str) -> Error {
        let (kind, why) = match &*self.occupant.borrow() {
            Occupant::Awaited => (ErrorKind::NotPrimary { hint: None }, "no node is known to be its primary"),
            _ => (ErrorKind::Timeout, "it is still being opened"),
        };
        Error::new(kind, format!("`{method}` of {} was not begun within the time limit: {why}; retry", self.address))
    }
}

/// The right to make a call, with what it needs while it runs.
pub(crate) struct Ticket {
    opened: Arc<Opened>,
    _count: Count,
}

impl Ticket {
    /// The object of a service behind an interface.
    pub(crate) fn object<O: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<O>> {
        let Tenant::Service(interfaces) = &self.opened.tenant else { return None };
        let (_, object) = interfaces.iter().find(|(interface, _)| *interface == TypeId::of::<O>())?;
        object.downcast_ref::<Arc<O>>().cloned()
    }

    /// The place of an actor behind an interface.
    pub(crate) fn seat(&self, id: &ActorId, interface: TypeId, method: &'static str) -> Result<Option<Seat>> {
        self.actors()?.seat(id, interface, method)
    }

    /// The actors of the partition.
    pub(crate) fn actors(&self) -> Result<Arc<dyn Seats>> {
        match &self.opened.tenant {
            Tenant::Actors(actors) => Ok(actors.clone()),
            Tenant::Service(_) => Err(Error::invalid("this is a service, and has no actors: call it by `service`")),
        }
    }

    /// Where the call runs.
    pub(crate) fn scope(&self) -> &Scope {
        &self.opened.scope
    }
}

/// One call of a slot, counted.
struct Count {
    slot: Arc<Slot>,
}

impl Count {
    fn new(slot: &Arc<Slot>) -> Result<Self> {
        let before = slot.calls.fetch_add(1, Ordering::Relaxed);
        let count = Self { slot: slot.clone() };
        if before < CALLS_PER_PARTITION_MAX {
            return Ok(count);
        }
        Err(Error::new(
            ErrorKind::Overloaded,
            format!(
                "{} has {CALLS_PER_PARTITION_MAX} calls already (CALLS_PER_PARTITION_MAX): slow down and retry",
                slot.address
            ),
        ))
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.slot.calls.fetch_sub(1, Ordering::Relaxed);
    }
}
