use std::sync::Arc;

use mainstay_core::Result;
use mainstay_core::contract::{Fingerprint, Fingerprinter};

use crate::call::contract::Contract;

/// The identity of an idempotent call: its key, and the fingerprint of its arguments.
pub(crate) struct CallKey {
    pub(crate) key: Arc<str>,
    pub(crate) arguments: Fingerprint,
}

/// The arguments of a call. Implemented by `#[interface]`.
pub trait Arguments: Send + 'static {
    /// Adds the arguments to a fingerprint, in their order. Called only for a call with an idempotency key.
    ///
    /// # Errors
    /// If one cannot be encoded.
    fn add_to(&self, fingerprinter: &mut Fingerprinter) -> Result<()>;
}

/// Adds an argument to a fingerprint.
///
/// # Errors
/// If it cannot be encoded.
pub fn add_argument<T: Contract>(fingerprinter: &mut Fingerprinter, argument: &T) -> Result<()> {
    fingerprinter.add(argument)
}
