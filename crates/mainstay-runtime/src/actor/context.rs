use std::fmt;
use std::sync::Arc;

use mainstay_core::partitioning::PartitionKey;
use mainstay_core::{ActorId, Epoch, Level, PartitionId, Result};

use crate::actor::dynamic::Pages;
use crate::actor::event::Listeners;
use crate::actor::kept::{ActorOpening, Kept, Seal};
use crate::actor::site::Site;
use crate::actor::stay::Stay;
use crate::call::proxy::{Proxy, SharedInterface};
use crate::router::Services;

/// What an actor can know of itself, and how it reaches others. A field of this type is all that it takes.
pub struct Context {
    pub(crate) site: Arc<Site>,
    /// What the actor has started and what ends with its activation.
    pub(super) stay: Stay,
    /// Its dynamic state, as far as it is in memory.
    pub(crate) pages: Pages,
    /// What this activation has subscribed to.
    pub(crate) listeners: Listeners,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.site)
    }
}

impl Context {
    pub(crate) fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// Who this is.
    pub fn id(&self) -> &ActorId {
        &self.site.id
    }

    /// The name of the actor's service.
    pub fn service_name(&self) -> &str {
        &self.site.hall.address.service
    }

    /// The partition.
    pub fn partition_id(&self) -> PartitionId {
        self.site.hall.address.partition
    }

    /// How the actor's state is kept.
    pub fn level(&self) -> Level {
        self.site.hall.level
    }

    /// The fencing token of this primary. Hand it to whatever is outside, which can then refuse an older one.
    pub fn epoch(&self) -> Epoch {
        self.site.hall.epoch
    }

    /// What the node was given of a type, by `Node::builder().provide(..)`.
    ///
    /// # Errors
    /// `Invalid` if nobody provided it.
    pub fn provided<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        self.site.hall.services.provided()
    }

    /// The way to all services, to be kept where this is not at hand.
    pub fn services(&self) -> &Services {
        &self.site.hall.services
    }

    /// A proxy to an actor, of the one type that implements the interface.
    ///
    /// # Errors
    /// As [`Services::actor`](crate::Services::actor).
    pub fn actor<P: Proxy>(&self, id: impl Into<ActorId>) -> Result<P> {
        self.site.hall.services.actor(id)
    }

    /// A proxy to an actor of a type by its name.
    ///
    /// # Errors
    /// As [`Services::actor_named`](crate::Services::actor_named).
    pub fn actor_named<P: Proxy>(&self, name: &str, id: impl Into<ActorId>) -> Result<P> {
        self.site.hall.services.actor_named(name, id)
    }

    /// A proxy to the partition of a key, of the one service that implements the interface.
    ///
    /// # Errors
    /// As [`Services::service`](crate::Services::service).
    pub fn service<P: Proxy + SharedInterface>(&self, key: impl Into<PartitionKey>) -> Result<P> {
        self.site.hall.services.service(key)
    }

    /// A proxy to the partition of a key, of a service by its name.
    ///
    /// # Errors
    /// As [`Services::service_named`](crate::Services::service_named).
    pub fn service_named<P: Proxy + SharedInterface>(&self, name: &str, key: impl Into<PartitionKey>) -> Result<P> {
        self.site.hall.services.service_named(name, key)
    }

    /// A proxy to the one worker that implements the interface, in this process.
    ///
    /// # Errors
    /// As [`Services::worker`](crate::Services::worker).
    pub fn worker<P: Proxy>(&self) -> Result<P> {
        self.site.hall.services.worker()
    }

    /// A proxy to a worker by its name.
    ///
    /// # Errors
    /// As [`Services::worker_named`](crate::Services::worker_named).
    pub fn worker_named<P: Proxy>(&self, name: &str) -> Result<P> {
        self.site.hall.services.worker_named(name)
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
            self.site.revival.want();
        }
    }
}

impl Kept for Context {
    fn open(opening: &ActorOpening<'_>, _: &'static str) -> Result<Self> {
        Ok(Self {
            site: opening.site.clone(),
            stay: Stay::default(),
            pages: Pages::default(),
            listeners: Listeners::default(),
        })
    }

    fn seal(&mut self, seal: &mut Seal<'_>) -> Result<()> {
        self.pages.seal(seal)
    }

    fn restore(&mut self, _: &ActorOpening<'_>) -> Result<()> {
        self.pages.clear(&self.site);
        Ok(())
    }
}
