use std::any::{Any, type_name};
use std::sync::Arc;

use mainstay_core::contract::{self, Unknown};
use mainstay_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::actor::actor_shared::ActorShared;
use crate::actor::kept::VALUE_LIMITS;

/// What can be kept under a name: any serde type that owns what it has. There is nothing to implement.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept as dynamic state",
    label = "this cannot be kept under a name",
    note = "derive `serde::Serialize, serde::Deserialize` for it, without borrowed parts, and see that it is `Send + Sync`"
)]
pub trait StateValue: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> StateValue for T {}

/// A [`StateValue`] of any type.
pub(super) trait Item: Any + Send + Sync {
    fn type_name(&self) -> &'static str;

    /// The value as it is stored, with what its type does not know, and what that is.
    fn encode(&self, unknown: &Unknown) -> Result<(Vec<u8>, Unknown)>;

    /// What this type does not know of a stored value; nothing if that is of another type altogether.
    fn unknown_of(&self, stored: &[u8]) -> Unknown;
}

impl<T: StateValue> Item for T {
    fn type_name(&self) -> &'static str {
        type_name::<T>()
    }

    fn encode(&self, unknown: &Unknown) -> Result<(Vec<u8>, Unknown)> {
        VALUE_LIMITS.encode_keeping(self, unknown)
    }

    fn unknown_of(&self, stored: &[u8]) -> Unknown {
        contract::decode_keeping::<T>(stored).map(|(_, unknown)| unknown).unwrap_or_default()
    }
}

/// The value as the type that is asked for.
///
/// # Errors
/// `Invalid` if it is of another one.
pub(super) fn typed<T: StateValue>(shared: &ActorShared, name: &str, item: Arc<dyn Item>) -> Result<Arc<T>> {
    let guard = (*item).type_name();
    let item: Arc<dyn Any + Send + Sync> = item;
    item.downcast().map_err(|_| {
        Error::invalid(format!(
            "state {name:?} of {shared} is in memory as {guard}, and is asked for as {}: use one type for it",
            type_name::<T>()
        ))
    })
}

/// Reads a stored value.
///
/// # Errors
/// `Invalid` if it is of another type, `Corrupt` if it is damaged.
pub(super) fn decoded<T: StateValue>(shared: &ActorShared, name: &str, stored: &[u8]) -> Result<(Arc<T>, Unknown)> {
    let (value, unknown) = contract::decode_keeping::<T>(stored).map_err(|error| {
        let text = format!("state {name:?} of {shared} is stored as something that is no {}", type_name::<T>());
        Error::new(error.kind(), text).with_source(error)
    })?;
    Ok((Arc::new(value), unknown))
}
