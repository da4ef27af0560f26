//! The public API of Mainstay as a list of names, gathered from the crates that make up the system.
//!
//! Applications import `mainstay`, which has all of these names under the same paths, with the pages that teach them. This
//! crate is there for libraries that `mainstay` itself re-exports, such as `mainstay-governance`: they cannot depend on it.
//! What the macros write names `::mainstay`, so such a library has `extern crate mainstay_api as mainstay;` at its root.

pub mod actor;
pub mod collections;
pub mod node;
pub mod partition;
pub mod prelude;
pub mod service;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod worker;

#[doc(hidden)]
pub mod __private;

pub use actor::{Actor, ActorId, Context, State};
pub use mainstay_core::{
    Backoff, ClusterId, Epoch, Error, ErrorKind, Level, NodeId, OrError, PartitionId, ReplicaId, Result,
    SequenceNumber, SetId,
};
pub use mainstay_core::{contract, format, id, key, partitioning};
pub use mainstay_macros::interface;
pub use node::Node;
pub use service::{PartitionKey, Proxy, Service, ServiceContext};
pub use worker::{Worker, WorkerContext};
