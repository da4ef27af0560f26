//! Many nodes, one system: what the cluster knows of itself, where replicas are, and how nodes find each other.
//!
//! The way of a node: [`Membership::find`] says whose its folder is, by asking the cluster if it is empty. The caller opens the
//! folder's replicas with a [`WireTransport`]. [`ClusterNode::start`] puts the node on the network: it follows the
//! [control set](control), announces itself, and from then on its `NodeAgent` keeps its replicas as the control state wants them. On
//! the primary of the control set the `Controller` decides: it takes nodes in, registers services, and [places](placement)
//! replicas. A [`RoutingTable`] says where the primary of a set is, without asking the controller.
//!
//! This room knows nothing of actors. It alone speaks to peers; replicas are reached through [`NodeSets`].

pub mod control;
pub mod message;
pub mod placement;

mod cluster_node;
mod membership;
mod options;

mod joining;
mod node_files;
mod peers_file;

mod agent;
mod control_client;
mod controller;
mod routing;

mod formats;
pub mod kinds;
mod node_sets;
mod policy;
mod replica_sets;
mod serve;
mod transport;

#[cfg(test)]
mod testing;

pub use cluster_node::{ClusterNode, NodeParts};
pub use control_client::ControlClient;
pub use controller::Founding;
pub use membership::Membership;
pub use node_sets::{HeldReplica, NodeSets, Working};
pub use options::ClusterOptions;
pub use policy::MembershipPolicy;
pub use routing::{RoutingTable, SetRoute};
pub use transport::WireTransport;
