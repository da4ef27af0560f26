//! The composition root: a [`Node`] is one process with one data folder, and this is where its parts are put together.
//!
//! The start of a node: [`NodeBuilder::start`] opens the data folder ([`mainstay_replica::Host`]) → waits until the
//! partition with the [registry](Registry) has its primary → looks up or records each service's partitions → starts to
//! serve them ([`mainstay_runtime::Directory`]). Only here do the runtime and the replicas meet.

mod builder;
mod node;
mod registry;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use builder::{DATA_DIR_DEFAULT, NodeBuilder};
pub use node::Node;
pub use registry::{FIRST_PARTITION, REGISTRY_PARTITION, Registry};
