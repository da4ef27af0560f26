use std::sync::Arc;

use mainstay_core::partitioning::PartitionKey;
use mainstay_core::{ActorId, Result};
use mainstay_replica::{Host, Replica};
use mainstay_runtime::{Actor, Actors, Directory, Proxy, Services, SharedInterface};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::builder::NodeBuilder;

/// A process that takes part in the system, with one data folder. Cheap to clone.
///
/// [`stop`](Node::stop) ends it in order. When the last handle is dropped it ends where it stands, as in a crash: what was
/// acknowledged is durable by its level either way. Proxies do not keep a node alive.
#[derive(Debug, Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: Arc<Directory>,
    services: Services,
    /// Gone once the node has stopped, because it keeps the data folder locked.
    host: Mutex<Option<Host>>,
    stopped: OnceCell<()>,
}

impl Node {
    /// A node to be set up and started.
    pub fn builder() -> NodeBuilder {
        NodeBuilder::new()
    }

    pub(crate) fn new(host: Host, directory: Arc<Directory>) -> Self {
        let services = Services::new(directory.clone());
        Self { inner: Arc::new(Inner { directory, services, host: Mutex::new(Some(host)), stopped: OnceCell::new() }) }
    }

    /// A proxy to the partition of a key, of the one service that implements the interface.
    ///
    /// The key is an `i64`, a text or a uuid for a service that is cut into ranges, [`PartitionKey::named`] for one whose
    /// partitions have names, and `()` for one that has a single partition.
    ///
    /// # Errors
    /// `NotFound` if no service implements the interface, `Invalid` if several do or if the key does not fit the
    /// partitions of the service.
    pub fn service<P: Proxy + SharedInterface>(&self, key: impl Into<PartitionKey>) -> Result<P> {
        self.inner.services.service(key)
    }

    /// A proxy to the partition of a key, of a service by its name.
    ///
    /// # Errors
    /// `NotFound` if there is no such service, `Invalid` if it does not implement the interface or if the key does not fit
    /// its partitions.
    pub fn service_named<P: Proxy + SharedInterface>(&self, name: &str, key: impl Into<PartitionKey>) -> Result<P> {
        self.inner.services.service_named(name, key)
    }

    /// A proxy to an actor, of the one type that implements the interface. The actor need not be active, and need never
    /// have been: it is there when it is called.
    ///
    /// The id is an `i64`, a text or a uuid.
    ///
    /// # Errors
    /// `NotFound` if no actor implements the interface, `Invalid` if several do, `TooLarge` for a text above
    /// [`ACTOR_ID_BYTES_MAX`](mainstay_core::ACTOR_ID_BYTES_MAX).
    pub fn actor<P: Proxy>(&self, id: impl Into<ActorId>) -> Result<P> {
        self.inner.services.actor(id)
    }

    /// A proxy to an actor of a type by its name.
    ///
    /// # Errors
    /// `NotFound` if there is no such type, `Invalid` if it does not implement the interface, `TooLarge` for a text above
    /// [`ACTOR_ID_BYTES_MAX`](mainstay_core::ACTOR_ID_BYTES_MAX).
    pub fn actor_named<P: Proxy>(&self, name: &str, id: impl Into<ActorId>) -> Result<P> {
        self.inner.services.actor_named(name, id)
    }

    /// All actors of a type: to list them, or to remove one.
    ///
    /// # Errors
    /// `NotFound` if the type is not served here.
    pub fn actors<A: Actor>(&self) -> Result<Actors> {
        self.inner.services.actors::<A>()
    }

    /// All actors of a type by its name.
    ///
    /// # Errors
    /// `NotFound` if there is no such type, `Invalid` if it is a service.
    pub fn actors_named(&self, name: &str) -> Result<Actors> {
        self.inner.services.actors_named(name)
    }

    /// Takes an actor out of memory, when those who came before have had their turns. Its state stays. One that is not in
    /// memory is fine.
    ///
    /// # Errors
    /// `NotFound` if the type is not served here; those of a call.
    pub async fn deactivate_actor<A: Actor>(&self, id: impl Into<ActorId>) -> Result<()> {
        self.actors::<A>()?.deactivate(id).await
    }

    /// Stops in order: no call is admitted any more, `run` of every partition is cancelled, what is under way gets a few
    /// seconds to end, and then the replicas stop. Afterwards the data folder is free.
    pub async fn stop(&self) {
        let inner = &self.inner;
        let stopping = async {
            inner.directory.stop().await;
            // Taken out only when it has stopped: if this future is dropped before, the next one goes on from here.
            let host = inner.host.lock().clone();
            if let Some(host) = host {
                host.stop().await;
            }
            inner.host.lock().take();
        };
        inner.stopped.get_or_init(|| stopping).await;
    }

    /// Ends where it stands, as in a crash, and waits until nothing of it is left.
    #[cfg(feature = "testkit")]
    pub(crate) async fn kill(&self) {
        self.inner.directory.kill();
        let host = self.inner.host.lock().take();
        if let Some(host) = host {
            host.replicas().for_each(Replica::kill);
            host.stop().await;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.directory.kill();
        if let Some(host) = self.host.get_mut() {
            host.replicas().for_each(Replica::kill);
        }
    }
}
