use std::sync::Arc;

use mainstay_core::Result;
use mainstay_core::contract::{Fingerprint, Fingerprinter};

use crate::call::contract::Contract;

/// What makes a repeated call the same one: the key that its caller has given, and what it is called with.
pub(crate) struct CallKey {
    pub(crate) key: Arc<str>,
    pub(crate) arguments: Fingerprint,
}

/// The arguments of a call. Implemented by `#[interface]`.
pub trait Arguments: Send + 'static {
    /// Adds them to a fingerprint, one after another. Called only for a call with an idempotency key.
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
