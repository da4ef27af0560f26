use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use mainstay_core::task::Scope;
use mainstay_core::time;
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::actor::ActorStore;

use crate::actor::Actor;
use crate::actor::hall::{Hall, HallCore};
use crate::actor::population::Population;
use crate::actor::settings::ActorSettings;
use crate::service::activation::{Activation, Place, Tasks};
use crate::slot::{Opened, Tenant};

/// How the actors of a type are run.
#[derive(Debug, Clone)]
pub struct ActorOptions {
    /// Their settings.
    pub settings: ActorSettings,
    /// Whether the next turn of an actor may run while the commit of the one before is under way. Off only to measure what
    /// that brings.
    pub overlap: bool,
}

impl Default for ActorOptions {
    fn default() -> Self {
        Self { settings: ActorSettings::default(), overlap: true }
    }
}

/// The actors of a partition while the partition is primary here, in one epoch.
pub(crate) struct ActorActivation<T: Actor> {
    hall: Arc<Hall<T>>,
    opened: Arc<Opened>,
    tasks: Tasks,
}

impl<T: Actor> ActorActivation<T> {
    pub(crate) async fn open(
        place: Place,
        options: ActorOptions,
        population: Arc<Population>,
    ) -> Result<Box<dyn Activation>> {
        let Place { address, partition, epoch, services } = place;
        let scope = Scope::new();
        let tasks = Tasks(scope.clone());
        let store = ActorStore::open(partition).await?;
        if store.epoch() != epoch {
            return Err(Error::new(ErrorKind::Retry, "the partition changed hands while it was opened"));
        }
        let ActorOptions { settings, overlap } = options;
        let core = HallCore {
            address,
            level: T::LEVEL,
            epoch,
            store,
            services,
            settings,
            overlap,
            scope: scope.clone(),
            population,
            active: AtomicU64::new(0),
            overhead_bytes: 0,
            table: Weak::<Hall<T>>::new(),
        };
        let hall = Hall::<T>::open(core);
        let opened = Arc::new(Opened { tenant: Tenant::Actors(hall.clone()), scope });
        Ok(Box::new(Self { hall, opened, tasks }))
    }
}

impl<T: Actor> Activation for ActorActivation<T> {
    fn opened(&self) -> Arc<Opened> {
        self.opened.clone()
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let Self { hall, opened, tasks } = *self;
            drop(opened);
            let grace = hall.core().settings.deactivation_grace;
            if time::timeout(grace, hall.close()).await.is_err() {
                tracing::warn!(
                    service = %hall.core().address.service,
                    partition = %hall.core().address.partition,
                    grace_ms = grace.as_millis() as u64,
                    "turns have not ended within the grace period and are dropped"
                );
            }
            tasks.0.stop();
            tasks.0.ended().await;
            hall.abandon();
        })
    }
}
