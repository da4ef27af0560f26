//! The part of a node in its cluster: joining it, serving the partitions whose replicas are here, and the calls between nodes.
//!
//! A node alone is a cluster of one: it takes the same path, and listens to nobody.

mod options;
mod view;

mod member;

mod calls;
mod serve;
mod served_sets;

mod legacy;
mod recorded_service;
mod security;

mod kinds;

#[cfg(test)]
mod tests;

pub use options::ClusterOptions;
pub use view::{ClusterView, NodeView, SetView};

pub(crate) use member::Member;
pub(crate) use recorded_service::check_recorded;
pub(crate) use served_sets::keep_learning;
