//! What nodes, operators and joining processes ask of the controller. `docs/internals/control.md` has the bytes.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_core::partitioning::Partitioning;
use mainstay_core::time::WallTime;
use mainstay_core::{ClusterId, Epoch, Level, NodeId, PartitionId, ReplicaId, SetId};
use serde::{Deserialize, Serialize};

use crate::control::record::{MemberList, ServiceKind, ServiceRecord, TimingProfile};

/// A request to the controller. Each can be sent again without harm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlRequest {
    /// A process wants to become a node.
    Join(JoinRequest),
    /// A node has started.
    Announce(Announcement),
    /// A node has types for these services.
    Register(Vec<ServiceRegistration>),
    /// The primary of a set says which members it has.
    Confirm(Confirmation),
    /// Sets are to have so many replicas.
    SetReplicas {
        /// So many are placed.
        target: u32,
        /// With fewer alive a set takes no writes.
        min: u32,
    },
    /// A node is to be taken out.
    RemoveNode {
        /// The node.
        node: NodeId,
        /// True if it will not come back: it is refused from now on, and its replicas are replaced afterwards.
        is_gone: bool,
    },
    /// A token by which one node may join.
    CreateToken {
        /// The SHA-256 of its secret.
        hash: [u8; 32],
        /// Until when it is good.
        expires: WallTime,
    },
    /// A switch is to be turned.
    SetGate {
        /// Its name.
        name: String,
        /// Is it to be open?
        is_open: bool,
    },
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDescription {
    /// Where it is reached, by the name of what listens there.
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
}

/// A process wants to become a node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// Drawn once and kept in the folder: asked again, the answer is the same.
    pub request: u128,
    /// What the node will be.
    pub description: NodeDescription,
    /// The secret of a join token.
    pub secret: Option<[u8; 32]>,
    /// The key that a certificate is wanted for.
    pub public_key: Option<Vec<u8>>,
    /// The node that the certificate of the process names, where it has one. Whoever it connects to sets this, not the process itself.
    pub certified: Option<NodeId>,
}

/// The secret is not shown.
impl std::fmt::Debug for JoinRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinRequest")
            .field("request", &self.request)
            .field("description", &self.description)
            .field("certified", &self.certified)
            .finish_non_exhaustive()
    }
}

/// A node has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// The node.
    pub node: NodeId,
    /// Which start of its folder this is.
    pub boot: u64,
    /// The number that this start has drawn.
    pub session: u128,
    /// What it says of itself.
    pub description: NodeDescription,
}

/// A node has a type for a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceRegistration {
    /// The name of the service.
    pub name: String,
    /// What it is.
    pub kind: ServiceKind,
    /// How its state is kept.
    pub level: Level,
    /// How it is cut.
    pub partitioning: Partitioning,
    /// The names of its interfaces.
    pub interfaces: BTreeSet<String>,
    /// How long a call of it may take unless its caller says otherwise, in milliseconds.
    pub call_timeout_ms: Option<u64>,
    /// The partitions that it has already, in a folder from before the control set. `None` gives it new ones.
    pub partitions: Option<Vec<PartitionId>>,
}

/// The primary of a set says which members it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// The set.
    pub set: SetId,
    /// The replica that is primary.
    pub replica: ReplicaId,
    /// Its epoch.
    pub epoch: Epoch,
    /// The members.
    pub members: MemberList,
}

/// What the controller answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlAnswer {
    /// The process is a node now.
    Joined(JoinAnswer),
    /// The services as they are recorded, in the order of the request.
    Registered(Vec<ServiceRecord>),
    /// It was done, or had been.
    Done,
}

/// What a process needs to be a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinAnswer {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node that it is.
    pub node: NodeId,
    /// Its replica of the control set.
    pub control_replica: ReplicaId,
    /// Where other nodes are.
    pub peers: BTreeMap<NodeId, String>,
    /// The rhythm of heartbeats and elections, by which all nodes live.
    #[serde(default)]
    pub profile: TimingProfile,
    /// The certificate that was asked for.
    pub certificate: Option<NodeCertificate>,
}

/// A certificate with all that leads up to it, in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCertificate {
    /// The certificate of the node, and that of the authority.
    pub chain_pem: String,
    /// The certificate of the authority.
    pub authority_pem: String,
}

#[cfg(test)]
mod tests;
