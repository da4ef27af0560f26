use mainstay_core::{Error, Result, contract};
use serde::de::DeserializeOwned;

use super::Reminder;

impl Reminder {
    /// The value that it was set with, from its [payload](Self::payload).
    ///
    /// # Errors
    /// `Corrupt` or what else decoding says, if it is not of this type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        contract::decode(&self.payload).map_err(|error| {
            let (name, wanted) = (&self.name, std::any::type_name::<T>());
            Error::new(error.kind(), format!("the payload of reminder {name:?} is no {wanted}")).with_source(error)
        })
    }
}
