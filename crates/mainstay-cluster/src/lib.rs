//! Many nodes, one system: what the cluster knows of itself, where replicas are, and how nodes find each other.

pub mod control;
pub mod placement;

mod formats;
