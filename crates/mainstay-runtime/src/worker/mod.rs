//! Worker pools: stateless instances without identity, in the process of their callers.
//!
//! The path of a call: its [`WorkerHandle`](handle::WorkerHandle) leads to the [`WorkerPool`](worker_pool::WorkerPool) → the
//! [`InstancePool`](instance_pool::InstancePool) gives the call a [`WorkerLease`](lease::WorkerLease), at once or after the calls
//! that were queued before → the leased instance serves this call alone → the lease goes to the next queued call, or the instance
//! is idle until the next call or until it expires.

pub(crate) mod context;
pub(crate) mod definition;
pub(crate) mod opening;
pub(crate) mod options;

pub(crate) mod handle;
pub(crate) mod registry;
pub(crate) mod worker_pool;

mod instance_pool;
mod lease;
