//! How a node of this application becomes one of a cluster. All of it is here, so that one file changes with the API.

use std::net::SocketAddr;

use mainstay::node::NodeBuilder;
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
/// `Invalid` for a build that has no clusters.
pub fn join(node: NodeBuilder, membership: &Membership) -> Result<NodeBuilder> {
    let Membership { listen, seeds } = membership;
    match listen {
        None if seeds.is_empty() => Ok(node),
        _ => Err(Error::invalid(
            "this build has no clusters: start one node, without an address to listen on and without seeds",
        )),
    }
}
