use std::fmt;

use mainstay_core::partitioning::Partitioning;
use mainstay_core::{Error, Level, PartitionId, Result};
use mainstay_state::{Partition, StateOptions};

use crate::actor::Actor;
use crate::actor::activation::{ActorActivation, ActorOptions};
use crate::actor::cell::ActorCell;
use crate::actor::settings::ActorSettings;
use crate::interfaces::{Interfaces, OfferedInterface, refuse_same_names};
use crate::known_service::KnownService;
use crate::service::activation::{OpenFn, ServiceActivation};
use crate::service::definition::{Service, check_name};
use crate::service::host::ServiceHost;

/// A registered type of service or actor, with its Rust type erased.
#[derive(Clone)]
pub struct ServiceType {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) partitioning: Partitioning,
    pub(crate) interfaces: Vec<OfferedInterface>,
    pub(crate) kind: ServiceKind,
    pub(crate) settings: ActorSettings,
    pub(crate) options: ActorOptions,
    pub(crate) state: StateOptions,
    pub(crate) open: OpenFn,
}

/// Whether a service is one object per partition or many actors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceKind {
    /// One object per partition.
    Stateful,
    /// Many actors in each partition.
    Actors,
}

impl ServiceKind {
    /// The way in which such a service is called.
    pub(crate) fn way(self) -> &'static str {
        match self {
            Self::Stateful => "a service: call it by `service` or `service_named`",
            Self::Actors => "an actor: call it by `actor` or `actor_named`",
        }
    }
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

    /// What callers have to know of it, with the ids of its partitions in their order.
    pub fn known(&self, partitions: Vec<PartitionId>) -> KnownService {
        KnownService {
            name: self.name.into(),
            kind: self.kind,
            interfaces: self.interfaces.iter().map(|interface| interface.name.to_owned()).collect(),
            partitioning: self.partitioning.clone(),
            partitions,
            call_timeout: self.settings.call_timeout,
        }
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
