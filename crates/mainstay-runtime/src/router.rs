use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use mainstay_core::partitioning::{PartitionKey, Share};
use mainstay_core::task::Home;
use mainstay_core::time::Duration;
use mainstay_core::{ActorId, Error, ErrorKind, PartitionId, Result};

use crate::actor::Actor;
use crate::actor::enumeration::Actors;
use crate::call::caller::Caller;
use crate::call::proxy::{Proxy, SharedInterface};
use crate::interfaces::OfferedInterface;
use crate::provisions::Provisions;
use crate::remote::lanes::RemoteSession;
use crate::remote::remote_calls::{Redirect, RemoteRoute};
use crate::service_type::ServiceKind;
use crate::slot::Slot;
use crate::worker::handle::WorkerHandle;

/// The seam that maps keys to partitions, and partitions to nodes. On one node the router is the
/// [`Directory`](crate::Directory) of its own services; in a cluster the router also knows the other nodes.
///
/// To be correct:
/// - The address of a key never changes: an address names the partition, not its current node.
/// - `route` is called for every call and must not block: a call waits at the slot for a partition that is not open yet.
pub trait Router: fmt::Debug + Send + Sync + 'static {
    /// The partition of a service that a key belongs to.
    ///
    /// # Errors
    /// `NotFound` if no service matches the query, `Invalid` if several match or if the key does not fit the partitioning.
    fn resolve(&self, query: &ServiceQuery<'_>, key: &PartitionKey) -> Result<Arc<Address>>;

    /// All partitions of a type of actor, in their order.
    ///
    /// # Errors
    /// `NotFound` if there is no such type, `Invalid` if it is a service.
    fn actor_partitions(&self, service: &str) -> Result<Vec<Arc<Address>>>;

    /// The current location of a partition.
    ///
    /// # Errors
    /// `Fatal` once the node has stopped.
    fn route(&self, address: &Address) -> Result<Route>;

    /// Learns from a call where a partition is, or that it is not where it was believed to be.
    fn redirect(&self, address: &Address, redirect: Redirect) {
        let _ = (address, redirect);
    }

    /// The way to other processes; `None` if there is none, and then all partitions are here.
    fn remote(&self) -> Option<&Arc<RemoteSession>> {
        None
    }

    /// The slot of a partition in this process, whether or not the partition is here; `None` if it is not known.
    fn slot(&self, address: &Address) -> Option<Arc<Slot>> {
        let _ = address;
        None
    }

    /// The tokio runtime of this node. A call that is made on another runtime, or on none, runs there.
    fn home(&self) -> &Home;

    /// The worker that implements an interface, in this process.
    ///
    /// # Errors
    /// `NotFound` if no worker matches, `Invalid` if several match, `Fatal` once the node has stopped.
    fn worker(&self, name: Option<&str>, interface: OfferedInterface) -> Result<Arc<WorkerHandle>>;
}

/// The description by which a caller looks a service up.
#[derive(Debug, Clone)]
pub struct ServiceQuery<'n> {
    /// Actors or one object per partition.
    pub kind: ServiceKind,
    /// The name of the service, where the caller gives one.
    pub service: Option<&'n str>,
    /// The name of the interface.
    pub interface: &'static str,
    /// The type of the interface, which tells apart two interfaces of the same name.
    pub object: TypeId,
}

/// A partition of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The name of the service.
    pub service: Arc<str>,
    /// The number of the partition within the service.
    pub index: u32,
    /// The partition.
    pub partition: PartitionId,
    /// The keys that belong to the partition.
    pub share: Share,
    /// The time limit of a call whose proxy sets none.
    pub call_timeout: Duration,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {} (partition {}: {})", self.service, self.partition, self.share)
    }
}

/// The location of a partition.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Route {
    /// In this process, reached through this slot.
    Local(Arc<Slot>),
    /// In another process.
    Remote(RemoteRoute),
}

/// All services that can be called from this node, and the provided dependencies of their objects. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Services {
    router: Arc<dyn Router>,
    provisions: Arc<Provisions>,
}

impl Services {
    /// The services that a router can resolve.
    pub fn new(router: Arc<dyn Router>) -> Self {
        Self { router, provisions: Arc::default() }
    }

    /// The same services with dependencies for their objects.
    #[must_use]
    pub fn with_provisions(mut self, provisions: Arc<Provisions>) -> Self {
        self.provisions = provisions;
        self
    }

