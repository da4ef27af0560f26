//! The replicas of a node, as `mainstay-replica` has them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use mainstay_core::{Error, ErrorKind, NodeId, PartitionId, ReplicaId, Result, SetId};
use mainstay_replica::{Members, NodeReplicas, Partition, Replica, ReplicaSpec, RoleState, Status};
use tokio::sync::watch;

use crate::control::record::MemberList;
use crate::node_sets::{HeldReplica, NodeSets, Working};

impl NodeSets for NodeReplicas {
    fn held(&self) -> Vec<HeldReplica> {
        let held = |replica: &Replica| {
            let Status { identity, role_state, voters, learners, .. } = replica.status();
            let members = MemberList { voters, learners };
            HeldReplica { set: identity.set, replica: identity.replica, role_state, members }
        };
        self.replicas().iter().map(held).collect()
    }

    fn roles(&self, set: SetId) -> Option<watch::Receiver<RoleState>> {
        self.replica(set).map(|replica| replica.watch())
    }

    fn create<'a>(&'a self, set: SetId, replica: ReplicaId, data_loss: u32) -> Working<'a, Result<()>> {
        Box::pin(async move { self.create_replica(ReplicaSpec { set, replica, data_loss }).await.map(drop) })
    }

    fn drop_replica<'a>(&'a self, set: SetId, replica: ReplicaId) -> Working<'a, Result<()>> {
        Box::pin(NodeReplicas::drop_replica(self, set, replica))
    }

    fn found<'a>(&'a self, set: SetId) -> Working<'a, Result<()>> {
        Box::pin(async move {
            let replica = here(self, set)?;
            replica.bootstrap(&BTreeMap::from([(replica.identity().replica, self.node())])).await
        })
    }

    fn set_members<'a>(&'a self, set: SetId, members: &'a MemberList) -> Working<'a, Result<()>> {
        Box::pin(async move {
            let MemberList { voters, learners } = members.clone();
            here(self, set)?.set_members(&Members { voters, learners }).await
        })
    }

    fn expect(&self, set: SetId, nodes: BTreeSet<NodeId>) {
        if let Some(replica) = self.replica(set) {
            replica.expect_members(nodes);
        }
    }

    fn partition(&self, set: SetId, partition: PartitionId) -> Result<Partition> {
        NodeReplicas::partition(self, set, partition)
    }

    fn receive(&self, from: NodeId, set: SetId, request: Bytes) -> Working<'static, Bytes> {
        let this = self.clone();
        Box::pin(async move { NodeReplicas::receive(&this, from, set, request).await })
    }
}

fn here(replicas: &NodeReplicas, set: SetId) -> Result<Replica> {
    let missing = || Error::new(ErrorKind::NotFound, format!("node {} has no replica of set {set}", replicas.node()));
    replicas.replica(set).ok_or_else(missing)
}
