//! Nodes, and what can be set of them.

pub use mainstay_node::{
    CLUSTER_ADDRESS_DEFAULT, ClusterOptions, ClusterSettings, ClusterView, DATA_DIR_DEFAULT, Health, Node, NodeBuilder,
    NodeView, Profile, RecordedService, SHUTDOWN_HOOK_TIMEOUT, SetView, Settings, TlsMode, recorded_services,
};
pub use mainstay_node::{setting, settings};
pub use mainstay_runtime::{ActorSettings, ReminderSettings};
