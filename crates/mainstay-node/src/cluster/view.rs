use mainstay_cluster::ClusterNode;
use mainstay_cluster::control::CONTROL_SET;
use mainstay_cluster::control::record::{NodeState, PEER_ADDRESS};
use mainstay_core::{ClusterId, Epoch, NodeId, SetId};

/// A cluster as one of its nodes sees it, which may lag behind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterView {
    /// The cluster; `None` before this node has heard of it.
    pub id: Option<ClusterId>,
    /// The node that sees it so.
    pub node: NodeId,
    /// All nodes that take part, by their ids.
    pub nodes: Vec<NodeView>,
    /// All replica sets, by their ids. The control set is not among them.
    pub sets: Vec<SetView>,
}

/// A node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeView {
    /// Its id.
    pub id: NodeId,
    /// Where others reach it.
    pub address: Option<String>,
    /// What fails together with it.
    pub fault_domain: String,
}

/// A replica set of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetView {
    /// Which set it is.
    pub id: SetId,
    /// The nodes with a replica that votes.
    pub voters: Vec<NodeId>,
    /// The node of the primary, where it is known.
    pub primary: Option<NodeId>,
    /// The newest epoch that is known.
    pub epoch: Option<Epoch>,
    /// The members are those that the set is to have.
    pub is_settled: bool,
}

impl ClusterView {
    pub(crate) fn of(cluster: &ClusterNode) -> Self {
        let state = cluster.control().get();
        let nodes = state.nodes.values().filter(|node| node.state == NodeState::Up).map(|node| NodeView {
            id: node.id,
            address: node.addresses.get(PEER_ADDRESS).cloned(),
            fault_domain: node.fault_domain.clone(),
        });
        let sets = state.sets.values().filter(|set| set.id != CONTROL_SET).map(|set| {
            let route = cluster.routes().route(set.id);
            SetView {
                id: set.id,
                voters: set.confirmed.voters.values().copied().collect(),
                primary: route.node,
                epoch: route.epoch,
                is_settled: set.wanted == set.confirmed,
            }
        });
        let id = state.cluster.as_ref().map(|cluster| cluster.id);
        Self { id, node: cluster.node(), nodes: nodes.collect(), sets: sets.collect() }
    }

    /// Does every set have the members that it is to have, as many as there is room for?
    pub fn is_settled(&self) -> bool {
        self.id.is_some() && self.sets.iter().all(|set| set.is_settled)
    }
}
