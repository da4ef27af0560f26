use std::fmt;
use std::sync::Arc;

use mainstay_core::partitioning::PartitionKey;
use mainstay_core::{ActorId, Result};

use crate::call::proxy::{Proxy, SharedInterface};
use crate::router::Services;

/// The context of a worker, with proxies to other objects. Cheap to clone.
#[derive(Clone)]
pub struct WorkerContext {
    name: &'static str,
    services: Services,
}

impl fmt::Debug for WorkerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.name)
    }
}

impl WorkerContext {
    pub(super) fn new(name: &'static str, services: Services) -> Self {
        Self { name, services }
    }

    /// The name of the worker.
    pub fn worker_name(&self) -> &'static str {
        self.name
    }

    /// The dependency of a type that the node provides, by `Node::builder().provide(..)`.
    ///
    /// # Errors
    /// `Invalid` if the node does not provide it.
    pub fn provided<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        self.services.provided()
    }

    /// The entry to all services, for code that outlives or does not see this context.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// A proxy to an actor, of the one type that implements the interface.
    ///
    /// # Errors
    /// As [`Services::actor`].
    pub fn actor<P: Proxy>(&self, id: impl Into<ActorId>) -> Result<P> {
        self.services.actor(id)
    }

    /// A proxy to an actor of a type by its name.
    ///
    /// # Errors
    /// As [`Services::actor_named`].
    pub fn actor_named<P: Proxy>(&self, name: &str, id: impl Into<ActorId>) -> Result<P> {
        self.services.actor_named(name, id)
    }

    /// A proxy to the partition of a key, of the one service that implements the interface.
    ///
    /// # Errors
    /// As [`Services::service`].
    pub fn service<P: Proxy + SharedInterface>(&self, key: impl Into<PartitionKey>) -> Result<P> {
        self.services.service(key)
    }

    /// A proxy to the partition of a key, of a service by its name.
    ///
    /// # Errors
    /// As [`Services::service_named`].
    pub fn service_named<P: Proxy + SharedInterface>(&self, name: &str, key: impl Into<PartitionKey>) -> Result<P> {
        self.services.service_named(name, key)
    }

    /// A proxy to the one worker that implements the interface. A worker that calls its own type holds one instance and needs a
    /// second one: if all `max` instances are held by calls that wait for each other, the next call is refused with `Conflict`.
    ///
    /// # Errors
    /// As [`Services::worker`].
    pub fn worker<P: Proxy>(&self) -> Result<P> {
        self.services.worker()
    }

    /// A proxy to a worker by its name.
    ///
    /// # Errors
    /// As [`Services::worker_named`].
    pub fn worker_named<P: Proxy>(&self, name: &str) -> Result<P> {
        self.services.worker_named(name)
    }
}

/// Lets `CounterRef::of(&ctx, id)` make a proxy.
impl AsRef<Services> for WorkerContext {
    fn as_ref(&self) -> &Services {
        self.services()
    }
}
