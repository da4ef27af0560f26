use std::fmt;
use std::sync::Arc;

use mainstay_core::partitioning::{PartitionKey, Share};
use mainstay_core::{ActorId, Epoch, Level, PartitionId, Result};
use tokio::sync::watch;

use crate::call::proxy::{Proxy, SharedInterface};
use crate::router::{Address, Services};

/// The context of a service's object: its partition, and proxies to other objects. Cheap to clone.
#[derive(Clone)]
pub struct ServiceContext {
    address: Arc<Address>,
    level: Level,
    epoch: Epoch,
    services: Services,
    cancelled: watch::Receiver<bool>,
}

impl fmt::Debug for ServiceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in epoch {}", self.address, self.epoch)
    }
}

impl ServiceContext {
    /// A context, and the handle that cancels it.
    pub(crate) fn new(address: Arc<Address>, level: Level, epoch: Epoch, services: Services) -> (Self, Cancellation) {
        let (cancel, cancelled) = watch::channel(false);
        (Self { address, level, epoch, services, cancelled }, Cancellation { cancel })
    }

    /// The name of the service.
    pub fn service_name(&self) -> &str {
        &self.address.service
    }

    /// The partition.
    pub fn partition_id(&self) -> PartitionId {
        self.address.partition
    }

    /// The keys that belong to the partition.
    pub fn share(&self) -> &Share {
        &self.address.share
    }

    /// The level of the partition's state.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The fencing token of this primary. Send it to external systems, so that they can refuse an older primary.
    pub fn epoch(&self) -> Epoch {
        self.epoch
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

    /// A proxy to the one worker that implements the interface, in this process.
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

    /// Waits until this node is no longer primary, or stops. `run` and calls under way must return then: they are
    /// dropped after a grace period.
    pub async fn cancelled(&self) {
        // An error means that the activation was dropped, which cancels as well.
        let _ = self.cancelled.clone().wait_for(|cancelled| *cancelled).await;
    }

    /// True once [`cancelled`](ServiceContext::cancelled) is ready.
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow() || self.cancelled.has_changed().is_err()
    }
}

/// Lets `CounterRef::of(&ctx, id)` make a proxy.
impl AsRef<Services> for ServiceContext {
    fn as_ref(&self) -> &Services {
        self.services()
    }
}

/// Cancels a context, explicitly or when dropped.
pub(crate) struct Cancellation {
    cancel: watch::Sender<bool>,
}

impl Cancellation {
    pub(crate) fn cancel(&self) {
        self.cancel.send_replace(true);
    }
}
