use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use mainstay_core::partitioning::PartitionKey;
use mainstay_core::task::{Home, Scope};
use mainstay_core::{Error, ErrorKind, NodeId, Result};
use mainstay_state::Partition;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::interfaces::OfferedInterface;
use crate::known_service::KnownService;
use crate::provisions::Provisions;
use crate::registered_service::RegisteredService;
use crate::remote::lanes::RemoteSession;
use crate::remote::remote_calls::{Redirect, RemoteCalls};
use crate::router::{Address, Route, Router, ServiceQuery, Services};
use crate::service_type::{ServiceKind, ServiceType, Serving};
use crate::slot::{Slot, SlotState};
use crate::worker::handle::{WorkerHandle, WorkerType};
use crate::worker::registry::WorkerRegistry;

/// The services that this node knows, the objects of those that it has, and the router to them.
///
/// Each partition of a known service has a slot, whether or not the partition is on this node: partitions come and go by
/// [`attach`](Directory::attach) and [`detach`](Directory::detach). A service whose type this program does not have is known by its
/// record alone: see [`learn`](Directory::learn).
///
/// The objects of the services hold the directory in turn, so that objects can call each other. This cycle is broken by
/// [`stop`](Directory::stop) or [`kill`](Directory::kill), one of which must be called.
#[derive(Debug)]
pub struct Directory {
    services: ArcSwap<ServiceTable>,
    workers: WorkerRegistry,
    provisions: Arc<Provisions>,
    /// This node, and the router by which its objects call each other, once it serves.
    serving: Mutex<Option<(NodeId, Arc<dyn Router>)>>,
    remote: Option<Arc<RemoteSession>>,
    stop: watch::Sender<bool>,
    home: Home,
    scope: Scope,
}

/// The known services, by name.
type ServiceTable = BTreeMap<Arc<str>, Arc<RegisteredService>>;

impl Directory {
    /// A directory of services that are not served yet. They will be served on the runtime in which this is called.
    ///
    /// # Errors
    /// `Invalid` if two services have the same name, or if the handles of a service do not match its partitioning.
    pub fn new(services: &[Serving]) -> Result<Self> {
        let directory = Self::empty();
        for Serving { service, partitions } in services {
            directory.add(service.clone(), partitions.iter().map(Partition::id).collect())?;
        }
        Ok(directory)
    }

    /// A directory that knows no service yet. Services will be served on the runtime in which this is called.
    pub fn empty() -> Self {
        Self {
            services: ArcSwap::default(),
            workers: WorkerRegistry::default(),
            provisions: Arc::default(),
            serving: Mutex::default(),
            remote: None,
            stop: watch::Sender::new(false),
            home: Home::current().without_scope(),
            scope: Scope::new(),
        }
    }

    /// The same directory with dependencies for its objects.
    #[must_use]
    pub fn with_provisions(mut self, provisions: Provisions) -> Self {
        self.provisions = Arc::new(provisions);
        self
    }

    /// The same directory with a way to other nodes: calls to partitions that are not here go there.
    #[must_use]
    pub fn with_remote(mut self, calls: Arc<dyn RemoteCalls>) -> Self {
        self.remote = Some(Arc::new(RemoteSession::new(calls)));
        self
    }

    /// Adds a service whose type this program has, with the ids of its partitions in their order.
    ///
    /// # Errors
    /// `Invalid` if there is a service of the name already, or if the ids do not match the partitioning.
    pub fn add(&self, service: ServiceType, partitions: Vec<mainstay_core::PartitionId>) -> Result<()> {
        let name = service.name();
        self.register(RegisteredService::new(service.known(partitions), Some(service))?).map_err(|_| {
            Error::invalid(format!(
                "two services have the name {name:?}: rename one by `name = \"..\"` in its attribute"
            ))
        })
    }

