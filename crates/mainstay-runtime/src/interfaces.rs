use std::any::{Any, TypeId};
use std::marker::PhantomData;
use std::sync::Arc;

use crate::proxy::{Offered, SharedInterface};
use crate::served::Served;
use crate::service::Service;

/// The interfaces of a service, as `#[derive(Service)]` lists them.
pub struct Interfaces<T: Service> {
    list: Vec<OfferedInterface>,
    behind: Vec<Behind<T>>,
}

/// Makes the object behind an interface.
type Behind<T> = fn(Arc<Served<T>>) -> Box<dyn Any + Send + Sync>;

/// An interface that a service offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedInterface {
    /// Its name.
    pub name: &'static str,
    /// Its own type, which tells two of one name apart.
    pub object: TypeId,
}

impl<T: Service> Interfaces<T> {
    pub(crate) fn of_service() -> Self {
        let mut interfaces = Self { list: Vec::new(), behind: Vec::new() };
        T::interfaces(&mut interfaces);
        interfaces
    }

    /// Adds an interface, by its proxy.
    #[allow(private_bounds, reason = "a service's host is this room's own business")]
    pub fn add<P: SharedInterface + Offered<Served<T>>>(&mut self, _: PhantomData<P>) {
        let object = TypeId::of::<P::Object>();
        if self.list.iter().any(|known| known.object == object) {
            return;
        }
        self.list.push(OfferedInterface { name: P::INTERFACE, object });
        self.behind.push(|served| Box::new(P::object(served)));
    }

    pub(crate) fn list(&self) -> &[OfferedInterface] {
        &self.list
    }

    /// The object behind every interface.
    pub(crate) fn objects(&self, served: &Arc<Served<T>>) -> Vec<(TypeId, Box<dyn Any + Send + Sync>)> {
        let types = self.list.iter().map(|interface| interface.object);
        types.zip(self.behind.iter().map(|behind| behind(served.clone()))).collect()
    }
}
