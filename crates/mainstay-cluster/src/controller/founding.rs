use mainstay_core::{ClusterId, NodeId, ReplicaId, Result, SetId};

use crate::control::record::{ClusterRecord, MemberList, NodeRecord, NodeState, SetRecord, TimingProfile};
use crate::control::{CONTROL_SET, ControlState, FIRST_PARTITION};
use crate::message::{NodeDescription, ServiceRegistration};

use super::register::register;

/// The only version of the active formats that there is.
const ACTIVE_VERSION: u32 = 1;

/// The replica of the control set that founds it: the first id that is ever given.
pub(crate) const FOUNDING_REPLICA: ReplicaId = ReplicaId(1);

/// The node that a cluster begins with, unless its folder has another id already.
pub(crate) const FOUNDING_NODE: NodeId = NodeId(1);

/// What a cluster is to be when it begins.
#[derive(Debug, Clone)]
pub struct Founding {
    /// The rhythm of heartbeats and elections.
    pub profile: TimingProfile,
    /// How many replicas a set has, where there are as many nodes.
    pub replicas_target: u32,
    /// With fewer replicas alive a set takes no writes.
    pub replicas_min: u32,
    /// How many replica sets each level has.
    pub sets_per_level: u16,
    /// The services of a folder from before the control set, with the partitions that they have.
    pub services: Vec<ServiceRegistration>,
}

impl Default for Founding {
    /// As the documents' manifest has it: three replicas, of which two are alive.
    fn default() -> Self {
        Self {
            profile: TimingProfile::Default,
            replicas_target: 3,
            replicas_min: 2,
            sets_per_level: mainstay_replica::SETS_PER_LEVEL,
            services: Vec::new(),
        }
    }
}

/// The first control state: a cluster of one node, with the replicas that its folder holds already.
pub(crate) fn found(
    founding: &Founding,
    (cluster, node): (ClusterId, NodeId),
    description: &NodeDescription,
    held: impl Iterator<Item = (SetId, ReplicaId)>,
) -> Result<ControlState> {
    let mut state = ControlState {
        cluster: Some(ClusterRecord {
            id: cluster,
            profile: founding.profile,
            active_version: ACTIVE_VERSION,
            replicas_target: founding.replicas_target,
            replicas_min: founding.replicas_min,
            sets_per_level: founding.sets_per_level,
            next_node: node.0.saturating_add(1),
            next_replica: FOUNDING_REPLICA.0 + 1,
            next_partition: FIRST_PARTITION.0,
            next_operation: 1,
        }),
        ..ControlState::default()
    };
    let record = described(node, NodeState::Up, FOUNDING_REPLICA, description);
    state.nodes.insert(node, record);
    for (id, replica) in held.chain([(CONTROL_SET, FOUNDING_REPLICA)]) {
        let members = MemberList::alone(replica, node);
        state.sets.insert(id, SetRecord { confirmed: members.clone(), ..new_set(id, members, replica) });
    }
    register(&mut state, &founding.services)?;
    Ok(state)
}

/// A set that does not exist yet.
pub(super) fn new_set(id: SetId, wanted: MemberList, founder: ReplicaId) -> SetRecord {
    SetRecord {
        id,
        data_loss: 0,
        wanted,
        confirmed: MemberList::default(),
        confirmed_epoch: mainstay_core::Epoch(0),
        founder,
        lost: std::collections::BTreeSet::new(),
        retired: std::collections::BTreeSet::new(),
    }
}

/// The record of a node that has not started yet.
pub(super) fn described(
    id: NodeId,
    state: NodeState,
    control_replica: ReplicaId,
    description: &NodeDescription,
) -> NodeRecord {
    let NodeDescription { addresses, fault_domain, program, version_min, version_max, types } = description.clone();
    NodeRecord {
        id,
        state,
        boot: 0,
        session: 0,
        addresses,
        fault_domain,
        program,
        version_min,
        version_max,
        types,
        control_replica,
        join_request: 0,
    }
}