    /// The dependency of a type that the node was built with.
    ///
    /// # Errors
    /// `Invalid` if the node was built without it.
    pub fn provided<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        self.provisions.get()
    }

    /// Starts a task on the runtime of the node, from whatever executor this is called, or from none: for the background
    /// work of what was opened here, which must not end with the runtime of the caller. It goes on until it ends or its
    /// runtime does, also after the node has stopped, whose calls fail then. If the runtime has ended, the task is
    /// dropped.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.router.home().spawn(task);
    }

    /// Waits for a length of time by the clock of the node, on whatever executor, or on none.
    pub async fn sleep(&self, duration: Duration) {
        self.router.home().sleep(duration).await;
    }

    /// A proxy to the partition of a key, of the one service that implements the interface.
    ///
    /// # Errors
    /// `NotFound` if no service implements the interface, `Invalid` if several do or if the key does not fit the
    /// partitions of the service.
    pub fn service<P: Proxy + SharedInterface>(&self, key: impl Into<PartitionKey>) -> Result<P> {
        self.find(ServiceKind::Stateful, None, &key.into(), None)
    }

    /// A proxy to the partition of a key, of a service by its name.
    ///
    /// # Errors
    /// `NotFound` if there is no such service, `Invalid` if it does not implement the interface or if the key does not fit
    /// its partitions.
    pub fn service_named<P: Proxy + SharedInterface>(&self, name: &str, key: impl Into<PartitionKey>) -> Result<P> {
        self.find(ServiceKind::Stateful, Some(name), &key.into(), None)
    }

    /// A proxy to an actor, of the one type that implements the interface. The actor need not be active, and need never
    /// have been.
    ///
    /// # Errors
    /// `NotFound` if no actor implements the interface, `Invalid` if several do, `TooLarge` for an id above
    /// [`ACTOR_ID_BYTES_MAX`](mainstay_core::ACTOR_ID_BYTES_MAX).
    pub fn actor<P: Proxy>(&self, id: impl Into<ActorId>) -> Result<P> {
        self.find_actor(None, id.into())
    }

    /// A proxy to an actor of a type by its name.
    ///
    /// # Errors
    /// `NotFound` if there is no such type, `Invalid` if it does not implement the interface, `TooLarge` for an id above
    /// [`ACTOR_ID_BYTES_MAX`](mainstay_core::ACTOR_ID_BYTES_MAX).
    pub fn actor_named<P: Proxy>(&self, name: &str, id: impl Into<ActorId>) -> Result<P> {
        self.find_actor(Some(name), id.into())
    }

    /// A proxy to the one worker that implements the interface, in this process.
    ///
    /// # Errors
    /// `NotFound` if no worker implements the interface, `Invalid` if several do.
    pub fn worker<P: Proxy>(&self) -> Result<P> {
        self.find_worker(None)
    }

    /// A proxy to a worker by its name.
    ///
    /// # Errors
    /// `NotFound` if there is no such worker, `Invalid` if it does not implement the interface.
    pub fn worker_named<P: Proxy>(&self, name: &str) -> Result<P> {
        self.find_worker(Some(name))
    }

    fn find_worker<P: Proxy>(&self, name: Option<&str>) -> Result<P> {
        let interface = OfferedInterface::of::<P>();
        Ok(P::from_caller(Caller::to_worker(self.router.worker(name, interface)?)))
    }

    /// All actors of a type: to list them, or to remove one.
    ///
    /// # Errors
    /// `NotFound` if the type is not served.
    pub fn actors<A: Actor>(&self) -> Result<Actors> {
        self.actors_named(A::NAME)
    }

    /// All actors of a type by its name.
    ///
    /// # Errors
    /// `NotFound` if there is no such type, `Invalid` if it is a service.
    pub fn actors_named(&self, name: &str) -> Result<Actors> {
        Ok(Actors::new(self.router.clone(), name.into(), self.router.actor_partitions(name)?))
    }

    fn find_actor<P: Proxy>(&self, name: Option<&str>, id: ActorId) -> Result<P> {
        id.check()?;
        self.find(ServiceKind::Actors, name, &id.partition_key(), Some(id))
    }

    fn find<P: Proxy>(
        &self,
        kind: ServiceKind,
        service: Option<&str>,
        key: &PartitionKey,
        actor: Option<ActorId>,
    ) -> Result<P> {
        let query = ServiceQuery { kind, service, interface: P::INTERFACE, object: TypeId::of::<P::Object>() };
        let address = self.router.resolve(&query, key).map_err(unserved::<P>)?;
        Ok(P::from_caller(Caller::new(self.router.clone(), address, actor)))
    }
}

/// Adds the remedy for an interface of a library that no service implements: users cannot name the library's types, and so
/// the message names the builder call instead.
fn unserved<P: Proxy>(error: Error) -> Error {
    match P::SERVED_BY {
        Some(serve) if error.kind() == ErrorKind::NotFound => {
            let text = format!("nothing on this node implements {}; build the node with `{serve}`", P::INTERFACE);
            Error::new(ErrorKind::NotFound, text).with_source(error)
        }
        _ => error,
    }
}

impl AsRef<Services> for Services {
    fn as_ref(&self) -> &Services {
        self
    }
}
