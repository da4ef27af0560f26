//! A process that takes part in the system.

pub use mainstay_node::settings;
pub use mainstay_node::{
    DATA_DIR_DEFAULT, FAREWELL_TIME_MAX, Health, Node, NodeBuilder, RecordedService, Settings, recorded_services,
};
pub use mainstay_runtime::{ActorSettings, ReminderSettings};
