use std::collections::BTreeSet;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use mainstay_core::{NodeId, PartitionId, ReplicaId, Result, SetId};
use mainstay_replica::{Partition, RoleState};
use tokio::sync::watch;

use crate::control::record::MemberList;

/// Work on a replica that takes time.
pub type Working<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A replica of this node, as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldReplica {
    /// The set that it is a copy of.
    pub set: SetId,
    /// Its id.
    pub replica: ReplicaId,
    /// What it may do.
    pub role_state: RoleState,
    /// The members that the set has, as far as this replica knows: while they are being changed, those before and after.
    pub members: MemberList,
}

/// The replicas of this node, which come and go: what the node agent works with.
///
/// To be correct:
/// - A persisted replica is recorded before it starts, and starts again with the node. An id that was dropped is never used again here.
/// - Creating what is there, dropping what is not, and founding a set that exists do nothing.
/// - A future that is dropped leaves nothing half done that the next call does not finish.
pub trait NodeSets: Debug + Send + Sync + 'static {
    /// All replicas that there are.
    fn held(&self) -> Vec<HeldReplica>;

    /// Follows the role of the replica of a set; `None` if there is none.
    fn roles(&self, set: SetId) -> Option<watch::Receiver<RoleState>>;

    /// Creates a replica, of a set with this data-loss number. It has nothing until a set is founded with it or its primary takes it in.
    fn create<'a>(&'a self, set: SetId, replica: ReplicaId, data_loss: u32) -> Working<'a, Result<()>>;

    /// Drops a replica with all that it holds.
    fn drop_replica<'a>(&'a self, set: SetId, replica: ReplicaId) -> Working<'a, Result<()>>;

    /// Founds a set with the replica of this node as its only member.
    fn found<'a>(&'a self, set: SetId) -> Working<'a, Result<()>>;

    /// Changes the members of a set whose primary is here to exactly these.
    fn set_members<'a>(&'a self, set: SetId, members: &'a MemberList) -> Working<'a, Result<()>>;

    /// Says which nodes may send to the replica of a set, beside the members that it knows.
    fn expect(&self, set: SetId, nodes: BTreeSet<NodeId>);

    /// A partition of a set that has a replica here.
    ///
    /// # Errors
    /// `NotFound` if it has none.
    fn partition(&self, set: SetId, partition: PartitionId) -> Result<Partition>;

    /// Answers a request of another node.
    fn receive(&self, from: NodeId, set: SetId, request: Bytes) -> Working<'static, Bytes>;
}
