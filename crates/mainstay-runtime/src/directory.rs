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
use crate::actor::population::Population;
use crate::actor::settings::ActorSettings;
use crate::interfaces::{Interfaces, OfferedInterface};
use crate::lifecycle::{Post, attend};
use crate::observe::ledger::Ledger;
use crate::provisions::Provisions;
use crate::router::{Address, Route, Router, Services, Wanted};
use crate::service::activation::{Open, ServiceActivation};
use crate::service::definition::{Service, check_name};
use crate::service::served::Served;
use crate::slot::{Occupant, Slot};
use crate::worker::desk::{Desk, WorkerType};
use crate::worker::roster::Roster;

/// A type of service, whatever Rust type is behind it.
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
    open: Open,
}

/// What a type of service consists of.
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
    /// `Invalid` if its name or its partitioning cannot be.
    pub fn of<T: Service>() -> Result<Self> {
        check_name(T::NAME)?;
        let partitioning = T::partitioning();
        partitioning
            .check()
            .map_err(|error| Error::invalid(format!("service {} cannot be started", T::NAME)).with_source(error))?;
        let interfaces = Interfaces::<Served<T>>::of_service().list().to_vec();
        Ok(Self {
            name: T::NAME,
            level: T::LEVEL,
            partitioning,
            interfaces,
            kind: ServiceKind::Stateful,
            settings: ActorSettings::default(),
            options: ActorOptions::default(),
            state: StateOptions::default(),
            open: |place| Box::pin(ServiceActivation::open::<T>(place)),
        })
    }

    /// The type of an actor.
    ///
    /// # Errors
    /// `Invalid` if its name or its number of partitions cannot be.
    pub fn of_actor<T: Actor>() -> Result<Self> {
        check_name(T::NAME)?;
        let partitioning = Partitioning::uniform(T::partitions());
        partitioning
            .check()
            .map_err(|error| Error::invalid(format!("actor {} cannot be started", T::NAME)).with_source(error))?;
        let interfaces = Interfaces::<ActorCell<T>>::of_actor().list().to_vec();
        Ok(Self {
            name: T::NAME,
            level: T::LEVEL,
            partitioning,
            interfaces,
            kind: ServiceKind::Actors,
            settings: ActorSettings::default(),
            options: ActorOptions::default(),
            state: StateOptions::default(),
            open: |place| Box::pin(ActorActivation::<T>::open(place)),
        })
    }

    /// How its actors are run; without effect on a service.
    pub fn actor_options_mut(&mut self) -> &mut ActorOptions {
        &mut self.options
    }

    /// The settings of its actors; without effect on a service.
    pub fn actor_settings_mut(&mut self) -> &mut ActorSettings {
        &mut self.settings
    }

    /// How its collections are kept; without effect on actors, which have none.
    pub fn state_options_mut(&mut self) -> &mut StateOptions {
        &mut self.state
    }

    /// What it consists of.
    pub fn kind(&self) -> ServiceKind {
        self.kind
    }

    /// The same type, kept and cut otherwise than its code says.
    ///
    /// # Errors
    /// `Invalid` if the partitioning cannot be.
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

    /// How the state of its partitions is kept.
    pub fn level(&self) -> Level {
        self.level
    }

    /// How it is cut into partitions.
    pub fn partitioning(&self) -> &Partitioning {
        &self.partitioning
    }
}

/// A service to be served, with a handle to each of its partitions, in their order.
#[derive(Debug)]
pub struct Serving {
    /// The service.
    pub service: ServiceType,
    /// Its partitions.
    pub partitions: Vec<Partition>,
}

/// The services of this node, and the way to them.
///
/// What it serves holds it in turn, so that objects can call each other: whoever started it ends it by
/// [`stop`](Directory::stop) or [`kill`](Directory::kill).
#[derive(Debug)]
pub struct Directory {
    services: BTreeMap<&'static str, Known>,
    workers: Roster,
    provisions: Arc<Provisions>,
    stop: watch::Sender<bool>,
    home: Home,
    scope: Scope,
}

