use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use mainstay_core::partitioning::{PartitionKey, Partitioning};
use mainstay_core::task::{Home, Scope};
use mainstay_core::{Error, ErrorKind, Level, NodeId, Result};
use mainstay_state::{Partition, StateOptions};
use tokio::sync::watch;

use crate::actor::Actor;
use crate::actor::activation::{ActorActivation, ActorOptions};
use crate::actor::cell::ActorCell;
use crate::actor::memory_budget::MemoryBudget;
use crate::actor::settings::ActorSettings;
use crate::interfaces::{Interfaces, OfferedInterface, refuse_same_names};
use crate::observe::counters::ActorCounters;
use crate::provisions::Provisions;
use crate::role_follower::{ServedPartition, follow_role};
use crate::router::{Address, Route, Router, ServiceQuery, Services};
use crate::service::activation::{OpenFn, ServiceActivation};
use crate::service::definition::{Service, check_name};
use crate::service::host::ServiceHost;
use crate::slot::{Slot, SlotState};
use crate::worker::handle::{WorkerHandle, WorkerType};
use crate::worker::registry::WorkerRegistry;

/// A registered type of service or actor, with its Rust type erased.
#[derive(Clone)]
pub struct ServiceType {
    name: &'static str,
    level: Level,
    partitioning: Partitioning,
    interfaces: Vec<OfferedInterface>,
    kind: ServiceKind,
    settings: ActorSettings,
    options: ActorOptions,
    state: StateOptions,
    open: OpenFn,
}

/// Whether a service is one object per partition or many actors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceKind {
    /// One object per partition.
    Stateful,
    /// Many actors in each partition.
    Actors,
}

impl fmt::Debug for ServiceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name, self.partitioning, self.level)
    }
}

impl ServiceType {
    /// The type of a service.
    ///
    /// # Errors
    /// `Invalid` if its name or its partitioning is not allowed.
    pub fn of<T: Service>() -> Result<Self> {
        check_name(T::NAME)?;
        let partitioning = T::partitioning();
        partitioning
            .check()
            .map_err(|error| Error::invalid(format!("service {} cannot be started", T::NAME)).with_source(error))?;
        let interfaces = Interfaces::<ServiceHost<T>>::of_service().list().to_vec();
        refuse_same_names(T::NAME, &interfaces)?;
        Ok(Self {
            name: T::NAME,
            level: T::LEVEL,
            partitioning,
            interfaces,
            kind: ServiceKind::Stateful,
            settings: ActorSettings::default(),
            options: ActorOptions::default(),
            state: StateOptions::default(),
            open: |context| Box::pin(ServiceActivation::open::<T>(context)),
        })
    }

    /// The type of an actor.
    ///
    /// # Errors
    /// `Invalid` if its name or its number of partitions is not allowed.
    pub fn of_actor<T: Actor>() -> Result<Self> {
        check_name(T::NAME)?;
        let partitioning = Partitioning::uniform(T::partitions());
        partitioning
            .check()
            .map_err(|error| Error::invalid(format!("actor {} cannot be started", T::NAME)).with_source(error))?;
        let interfaces = Interfaces::<ActorCell<T>>::of_actor().list().to_vec();
        refuse_same_names(T::NAME, &interfaces)?;
        Ok(Self {
            name: T::NAME,
            level: T::LEVEL,
            partitioning,
            interfaces,
            kind: ServiceKind::Actors,
            settings: ActorSettings::default(),
            options: ActorOptions::default(),
            state: StateOptions::default(),
            open: |context| Box::pin(ActorActivation::<T>::open(context)),
        })
    }

    /// The runtime options of its actors; without effect on a service.
    pub fn actor_options_mut(&mut self) -> &mut ActorOptions {
        &mut self.options
    }

    /// The settings of its actors; without effect on a service.
    pub fn actor_settings_mut(&mut self) -> &mut ActorSettings {
        &mut self.settings
    }

    /// The options of its collections; without effect on actors, which have none.
    pub fn state_options_mut(&mut self) -> &mut StateOptions {
        &mut self.state
    }

    /// Whether it is one object per partition or many actors.
    pub fn kind(&self) -> ServiceKind {
        self.kind
    }

