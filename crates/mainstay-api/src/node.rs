//! Nodes, and what can be set of them.

pub use mainstay_node::{
    DATA_DIR_DEFAULT, Health, Node, NodeBuilder, RecordedService, SHUTDOWN_HOOK_TIMEOUT, Settings, recorded_services,
};
pub use mainstay_node::{setting, settings};
pub use mainstay_runtime::{ActorSettings, ReminderSettings};
