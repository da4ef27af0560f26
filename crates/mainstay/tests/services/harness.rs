//! Nodes on a simulated disk, in virtual time.

use std::sync::Arc;

use mainstay::node::NodeBuilder;
use mainstay::partition::{Driver, SimDisk, SyncDelay};
use mainstay::prelude::*;

/// A node to be started on a disk.
pub(crate) fn on(disk: &SimDisk) -> NodeBuilder {
    Node::builder().isolated().data_dir("/data").disk(Arc::new(disk.clone())).host_options(|options| {
        options.log.segment_bytes = 256 << 10;
        options.log.driver = Driver::Task { sync_delay: SyncDelay::default() };
        options.store.cache_bytes_max = 8 << 20;
    })
}
