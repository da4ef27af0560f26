//! The composition root: a [`Node`] is one process with one data folder, and this is where its parts are put together.
//!
//! The start of a node: [`NodeBuilder::start`] finds out what is set, and where ([`settings`]) → opens the data folder and puts the node
//! on the network, as the first node of a cluster, as one that joins or as the one that it was ([`mainstay_cluster::ClusterNode`]) → has its
//! services recorded in the control set → serves the partitions whose replicas are here ([`mainstay_runtime::Directory`]). Only here do
//! the runtime and the cluster meet.

mod admin;
mod builder;
mod cluster;
mod driver;
mod node;
mod recorded;
mod registry;
pub mod settings;
mod shutdown_hooks;
mod signal;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use builder::NodeBuilder;
pub use cluster::{ClusterOptions, ClusterView, NodeView, SetView};
pub use mainstay_replica::Health;
pub use node::Node;
pub use recorded::recorded_services;
pub use registry::RecordedService;
pub use settings::{CLUSTER_ADDRESS_DEFAULT, ClusterSettings, DATA_DIR_DEFAULT, Profile, Settings, TlsMode};
pub use shutdown_hooks::SHUTDOWN_HOOK_TIMEOUT;