    /// The same type with another level and partitioning than its code says.
    ///
    /// # Errors
    /// `Invalid` if the partitioning is not allowed.
    pub fn placed(mut self, level: Level, partitioning: Partitioning) -> Result<Self> {
        partitioning
            .check()
            .map_err(|error| Error::invalid(format!("service {} cannot be started", self.name)).with_source(error))?;
        (self.level, self.partitioning) = (level, partitioning);
        Ok(self)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The level of its partitions.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Its partitions.
    pub fn partitioning(&self) -> &Partitioning {
        &self.partitioning
    }
}

/// A service that is to be served, with a handle to each of its partitions, in their order.
#[derive(Debug)]
pub struct Serving {
    /// The service.
    pub service: ServiceType,
    /// Its partitions.
    pub partitions: Vec<Partition>,
}

/// The services of this node, and the router to them.
///
/// The objects of the services hold the directory in turn, so that objects can call each other. This cycle is broken by
/// [`stop`](Directory::stop) or [`kill`](Directory::kill), one of which must be called.
#[derive(Debug)]
pub struct Directory {
    services: BTreeMap<&'static str, RegisteredService>,
    workers: WorkerRegistry,
    provisions: Arc<Provisions>,
    stop: watch::Sender<bool>,
    home: Home,
    scope: Scope,
}

#[derive(Debug)]
struct RegisteredService {
    service: ServiceType,
    counters: Arc<ActorCounters>,
    slots: Vec<Arc<Slot>>,
}

impl Directory {
    /// A directory of services that are not served yet. They will be served on the runtime in which this is called.
    ///
    /// # Errors
    /// `Invalid` if two services have the same name, or if the handles of a service do not match its partitioning.
    pub fn new(services: &[Serving]) -> Result<Self> {
        let mut table = BTreeMap::new();
        for Serving { service, partitions } in services {
            if partitions.len() != service.partitioning.count() as usize {
                return Err(Error::invalid(format!(
                    "service {} has {} partitions and was given {} handles: give it one handle per partition",
                    service.name,
                    service.partitioning.count(),
                    partitions.len()
                )));
            }
            let name: Arc<str> = service.name.into();
            let slots = (0..).zip(partitions).filter_map(|(index, partition)| {
                let share = service.partitioning.share(index)?;
                let address = Address {
                    service: name.clone(),
                    index,
                    partition: partition.id(),
                    share,
                    call_timeout: service.settings.call_timeout,
                };
                Some(Arc::new(Slot::new(Arc::new(address))))
            });
            let served =
                RegisteredService { service: service.clone(), counters: Arc::default(), slots: slots.collect() };
            if table.insert(service.name, served).is_some() {
                return Err(Error::invalid(format!(
                    "two services have the name {:?}: rename one by `name = \"..\"` in its attribute",
                    service.name
                )));
            }
        }
        Ok(Self {
            services: table,
            workers: WorkerRegistry::default(),
            provisions: Arc::default(),
            stop: watch::Sender::new(false),
            home: Home::current().without_scope(),
            scope: Scope::new(),
        })
    }

    /// The same directory with dependencies for its objects.
    #[must_use]
    pub fn with_provisions(mut self, provisions: Provisions) -> Self {
        self.provisions = Arc::new(provisions);
        self
    }

    /// The services that a router can resolve, with the dependencies of this directory.
    pub fn services(&self, router: Arc<dyn Router>) -> Services {
        Services::new(router).with_provisions(self.provisions.clone())
    }

    /// Starts to serve. The objects call each other through `router`.
    pub fn serve(&self, node: NodeId, services: Vec<Serving>, router: Arc<dyn Router>) {
        for Serving { service, partitions } in services {
            let Some(served) = self.services.get(service.name) else { continue };
            let memory_budget = Arc::new(MemoryBudget::new(&service.settings));
            for (slot, partition) in served.slots.iter().zip(partitions) {
                let services = self.services(router.clone());
                let (slot, memory_budget, stop) = (slot.clone(), memory_budget.clone(), self.stop.subscribe());
                let counters = served.counters.clone();
                let partition_served =
                    ServedPartition { node, partition, slot, services, memory_budget, counters, stop };
                let (options, settings) = (service.options.clone(), service.settings.clone());
                drop(self.scope.spawn(follow_role(
                    partition_served,
                    service.open,
                    options,
                    settings,
                    service.state.clone(),
                )));
            }
        }
    }

    /// Publishes the metrics of actors since the last call to the recorder of the process, if there is one, and turns the
    /// measuring of durations on or off accordingly. To be called at the start, and then about every second.
    pub fn publish_metrics(&self) {
        let actors = self.services.values().filter(|known| known.service.kind == ServiceKind::Actors);
        actors.for_each(|known| known.counters.publish(known.service.name));
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
        self.stop.send_replace(true);
        self.close_slots();
        self.scope.ended().await;
        // After the services, whose last calls may need a worker.
        self.workers.close().await;
        self.kill();
    }

