use std::sync::Arc;

use mainstay_core::contract::Fingerprint;

use crate::call::session::SessionKey;

/// The identity of a call that may be made twice and is carried out once.
pub(crate) enum CallKey {
    /// A key of the application, with the fingerprint of the arguments.
    Given { key: Arc<str>, arguments: Fingerprint },
    /// The key of a proxy.
    Session(SessionKey),
}