    /// Learns of a service that other nodes serve. One that is known already with the same partitions is fine.
    ///
    /// # Errors
    /// `Invalid` if the record contradicts itself, `Conflict` if the service is known with other partitions or of another kind.
    pub fn learn(&self, known: KnownService) -> Result<()> {
        let Err(earlier) = self.register(RegisteredService::new(known.clone(), None)?) else { return Ok(()) };
        let earlier = &earlier.known;
        if (earlier.kind, &earlier.partitions) == (known.kind, &known.partitions)
            && earlier.partitioning == known.partitioning
        {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "service {} is known with {} ({} partitions), and is now said to have {} ({} partitions): partitions do not change, \
                 give the service another name",
                known.name,
                earlier.partitioning,
                earlier.partitions.len(),
                known.partitioning,
                known.partitions.len()
            ),
        ))
    }

    /// Adds a service; one that is there already is returned instead.
    fn register(&self, service: RegisteredService) -> Result<(), Arc<RegisteredService>> {
        let (service, mut earlier) = (Arc::new(service), None);
        self.services.rcu(|table| {
            let mut table = ServiceTable::clone(table);
            let name: Arc<str> = service.known.name.as_str().into();
            earlier = table.get(&name).cloned();
            table.entry(name).or_insert_with(|| service.clone());
            table
        });
        earlier.map_or(Ok(()), Err)
    }

    /// The services that a router can resolve, with the dependencies of this directory.
    pub fn services(&self, router: Arc<dyn Router>) -> Services {
        Services::new(router).with_provisions(self.provisions.clone())
    }

    /// Starts to serve. The objects call each other through `router`.
    pub fn serve(&self, node: NodeId, services: Vec<Serving>, router: Arc<dyn Router>) {
        self.start(node, router);
        for Serving { service, partitions } in services {
            for (index, partition) in (0..).zip(partitions) {
                if let Err(error) = self.attach(service.name(), index, partition) {
                    tracing::error!(service = service.name(), index, ?error, "a partition cannot be served");
                }
            }
        }
    }

    /// Gets ready to serve partitions as they are [attached](Directory::attach). The objects call each other through `router`.
    pub fn start(&self, node: NodeId, router: Arc<dyn Router>) {
        *self.serving.lock() = Some((node, router));
    }

    /// Serves a partition that has come to this node, whenever the node is its primary. One that is attached already is fine.
    ///
    /// # Errors
    /// `NotFound` if there is no such service, `Invalid` if its type is not here, it has no such partition or the handle is that of
    /// another one; `Fatal` before the directory has started and once it has stopped.
    pub fn attach(&self, service: &str, index: u32, partition: Partition) -> Result<()> {
        let registered = self.known(service)?;
        let serving = self.serving.lock();
        let Some((node, router)) = serving.as_ref().filter(|_| !self.is_stopped()) else {
            return Err(Error::fatal(format!(
                "partition {index} of {service} cannot be served: the node is not running"
            )));
        };
        // Under the lock: a stop that begins now sees the partition.
        registered.attach(index, partition, *node, self.services(router.clone()), &self.scope)
    }

    /// Lets go of a partition that leaves this node, and waits until its objects are closed. Calls that wait for it go to
    /// other nodes. One that is not attached is fine.
    ///
    /// # Errors
    /// `NotFound` if there is no such service.
    pub async fn detach(&self, service: &str, index: u32) -> Result<()> {
        self.known(service)?.detach(index).await;
        Ok(())
    }

    /// Publishes the metrics of actors since the last call to the recorder of the process, if there is one, and turns the
    /// measuring of durations on or off accordingly. To be called at the start, and then about every second.
    pub fn publish_metrics(&self) {
        let table = self.services.load();
        let types = table.values().filter_map(|known| known.service.as_ref().zip(Some(&known.counters)));
        let actors = types.filter(|(service, _)| service.kind == ServiceKind::Actors);
        actors.for_each(|(service, counters)| counters.publish(service.name));
    }

    /// Starts the pools of workers, which call other objects through `router`. To be called once, before
    /// [`serve`](Directory::serve), because objects may call workers as soon as they are served.
    ///
    /// # Errors
    /// `Invalid` if two workers have the same name, `Fatal` if the constructor of one panics.
    pub fn start_workers(&self, workers: &[WorkerType], router: Arc<dyn Router>) -> Result<()> {
        self.workers.open(workers, &self.services(router))
    }

    /// Stops gracefully: calls are refused, `run` is cancelled, and calls under way get a grace period to end.
    pub async fn stop(&self) {
        self.begin_stop();
        self.close_slots();
        self.scope.ended().await;
        // After the services, whose last calls may need a worker.
        self.workers.close().await;
        self.kill();
    }

    /// Stops at once, dropping the calls under way.
    pub fn kill(&self) {
        self.begin_stop();
        // Before the slots are closed, because these tasks own the activations that fill the slots.
        self.scope.stop();
        self.workers.kill();
        self.close_slots();
        self.services.load().values().for_each(|served| served.release());
    }

    /// Waits until a stop begins.
    pub async fn stopping(&self) {
        // An error is impossible while `self` holds the sender.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }

    /// True once a stop has begun.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    fn begin_stop(&self) {
        let serving = self.serving.lock();
        self.stop.send_replace(true);
        drop(serving);
        self.services.load().values().for_each(|served| served.stop());
    }

    fn close_slots(&self) {
        self.services.load().values().flat_map(|served| served.slots()).for_each(|slot| slot.put(SlotState::Stopped));
        // The router is this directory, or holds it.
        drop(self.serving.lock().take());
    }

    fn choose(&self, query: &ServiceQuery<'_>) -> Result<Arc<RegisteredService>> {
        match query.service {
            Some(name) => self.by_name(name, query),
            None => self.by_interface(query),
        }
    }

    pub(crate) fn known(&self, name: &str) -> Result<Arc<RegisteredService>> {
        let table = self.services.load();
        table.get(name).cloned().ok_or_else(|| {
            let known: Vec<_> = table.keys().map(|name| &**name).collect();
            Error::new(
                ErrorKind::NotFound,
                format!("there is no service {name:?} on this node, which has {}: correct the name", or_none(&known)),
            )
        })
    }

    fn by_name(&self, name: &str, query: &ServiceQuery<'_>) -> Result<Arc<RegisteredService>> {
        let served = self.known(name)?;
        if served.known.kind != query.kind {
            return Err(Error::invalid(format!("{name} is {}", served.known.kind.way())));
        }
        if served.offers(query) {
            return Ok(served);
        }
        Err(Error::invalid(format!(
            "service {name} does not implement {}: add it to `implements(..)` in its attribute",
            query.interface
        )))
    }

    fn by_interface(&self, query: &ServiceQuery<'_>) -> Result<Arc<RegisteredService>> {
        let table = self.services.load();
        let is_wanted = |served: &&Arc<RegisteredService>| served.known.kind == query.kind && served.offers(query);
        let mut offering = table.values().filter(is_wanted);
        let (noun, builder, named) = match query.kind {
            ServiceKind::Stateful => ("service", "service", "service_named"),
            ServiceKind::Actors => ("actor", "actor", "actor_named"),
        };
        let Some(first) = offering.next() else {
            let interface = query.interface;
            if let Some(other) = table.values().find(|served| served.offers(query)) {
                let (name, way) = (&other.known.name, other.known.kind.way());
                return Err(Error::invalid(format!("{interface} is implemented by {name}, which is {way}")));
            }
            let there: Vec<_> = table
                .values()
                .filter(|served| served.known.kind == query.kind)
                .map(|served| served.known.name.as_str())
                .collect();
            return Err(Error::new(ErrorKind::NotFound, not_implemented(noun, interface, builder, &there)));
        };
        let others: Vec<_> = offering.map(|served| served.known.name.as_str()).collect();
        if others.is_empty() {
            return Ok(first.clone());
        }
        Err(Error::invalid(format!(
            "{} is implemented by {} and by {}: say which by `{named}`",
            query.interface,
            first.known.name,
            others.join(", ")
        )))
    }
}

