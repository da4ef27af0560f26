//! Calls: from a proxy to the host of the object, and back.

pub(crate) mod arguments;
pub(crate) mod arrival;
pub(crate) mod caller;
pub(crate) mod chain;
pub(crate) mod contract;
pub(crate) mod current;
pub(crate) mod deferred;
pub(crate) mod finished;
pub(crate) mod foreign_runtime;
pub(crate) mod idempotency;
pub(crate) mod object_host;
pub(crate) mod proxy;
pub(crate) mod session;
pub(crate) mod transactions;
pub(crate) mod turn;
pub(crate) mod turn_scope;
pub(crate) mod unproven;
pub(crate) mod wire_call;
pub(crate) mod wire_method;
