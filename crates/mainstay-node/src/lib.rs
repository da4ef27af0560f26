//! The composition root: a [`Node`] is one process with one data folder, and this is where its parts are put together.
//!
//! The start of a node: [`NodeBuilder::start`] finds out what is set, and where ([`settings`]) → opens the data folder ([`mainstay_replica::UniformSets`]) → waits until the
//! partition with the [registry](Registry) has its primary → looks up or records each service's partitions → starts to
//! serve them ([`mainstay_runtime::Directory`]). Only here do the runtime and the replicas meet.

mod admin;
mod builder;
mod driver;
mod farewell;
mod node;
mod recorded;
mod registry;
pub mod settings;
mod signal;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use builder::NodeBuilder;
pub use farewell::SHUTDOWN_HOOK_TIMEOUT;
pub use mainstay_replica::Health;
pub use node::Node;
pub use recorded::recorded_services;
pub use registry::{FIRST_PARTITION, REGISTRY_PARTITION, RecordedService, Registry};
pub use settings::{DATA_DIR_DEFAULT, Settings};
