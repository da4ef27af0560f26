use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use mainstay_core::partitioning::PartitionKey;
use mainstay_core::task::{Gone, Home, Scope};
use mainstay_core::time::Duration;
use mainstay_core::{ActorId, Result};
use mainstay_replica::Health;
use mainstay_runtime::{Actor, Actors, Directory, Proxy, Services, SharedInterface};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{Mutex as AsyncMutex, OnceCell};

use crate::admin::{Admin, Publisher, keep_publishing};
use crate::builder::NodeBuilder;
use crate::cluster::{ClusterView, Member, keep_learning};
use crate::settings::Settings;
use crate::shutdown_hooks::ShutdownHooks;
use crate::signal::Signals;

/// A process that takes part in the system, with one data folder. Cheap to clone.
///
/// [`stop`](Node::stop) ends it in order. When the last handle is dropped it ends where it stands, as in a crash: what was
/// acknowledged is durable by its level either way. Proxies do not keep a node alive.
#[derive(Debug, Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    directory: Arc<Directory>,
    services: Services,
    settings: Settings,
    /// What is still to be done before it stops.
    shutdown_hooks: AsyncMutex<ShutdownHooks>,
    publisher: Publisher,
    /// Where it runs.
    home: Home,
    /// What the node does beside serving, from when it is complete.
    tasks: Scope,
    admin: OnceLock<Admin>,
    /// Gone once the node has stopped, because it keeps the data folder locked.
    member: Mutex<Option<Member>>,
    stopped: OnceCell<()>,
}

impl Node {
    /// A node to be set up and started.
    pub fn builder() -> NodeBuilder {
        NodeBuilder::new()
    }

    /// `publish_interval` is how often metrics are handed to the recorder without being asked for; `None` for never.
    pub(crate) fn new(
        member: Member,
        directory: Arc<Directory>,
        settings: Settings,
        shutdown_hooks: ShutdownHooks,
        publish_interval: Option<Duration>,
    ) -> Self {
        let services = directory.services(directory.clone());
        let attaching = member.sets.clone().keep_attached();
        let learning = keep_learning(directory.clone(), member.cluster.control().clone());
        let member = Mutex::new(Some(member));
        let inner = Arc::new(Inner {
            directory,
            services,
            settings,
            shutdown_hooks: AsyncMutex::new(shutdown_hooks),
            publisher: Publisher::default(),
            home: Home::current().without_scope(),
            tasks: Scope::new(),
            admin: OnceLock::new(),
            member,
            stopped: OnceCell::new(),
        });
        drop(inner.tasks.spawn(attaching));
        drop(inner.tasks.spawn(learning));
        // The recorder is there by now, and so it is measured from the start.
        inner.directory.publish_metrics();
        if let Some(interval) = publish_interval {
            drop(inner.tasks.spawn(keep_publishing(Arc::downgrade(&inner), interval)));
        }
        Self { inner }
    }

    /// Serves operators on an address that was taken.
    pub(crate) fn serve_admin(&self, listener: TcpListener) -> Result<()> {
        let admin = Admin::serve(listener, Arc::downgrade(&self.inner))?;
        // Called once, for a node that has just been made.
        drop(self.inner.admin.set(admin));
        Ok(())
    }

    /// The way to all services, to be kept where this is not at hand.
    pub fn services(&self) -> &Services {
        &self.inner.services
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

    /// The effective settings, each with where it comes from.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Where operators are served (`GET /metrics`, `GET /health`), if an address was set: by
    /// [`NodeBuilder::admin_address`], or as `admin.address` in the configuration.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.inner.admin.get().map(Admin::address)
    }

    /// Where other nodes and clients reach this one, if it takes part in a cluster ([`NodeBuilder::cluster`]).
    pub fn cluster_address(&self) -> Option<String> {
        let member = self.inner.member.lock();
        member.as_ref().and_then(|member| member.address.clone())
    }

    /// The cluster as this node sees it: its nodes, its replica sets, and which node is primary of each. A node alone is a cluster
    /// of one. `None` once the node has stopped.
    pub fn cluster(&self) -> Option<ClusterView> {
        let member = self.inner.member.lock();
        member.as_ref().map(|member| ClusterView::of(&member.cluster))
    }

    /// What is wrong with the log and the replicas of this node, if anything is; `None` once the node has stopped or begins
    /// to. `GET /health` at the admin address says the same.
    pub fn health(&self) -> Option<Health> {
        self.inner.health()
    }

    /// A proxy to the one worker that implements the interface. A call goes to an instance in this process that has nothing
    /// else to do.
    ///
    /// # Errors
    /// `NotFound` if no worker implements the interface, `Invalid` if several do.
    pub fn worker<P: Proxy>(&self) -> Result<P> {
        self.inner.services.worker()
    }

