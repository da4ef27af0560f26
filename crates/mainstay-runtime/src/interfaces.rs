use std::any::{Any, TypeId};
use std::marker::PhantomData;
use std::sync::Arc;

use mainstay_core::{Error, Result};

use crate::actor::Actor;
use crate::actor::cell::ActorCell;
use crate::call::proxy::{Offered, Proxy, SharedInterface};
use crate::call::wire_method::WireMethod;
use crate::service::definition::Service;
use crate::service::host::ServiceHost;
use crate::worker::definition::Worker;
use crate::worker::worker_pool::WorkerPool;

/// The interfaces of a type, as its derive macro lists them.
pub struct Interfaces<H> {
    list: Vec<OfferedInterface>,
    behind: Vec<Behind<H>>,
}

/// Converts a host to the trait object of an interface.
type Behind<H> = fn(Arc<H>) -> Box<dyn Any + Send + Sync>;

/// An interface that a type offers.
#[derive(Debug, Clone, Copy)]
pub struct OfferedInterface {
    /// Its name.
    pub name: &'static str,
    /// Its type, which tells apart two interfaces of the same name.
    pub object: TypeId,
    /// Its methods, as other processes call them.
    pub methods: &'static [WireMethod],
}

impl OfferedInterface {
    /// The interface of a proxy.
    pub(crate) fn of<P: Proxy>() -> Self {
        Self { name: P::INTERFACE, object: TypeId::of::<P::Object>(), methods: P::METHODS }
    }
}

/// Refuses interfaces of one name: calls from other processes have the name alone.
pub(crate) fn refuse_same_names(owner: &str, interfaces: &[OfferedInterface]) -> Result<()> {
    for (at, interface) in interfaces.iter().enumerate() {
        let name = interface.name;
        if interfaces[..at].iter().any(|earlier| earlier.name == name) {
            return Err(Error::invalid(format!(
                "{owner} implements two interfaces of the name {name:?}, which calls from other processes could not tell apart: rename \
                 one by `#[interface(name = \"..\")]`"
            )));
        }
    }
    Ok(())
}

impl<H> Interfaces<H> {
    pub(crate) fn list_by(fill: fn(&mut Self)) -> Self {
        let mut interfaces = Self { list: Vec::new(), behind: Vec::new() };
        fill(&mut interfaces);
        interfaces
    }

    /// Adds an interface, by its proxy.
    pub fn offer<P: Offered<H>>(&mut self, _: PhantomData<P>) {
        let object = TypeId::of::<P::Object>();
        if self.list.iter().any(|known| known.object == object) {
            return;
        }
        self.list.push(OfferedInterface::of::<P>());
        self.behind.push(|host| Box::new(P::object(host)));
    }

    pub(crate) fn list(&self) -> &[OfferedInterface] {
        &self.list
    }

    /// The trait objects of a host, one per interface.
    pub(crate) fn objects(&self, host: &Arc<H>) -> Vec<(TypeId, Box<dyn Any + Send + Sync>)> {
        let types = self.list.iter().map(|interface| interface.object);
        types.zip(self.behind.iter().map(|behind| behind(host.clone()))).collect()
    }

    /// The trait object of a host for one interface.
    pub(crate) fn object(&self, interface: TypeId, host: Arc<H>) -> Option<Box<dyn Any + Send + Sync>> {
        let place = self.list.iter().position(|known| known.object == interface)?;
        Some(self.behind[place](host))
    }
}

impl<T: Service> Interfaces<ServiceHost<T>> {
    pub(crate) fn of_service() -> Self {
        Self::list_by(T::interfaces)
    }

    /// Adds an interface to a service, by its proxy.
    pub fn add<P: SharedInterface + Offered<ServiceHost<T>>>(&mut self, interface: PhantomData<P>) {
        self.offer(interface);
    }
}

impl<T: Actor> Interfaces<ActorCell<T>> {
    pub(crate) fn of_actor() -> Self {
        Self::list_by(T::interfaces)
    }
}

impl<T: Worker> Interfaces<WorkerPool<T>> {
    pub(crate) fn of_worker() -> Self {
        Self::list_by(T::interfaces)
    }
}
