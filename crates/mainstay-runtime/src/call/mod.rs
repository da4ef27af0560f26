//! Calls: from a proxy to whoever holds the object, and back.

pub(crate) mod arrival;
pub(crate) mod caller;
pub(crate) mod chain;
pub(crate) mod contract;
pub(crate) mod current;
pub(crate) mod deferred;
pub(crate) mod elsewhere;
pub(crate) mod finished;
pub(crate) mod ground;
pub(crate) mod host;
pub(crate) mod idempotency;
pub(crate) mod proxy;
pub(crate) mod transactions;
pub(crate) mod turn;