    /// Stops at once, dropping the calls under way.
    pub fn kill(&self) {
        self.stop.send_replace(true);
        // Before the slots are closed, because these tasks own the activations that fill the slots.
        self.scope.stop();
        self.workers.kill();
        self.close_slots();
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

    fn close_slots(&self) {
        self.services.values().flat_map(|served| &served.slots).for_each(|slot| slot.put(SlotState::Stopped));
    }

    fn choose(&self, query: &ServiceQuery<'_>) -> Result<&RegisteredService> {
        match query.service {
            Some(name) => self.by_name(name, query),
            None => self.by_interface(query),
        }
    }

    fn known(&self, name: &str) -> Result<&RegisteredService> {
        self.services.get(name).ok_or_else(|| {
            let known: Vec<_> = self.services.keys().copied().collect();
            Error::new(
                ErrorKind::NotFound,
                format!("there is no service {name:?} on this node, which has {}: correct the name", or_none(&known)),
            )
        })
    }

    fn by_name(&self, name: &str, query: &ServiceQuery<'_>) -> Result<&RegisteredService> {
        let served = self.known(name)?;
        if served.service.kind != query.kind {
            return Err(Error::invalid(format!("{name} is {}", served.service.kind.way())));
        }
        if served.offers(query.object) {
            return Ok(served);
        }
        Err(Error::invalid(format!(
            "service {name} does not implement {}: add it to `implements(..)` in its attribute",
            query.interface
        )))
    }

    fn by_interface(&self, query: &ServiceQuery<'_>) -> Result<&RegisteredService> {
        let is_wanted = |served: &&RegisteredService| served.service.kind == query.kind && served.offers(query.object);
        let mut offering = self.services.values().filter(is_wanted);
        let (noun, builder, named) = match query.kind {
            ServiceKind::Stateful => ("service", "service", "service_named"),
            ServiceKind::Actors => ("actor", "actor", "actor_named"),
        };
        let Some(first) = offering.next() else {
            let interface = query.interface;
            if let Some(other) = self.services.values().find(|served| served.offers(query.object)) {
                let (name, way) = (other.service.name, other.service.kind.way());
                return Err(Error::invalid(format!("{interface} is implemented by {name}, which is {way}")));
            }
            let there: Vec<_> = self
                .services
                .values()
                .filter(|served| served.service.kind == query.kind)
                .map(|served| served.service.name)
                .collect();
            return Err(Error::new(ErrorKind::NotFound, not_implemented(noun, interface, builder, &there)));
        };
        let others: Vec<_> = offering.map(|served| served.service.name).collect();
        if others.is_empty() {
            return Ok(first);
        }
        Err(Error::invalid(format!(
            "{} is implemented by {} and by {}: say which by `{named}`",
            query.interface,
            first.service.name,
            others.join(", ")
        )))
    }
}

/// The error text for an interface that is not implemented on the node. It suggests the list of `implements(..)` first, because
/// that is forgotten more often than the registration of the type.
pub(crate) fn not_implemented(noun: &str, interface: &str, builder: &str, there: &[&'static str]) -> String {
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

impl ServiceKind {
    fn way(self) -> &'static str {
        match self {
            Self::Stateful => "a service: call it by `service` or `service_named`",
            Self::Actors => "an actor: call it by `actor` or `actor_named`",
        }
    }
}

impl RegisteredService {
    fn offers(&self, object: TypeId) -> bool {
        self.service.interfaces.iter().any(|interface| interface.object == object)
    }
}

impl Router for Directory {
    fn resolve(&self, query: &ServiceQuery<'_>, key: &PartitionKey) -> Result<Arc<Address>> {
        let served = self.choose(query)?;
        let index = served
            .service
            .partitioning
            .partition_of(key)
            .map_err(|error| error.about(format_args!("service {}", served.service.name)))?;
        Ok(served.slots[index as usize].address().clone())
    }

    fn actor_partitions(&self, service: &str) -> Result<Vec<Arc<Address>>> {
        let served = self.known(service)?;
        if served.service.kind != ServiceKind::Actors {
            return Err(Error::invalid(format!("{service} is a service, and has no actors: name a type of actor")));
        }
        Ok(served.slots.iter().map(|slot| slot.address().clone()).collect())
    }

    fn route(&self, address: &Address) -> Result<Route> {
        let slot = self.services.get(&*address.service).and_then(|served| served.slots.get(address.index as usize));
        let slot = slot.filter(|slot| **slot.address() == *address).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("{address} is not on this node: make a new proxy and call again"))
        })?;
        Ok(Route::Local(slot.clone()))
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
