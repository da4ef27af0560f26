use std::fmt;
use std::sync::Arc;

use mainstay_core::partitioning::PartitionKey;
use mainstay_core::{ActorId, Epoch, Level, PartitionId, Result};

use crate::actor::activation_tasks::ActivationTasks;
use crate::actor::actor_shared::ActorShared;
use crate::actor::dynamic::Pages;
use crate::actor::event::Listeners;
use crate::actor::kept::{ActorOpening, Kept, Seal};
use crate::call::proxy::{Proxy, SharedInterface};
use crate::router::Services;

/// What an actor can know of itself, and how it reaches others. A field of this type is all that it takes.
pub struct Context {
    pub(crate) shared: Arc<ActorShared>,
    /// What the actor has started and what ends with its activation.
    pub(super) stay: ActivationTasks,
    /// Its dynamic state, as far as it is in memory.
    pub(crate) pages: Pages,
    /// What this activation has subscribed to.
    pub(crate) listeners: Listeners,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shared)
    }
}

impl Context {
    pub(crate) fn actor_shared(&self) -> &Arc<ActorShared> {
        &self.shared
    }

    /// Who this is.
    pub fn id(&self) -> &ActorId {
        &self.shared.id
    }

    /// The name of the actor's service.
    pub fn service_name(&self) -> &str {
        &self.shared.partition.address.service
    }

    /// The partition.
    pub fn partition_id(&self) -> PartitionId {
        self.shared.partition.address.partition
    }

    /// How the actor's state is kept.
    pub fn level(&self) -> Level {
        self.shared.partition.level
    }

    /// The fencing token of this primary. Hand it to whatever is outside, which can then refuse an older one.
    pub fn epoch(&self) -> Epoch {
        self.shared.partition.epoch
    }

    /// The dependency of a type that the node provides, by `Node::builder().provide(..)`.
    ///
    /// # Errors
    /// `Invalid` if the node does not provide it.
    pub fn provided<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        self.shared.partition.services.provided()
    }

    /// The entry to all services, for code that outlives or does not see this context.
    pub fn services(&self) -> &Services {
        &self.shared.partition.services
    }

    /// A proxy to an actor, of the one type that implements the interface.
    ///
    /// # Errors
    /// As [`Services::actor`](crate::Services::actor).
    pub fn actor<P: Proxy>(&self, id: impl Into<ActorId>) -> Result<P> {
        self.shared.partition.services.actor(id)
    }

    /// A proxy to an actor of a type by its name.
    ///
    /// # Errors
    /// As [`Services::actor_named`](crate::Services::actor_named).
    pub fn actor_named<P: Proxy>(&self, name: &str, id: impl Into<ActorId>) -> Result<P> {
        self.shared.partition.services.actor_named(name, id)
    }

    /// A proxy to the partition of a key, of the one service that implements the interface.
    ///
    /// # Errors
    /// As [`Services::service`](crate::Services::service).
    pub fn service<P: Proxy + SharedInterface>(&self, key: impl Into<PartitionKey>) -> Result<P> {
        self.shared.partition.services.service(key)
    }

    /// A proxy to the partition of a key, of a service by its name.
    ///
    /// # Errors
    /// As [`Services::service_named`](crate::Services::service_named).
    pub fn service_named<P: Proxy + SharedInterface>(&self, name: &str, key: impl Into<PartitionKey>) -> Result<P> {
        self.shared.partition.services.service_named(name, key)
    }

    /// A proxy to the one worker that implements the interface, in this process.
    ///
    /// # Errors
    /// As [`Services::worker`](crate::Services::worker).
    pub fn worker<P: Proxy>(&self) -> Result<P> {
        self.shared.partition.services.worker()
    }

    /// A proxy to a worker by its name.
    ///
    /// # Errors
    /// As [`Services::worker_named`](crate::Services::worker_named).
    pub fn worker_named<P: Proxy>(&self, name: &str) -> Result<P> {
        self.shared.partition.services.worker_named(name)
    }
}

/// So that `CounterRef::of(&ctx, id)` makes a proxy.
impl AsRef<Services> for Context {
    fn as_ref(&self) -> &Services {
        self.services()
    }
}

/// With the object of the actor.
impl Drop for Context {
    fn drop(&mut self) {
        if self.stay.has_timers() || self.listeners.are_there() {
            self.shared.revival.want();
        }
    }
}

impl Kept for Context {
    fn open(opening: &ActorOpening<'_>, _: &'static str) -> Result<Self> {
        Ok(Self {
            shared: opening.shared.clone(),
            stay: ActivationTasks::default(),
            pages: Pages::default(),
            listeners: Listeners::default(),
        })
    }

    fn seal(&mut self, seal: &mut Seal<'_>) -> Result<()> {
        self.pages.seal(seal)
    }

    fn restore(&mut self, _: &ActorOpening<'_>) -> Result<()> {
        self.pages.clear(&self.shared);
        Ok(())
    }
}
