use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::call::chain::CallWaitGuard;
use crate::call::session::SessionKey;

/// A call that has come from another process, for the object that it is to.
pub struct WireCall {
    /// The encoded arguments.
    pub(crate) arguments: Bytes,
    pub(crate) key: Option<WireKey>,
    /// The turns that have led to the call, from the first to the last, each of which waits for the next.
    pub(crate) chain: Vec<CallWaitGuard>,
}

impl WireCall {
    /// A call with encoded arguments, which no turn has made and that has no key.
    pub fn new(arguments: Bytes) -> Self {
        Self { arguments, key: None, chain: Vec::new() }
    }
}

/// What makes a repeated call the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WireKey {
    /// The idempotency key of an application.
    Given(Arc<str>),
    /// The key that a proxy makes.
    Session(SessionKey),
}

impl fmt::Debug for WireCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a call with {} bytes of arguments", self.arguments.len())
    }
}
