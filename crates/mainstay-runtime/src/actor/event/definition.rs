use std::any::Any;

use mainstay_core::{Result, contract};

use crate::call::contract::Contract;

/// What actors tell to whoever listens: a serde type with a name. Implemented by `#[derive(Event)]`.
///
/// The name is what counts: it is stored with the number of events that an actor has published, and a listener in another
/// program may have a type of its own for it, as long as the one can be read as the other.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    label = "this is not an event",
    note = "add `#[derive(Event, Clone, serde::Serialize, serde::Deserialize)]` to `{Self}`"
)]
pub trait Event: Contract + Clone + Sync {
    /// The name by which it is published and subscribed to.
    const NAME: &'static str;
}

/// An event of any type, on its way to those who listen.
pub(crate) trait AnyEvent: Any + Send + Sync {
    /// Its bytes, for those who have another type for it.
    fn encode(&self) -> Result<Vec<u8>>;
}

impl<E: Event> AnyEvent for E {
    fn encode(&self) -> Result<Vec<u8>> {
        contract::encode(self)
    }
}

/// The event as a listener's type for it.
pub(crate) fn read<E: Event>(event: &dyn AnyEvent) -> Result<E> {
    match (event as &dyn Any).downcast_ref::<E>() {
        Some(event) => Ok(event.clone()),
        None => contract::decode(&event.encode()?),
    }
}
