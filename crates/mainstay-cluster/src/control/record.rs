//! The records of the control set. `docs/internals/control.md` has their bytes.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_core::partitioning::Partitioning;
use mainstay_core::time::WallTime;
use mainstay_core::{ClusterId, Epoch, Level, NodeId, PartitionId, ReplicaId, SetId};
use serde::{Deserialize, Serialize};

/// The cluster as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// Its id.
    pub id: ClusterId,
    /// The rhythm of heartbeats and elections, by which all nodes live.
    pub profile: TimingProfile,
    /// The version of formats that all writers write.
    pub active_version: u32,
    /// How many replicas a set has, where there are as many nodes.
    pub replicas_target: u32,
    /// With fewer replicas alive a set takes no writes.
    pub replicas_min: u32,
    /// How many replica sets each level has.
    pub sets_per_level: u16,
    /// The next node that joins gets this id.
    pub next_node: u64,
    /// The next replica gets this id.
    pub next_replica: u64,
    /// The next partition of a service gets this id.
    pub next_partition: u64,
    /// The next operation gets this id.
    pub next_operation: u64,
}

/// A rhythm of heartbeats and elections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimingProfile {
    /// For one data centre: a failover below two seconds.
    #[default]
    Default,
    /// A failover below half a second, for more processor time.
    Fast,
    /// For nodes that are far apart.
    Wan,
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its id.
    pub id: NodeId,
    /// What it may do.
    pub state: NodeState,
    /// Which start of its folder was seen last; 0 before the first.
    pub boot: u64,
    /// The number that this start has drawn. A second process with the same boot counter has a copy of the folder.
    pub session: u128,
    /// Where it is reached, by the name of what listens there: [`PEER_ADDRESS`] for other nodes.
    pub addresses: BTreeMap<String, String>,
    /// What fails together with it, from the largest to the smallest: `region/zone/rack`.
    pub fault_domain: String,
    /// The version of its program.
    pub program: String,
    /// The oldest version of formats that it reads.
    pub version_min: u32,
    /// The newest version of formats that it reads.
    pub version_max: u32,
    /// The services that it has types for.
    pub types: BTreeSet<String>,
    /// The id of its replica of the control set.
    pub control_replica: ReplicaId,
    /// The request by which it joined: asked again, it gets the same answer.
    pub join_request: u128,
}

/// The name of the address at which a node listens for other nodes.
pub const PEER_ADDRESS: &str = "peer";

/// What a node may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It was given an id and has not started with it yet. It holds nothing.
    Joining,
    /// It takes part.
    Up,
    /// It is refused, for good.
    Removed,
}

/// The replicas of a set, with their nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemberList {
    /// Those that vote.
    #[serde(default)]
    pub voters: BTreeMap<ReplicaId, NodeId>,
    /// Those that only learn.
    #[serde(default)]
    pub learners: BTreeMap<ReplicaId, NodeId>,
}

/// A replica set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRecord {
    /// Which set it is.
    pub id: SetId,
    /// How often its state was given up as lost. It is the upper part of the set's epochs.
    pub data_loss: u32,
    /// The members that it is to have.
    pub wanted: MemberList,
    /// The members that its primary has last said it has. Empty until the set exists.
    pub confirmed: MemberList,
    /// The epoch of the primary that has said so.
    pub confirmed_epoch: Epoch,
    /// The replica that founds the set, and no other does.
    pub founder: ReplicaId,
    /// Replicas of a volatile set whose memory is gone, because their node has started again, and that may still count as members.
    #[serde(default)]
    pub lost: BTreeSet<ReplicaId>,
    /// Replicas that are no members any more and whose ids are not from the counter, so that the counter does not tell.
    #[serde(default)]
    pub retired: BTreeSet<ReplicaId>,
}

/// A service, and which partitions it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceRecord {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ServiceKind,
    /// How its state is kept.
    pub level: Level,
    /// How it is cut.
    pub partitioning: Partitioning,
    /// Its partitions in the order of the partitioning, each with the set that holds it.
    pub partitions: Vec<PlacedPartition>,
    /// The names of its interfaces.
    pub interfaces: BTreeSet<String>,
    /// How long a call of it may take unless its caller says otherwise, in milliseconds.
    pub call_timeout_ms: Option<u64>,
}

/// What a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceKind {
    /// Actors of one type.
    Actors,
    /// One object per partition.
    Service,
    /// A pool without state.
    Workers,
    /// Not recorded: of a folder from before there was a control set. The first program that registers the service says what it is.
    Unknown,
}

/// A partition, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedPartition {
    /// The partition.
    pub id: PartitionId,
    /// The set that holds it. On level none, the set of the same number on level persisted says which node has it.
    pub set: SetId,
}

/// Something that takes several commits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationRecord {
    /// Its id.
    pub id: u64,
    /// What is done.
    pub what: Operation,
    /// When it began.
    pub since: WallTime,
}

/// What takes several commits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A node is taken out: its replicas move elsewhere, and then it is removed.
    RemoveNode {
        /// The node.
        node: NodeId,
    },
}

/// A switch that the whole cluster turns at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateRecord {
    /// Its name.
    pub name: String,
    /// Is it open?
    pub is_open: bool,
}

/// A token by which one node may join. The secret itself is not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// The SHA-256 of its secret.
    pub hash: [u8; 32],
    /// Until when it is good.
    pub expires: WallTime,
    /// The request that has used it.
    pub used_by: Option<u128>,
}

impl MemberList {
    /// One voter and no other member.
    pub fn alone(replica: ReplicaId, node: NodeId) -> Self {
        Self { voters: BTreeMap::from([(replica, node)]), learners: BTreeMap::new() }
    }

    /// All members, those that vote first.
    pub fn all(&self) -> impl Iterator<Item = (ReplicaId, NodeId)> + '_ {
        self.voters.iter().chain(&self.learners).map(|(replica, node)| (*replica, *node))
    }

    /// True if the replica is among them.
    pub fn contains(&self, replica: ReplicaId) -> bool {
        self.voters.contains_key(&replica) || self.learners.contains_key(&replica)
    }

    /// The replica on a node.
    pub fn on(&self, node: NodeId) -> Option<ReplicaId> {
        self.all().find(|(_, at)| *at == node).map(|(replica, _)| replica)
    }

    /// True without members.
    pub fn is_empty(&self) -> bool {
        self.voters.is_empty() && self.learners.is_empty()
    }
}