#[derive(Debug)]
struct Known {
    service: ServiceType,
    ledger: Arc<Ledger>,
    slots: Vec<Arc<Slot>>,
}

impl Directory {
    /// A directory of services, which are not served yet. They will be on the runtime in which this is called.
    ///
    /// # Errors
    /// `Invalid` if two services have one name, or if a service has not as many partitions as it says.
    pub fn new(services: &[Serving]) -> Result<Self> {
        let mut table = BTreeMap::new();
        for Serving { service, partitions } in services {
            if partitions.len() != service.partitioning.count() as usize {
                return Err(Error::invalid(format!(
                    "service {} has {} partitions and was given {}",
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
            let served = Known { service: service.clone(), ledger: Arc::default(), slots: slots.collect() };
            if table.insert(service.name, served).is_some() {
                return Err(Error::invalid(format!(
                    "two services have the name {:?}: give one another by `name = \"..\"` in its attribute",
                    service.name
                )));
            }
        }
        Ok(Self {
            services: table,
            workers: Roster::default(),
            provisions: Arc::default(),
            stop: watch::Sender::new(false),
            home: Home::current().without_scope(),
            scope: Scope::new(),
        })
    }

    /// The same directory with things that its objects use.
    #[must_use]
    pub fn with_provisions(mut self, provisions: Provisions) -> Self {
        self.provisions = Arc::new(provisions);
        self
    }

    /// The services that a router leads to, as an object of this directory sees them.
    pub fn services(&self, router: Arc<dyn Router>) -> Services {
        Services::new(router).with_provisions(self.provisions.clone())
    }

    /// Starts to serve: the objects reach each other by `router`.
    pub fn serve(&self, node: NodeId, services: Vec<Serving>, router: Arc<dyn Router>) {
        for Serving { service, partitions } in services {
            let Some(served) = self.services.get(service.name) else { continue };
            let population = Arc::new(Population::new(&service.settings));
            for (slot, partition) in served.slots.iter().zip(partitions) {
                let services = self.services(router.clone());
                let (slot, population, stop) = (slot.clone(), population.clone(), self.stop.subscribe());
                let ledger = served.ledger.clone();
                let post = Post { node, partition, slot, services, population, ledger, stop };
                let (options, settings) = (service.options.clone(), service.settings.clone());
                drop(self.scope.spawn(attend(post, service.open, options, settings, service.state.clone())));
            }
        }
    }

    /// Hands what was counted of actors since the last time to the recorder of the process, if it has one, and sees to it that
    /// it is measured how long things take. To be called at the start, and then about every second.
    pub fn publish_metrics(&self) {
        let actors = self.services.values().filter(|known| known.service.kind == ServiceKind::Actors);
        actors.for_each(|known| known.ledger.publish(known.service.name));
    }

    /// Starts pools of workers, which reach others by `router`. To be called once, before [`serve`](Directory::serve).
    ///
    /// # Errors
    /// `Invalid` if two workers have one name, `Fatal` if one panics when it is made.
    pub fn employ(&self, workers: &[WorkerType], router: Arc<dyn Router>) -> Result<()> {
        self.workers.open(workers, &self.services(router))
    }

    /// Stops in order: no call is admitted any more, `run` is cancelled, and what is under way gets a grace period to end.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        self.vacate();
        self.scope.ended().await;
        // After those who may need them to come to their end.
        self.workers.close().await;
        self.kill();
    }

    /// Stops everything where it stands.
    pub fn kill(&self) {
        self.stop.send_replace(true);
        // First, because they hold what runs.
        self.scope.stop();
        self.workers.kill();
        self.vacate();
    }

    /// Ready from when it is being stopped.
    pub async fn stopping(&self) {
        // An error means that it is gone, which this holds.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }

    /// True from when it is being stopped.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    fn vacate(&self) {
        self.services.values().flat_map(|served| &served.slots).for_each(|slot| slot.put(Occupant::Stopped));
    }

    fn choose(&self, wanted: &Wanted<'_>) -> Result<&Known> {
        match wanted.service {
            Some(name) => self.by_name(name, wanted),
            None => self.by_interface(wanted),
        }
    }

    fn known(&self, name: &str) -> Result<&Known> {
        self.services.get(name).ok_or_else(|| {
            let known: Vec<_> = self.services.keys().copied().collect();
            Error::new(
                ErrorKind::NotFound,
                format!("there is no service {name:?} on this node: it has {}", or_none(&known)),
            )
        })
    }

    fn by_name(&self, name: &str, wanted: &Wanted<'_>) -> Result<&Known> {
        let served = self.known(name)?;
        if served.service.kind != wanted.kind {
            return Err(Error::invalid(format!("{name} is {}", served.service.kind.way())));
        }
        if served.offers(wanted.object) {
            return Ok(served);
        }
        Err(Error::invalid(format!(
            "service {name} does not implement {}: add it to `implements(..)` in its attribute",
            wanted.interface
        )))
    }

    fn by_interface(&self, wanted: &Wanted<'_>) -> Result<&Known> {
        let is_wanted = |served: &&Known| served.service.kind == wanted.kind && served.offers(wanted.object);
        let mut offering = self.services.values().filter(is_wanted);
        let (noun, builder, named) = match wanted.kind {
            ServiceKind::Stateful => ("service", "service", "service_named"),
            ServiceKind::Actors => ("actor", "actor", "actor_named"),
        };
        let Some(first) = offering.next() else {
            let interface = wanted.interface;
            if let Some(other) = self.services.values().find(|served| served.offers(wanted.object)) {
                let (name, way) = (other.service.name, other.service.kind.way());
                return Err(Error::invalid(format!("{interface} is implemented by {name}, which is {way}")));
            }
            let there: Vec<_> = self
                .services
                .values()
                .filter(|served| served.service.kind == wanted.kind)
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
            wanted.interface,
            first.service.name,
            others.join(", ")
        )))
    }
}

/// What is told when nothing of a node implements an interface. The list of `implements(..)` is forgotten more often than
/// the type itself.
pub(crate) fn not_implemented(noun: &str, interface: &str, builder: &str, there: &[&'static str]) -> String {
    /// How many are named.
    const NAMED_MAX: usize = 8;
    let given = format!("give the node one that does by `Node::builder().{builder}::<..>()`");
    if there.is_empty() {
        return format!("no {noun} on this node implements {interface}, and it has no {noun} at all: {given}");
    }
    let more = if there.len() > NAMED_MAX { ", .." } else { "" };
    let named = there.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    format!(
        "no {noun} on this node implements {interface}, and it has {named}{more}: if one of these is to, write \
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

impl Known {
    fn offers(&self, object: TypeId) -> bool {
        self.service.interfaces.iter().any(|interface| interface.object == object)
    }
}

impl Router for Directory {
    fn resolve(&self, wanted: &Wanted<'_>, key: &PartitionKey) -> Result<Arc<Address>> {
        let served = self.choose(wanted)?;
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
            return Err(Error::invalid(format!("{service} is a service, and has no actors")));
        }
        Ok(served.slots.iter().map(|slot| slot.address().clone()).collect())
    }

    fn route(&self, address: &Address) -> Result<Route> {
        let slot = self.services.get(&*address.service).and_then(|served| served.slots.get(address.index as usize));
        let slot = slot
            .filter(|slot| **slot.address() == *address)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("{address} is not on this node")))?;
        Ok(Route::Local(slot.clone()))
    }

    fn home(&self) -> &Home {
        &self.home
    }

    fn worker(&self, name: Option<&str>, interface: OfferedInterface) -> Result<Arc<Desk>> {
        self.workers.find(name, interface)
    }
}

fn or_none(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