/// The error text for an interface that is not implemented on the node. It suggests the list of `implements(..)` first, because
/// that is forgotten more often than the registration of the type.
pub(crate) fn not_implemented(noun: &str, interface: &str, builder: &str, there: &[&str]) -> String {
    /// The bound on the types that the text lists.
    const NAMED_MAX: usize = 8;
    let given = format!("register one that does by `Node::builder().{builder}::<..>()`");
    if there.is_empty() {
        return format!("no {noun} on this node implements {interface}, and the node has no {noun} at all: {given}");
    }
    let more = if there.len() > NAMED_MAX { ", .." } else { "" };
    let named = there.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    format!(
        "no {noun} on this node implements {interface}, and the node has {named}{more}: if one of these should, write \
         `#[{noun}(implements({interface}))]` in its attribute; if not, {given}"
    )
}

impl Router for Directory {
    fn resolve(&self, query: &ServiceQuery<'_>, key: &PartitionKey) -> Result<Arc<Address>> {
        let served = self.choose(query)?;
        let index = served
            .known
            .partitioning
            .partition_of(key)
            .map_err(|error| error.about(format_args!("service {}", served.known.name)))?;
        let slot = served.slot(index).ok_or_else(|| {
            let name = &served.known.name;
            Error::fatal(format!("{name} has no partition {index}, which its partitioning names: this is a defect"))
        })?;
        Ok(slot.address().clone())
    }

    fn actor_partitions(&self, service: &str) -> Result<Vec<Arc<Address>>> {
        let served = self.known(service)?;
        if served.known.kind != ServiceKind::Actors {
            return Err(Error::invalid(format!("{service} is a service, and has no actors: name a type of actor")));
        }
        Ok(served.slots().map(|slot| slot.address().clone()).collect())
    }

    fn route(&self, address: &Address) -> Result<Route> {
        let table = self.services.load();
        let served = table.get(&*address.service);
        let found = served.and_then(|served| Some((served, served.slot(address.index)?)));
        let (served, slot) = found.filter(|(_, slot)| **slot.address() == *address).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("{address} is not on this node: make a new proxy and call again"))
        })?;
        match &self.remote {
            // A partition that is here says by itself where its primary is.
            Some(remote) if !served.is_attached(address.index) && !self.is_stopped() => {
                Ok(Route::Remote(remote.calls.route(address)))
            }
            _ => Ok(Route::Local(slot)),
        }
    }

    fn redirect(&self, address: &Address, redirect: Redirect) {
        if let Some(remote) = &self.remote {
            remote.calls.redirect(address, redirect);
        }
    }

    fn slot(&self, address: &Address) -> Option<Arc<Slot>> {
        self.known(&address.service).ok()?.slot(address.index)
    }

    fn remote(&self) -> Option<&Arc<RemoteSession>> {
        self.remote.as_ref()
    }

    fn home(&self) -> &Home {
        &self.home
    }

    fn worker(&self, name: Option<&str>, interface: OfferedInterface) -> Result<Arc<WorkerHandle>> {
        self.workers.find(name, interface)
    }
}

fn or_none(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
