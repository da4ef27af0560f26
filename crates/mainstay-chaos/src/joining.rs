//! How a node of this application becomes one of a cluster. All of it is here, so that one file changes with the API.

use std::net::SocketAddr;

use mainstay::node::{ClusterOptions, NodeBuilder};
use mainstay::prelude::*;

/// Where a node is in the network.
#[derive(Debug, Clone, Default)]
pub struct Membership {
    /// Where it listens for other nodes; none for a node alone.
    pub listen: Option<SocketAddr>,
    /// Nodes to join, hosts with ports; none for the first one.
    pub seeds: Vec<String>,
}

/// Has a node take part in a cluster, if it is to.
///
/// # Errors
/// `Invalid` for seeds without an address to listen on.
pub fn join(node: NodeBuilder, membership: &Membership) -> Result<NodeBuilder> {
    let Membership { listen, seeds } = membership;
    match listen {
        Some(listen) => Ok(node.cluster(ClusterOptions::from_settings().listen(*listen).seeds(seeds.iter().cloned()))),
        None if seeds.is_empty() => Ok(node),
        None => Err(Error::invalid("a node that joins others listens for them, too: give --listen")),
    }
}