    /// A proxy to a worker by its name.
    ///
    /// # Errors
    /// `NotFound` if there is no such worker, `Invalid` if it does not implement the interface.
    pub fn worker_named<P: Proxy>(&self, name: &str) -> Result<P> {
        self.inner.services.worker_named(name)
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

    /// Stops in order: what is [to be done before](NodeBuilder::before_stop) is done, no call is admitted any more, `run` of
    /// every partition is cancelled, what is under way gets a few seconds to end, and then the replicas stop. Afterwards the
    /// data folder is free.
    pub async fn stop(&self) {
        let inner = self.inner.clone();
        if let Err(Gone) = self.inner.home.run(async move { inner.stop().await }).await {
            // With the runtime all tasks have ended. Nothing is left but what holds the data folder.
            self.inner.directory.kill();
            self.inner.end_tasks();
            self.inner.member.lock().take();
        }
    }

    /// Serves until the process is told to end, and then [stops](Node::stop) in order: by SIGINT (Ctrl-C) or SIGTERM, on Windows
    /// by Ctrl-C, Ctrl-Break, or when the console is closed or the system shuts down. It also returns when the node is stopped
    /// by other code.
    ///
    /// A second signal ends the process at once, as it would have without this, with the exit code that shells use for it
    /// (130 for SIGINT, 143 for SIGTERM). What was acknowledged is durable by its level either way.
    ///
    /// ```no_run
    /// # use mainstay_node::Node;
    /// # async fn run() -> mainstay_core::Result<()> {
    /// let node = Node::builder().start().await?;
    /// node.run_until_signal().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` where signals cannot be listened to, because the runtime was built without `enable_io` or `enable_all`;
    /// the node runs on then.
    pub async fn run_until_signal(&self) -> Result<()> {
        let mut signals = Signals::listen()?;
        tokio::select! {
            signal = signals.next() => tracing::info!(%signal, "the process was told to end"),
            () = self.inner.directory.stopping() => {}
        }
        tokio::select! {
            () = self.stop() => Ok(()),
            signal = signals.next() => {
                tracing::error!(%signal, "the process was told to end once more, and ends where it stands");
                signal.end_process()
            }
        }
    }

    /// Hands what was counted to the recorder of the process.
    #[cfg(feature = "testkit")]
    pub(crate) fn publish_metrics(&self) {
        crate::admin::publish(&self.inner);
    }

    /// Ends where it stands, as in a crash, and waits until nothing of it is left.
    #[cfg(feature = "testkit")]
    pub(crate) async fn kill(&self) {
        self.inner.directory.kill();
        self.inner.end_tasks();
        let member = self.inner.member.lock().take();
        if let Some(member) = member {
            member.kill();
            member.stop().await;
        }
    }
}

/// So that `CounterRef::of(&node, id)` makes a proxy.
impl AsRef<Services> for Node {
    fn as_ref(&self) -> &Services {
        self.services()
    }
}

impl Inner {
    async fn stop(&self) {
        let stopping = async {
            tracing::info!(data_dir = %self.settings.data_dir().display(), "the node stops");
            self.shutdown_hooks.lock().await.run(&self.services).await;
            let member = self.member.lock().clone();
            if let Some(member) = member {
                member.hand_over().await;
            }
            self.directory.stop().await;
            self.end_tasks();
            // Taken out only when it has stopped: if this future is dropped before, the next one goes on from here.
            let member = self.member.lock().clone();
            if let Some(member) = member {
                member.stop().await;
            }
            self.member.lock().take();
            tracing::info!(data_dir = %self.settings.data_dir().display(), "the node has stopped");
        };
        // On the heap: it is large, and callers carry it along.
        self.stopped.get_or_init(|| Box::pin(stopping)).await;
    }

    /// What is wrong; `None` once the node has stopped or begins to.
    pub(crate) fn health(&self) -> Option<Health> {
        let member = self.member.lock();
        member.as_ref().filter(|_| !self.directory.is_stopped()).map(|member| member.replicas.health())
    }

    /// Hands what actors, log and replicas have counted to the recorder.
    pub(crate) fn publish_metrics(&self) {
        self.directory.publish_metrics();
        // Not kept, because it holds the data folder.
        if let Some(member) = &*self.member.lock() {
            self.publisher.publish(&member.replicas);
        }
    }

    fn end_tasks(&self) {
        self.tasks.stop();
        if let Some(admin) = self.admin.get() {
            admin.stop();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end_tasks();
        self.directory.kill();
        if let Some(member) = self.member.get_mut() {
            member.kill();
        }
    }
}
