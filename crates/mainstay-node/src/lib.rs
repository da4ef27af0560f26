//! The composition root: a [`Node`] is one process with one data folder, and this is where its parts are put together.
//!
//! The start of a node: [`NodeBuilder::start`] finds out what is set, and where ([`settings`]) → opens the data folder ([`mainstay_replica::UniformSets`]) → waits until the
//! partition with the [registry](Registry) has its primary → looks up or records each service's partitions → starts to
//! serve them ([`mainstay_runtime::Directory`]). Only here do the runtime and the replicas meet.

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
