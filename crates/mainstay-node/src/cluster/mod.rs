//! The part of a node in a cluster.

mod options;

pub use options::ClusterOptions;
