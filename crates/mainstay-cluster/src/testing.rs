//! Records for unit tests.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_core::{NodeId, ReplicaId};

use crate::control::record::{NodeRecord, NodeState, PEER_ADDRESS};

/// A node that is up.
pub(crate) fn node_record(id: u64, boot: u64) -> NodeRecord {
    NodeRecord {
        id: NodeId(id),
        state: NodeState::Up,
        boot,
        session: 1000 + u128::from(boot),
        addresses: BTreeMap::from([(PEER_ADDRESS.to_owned(), format!("n{id}:7400"))]),
        fault_domain: String::new(),
        program: "0.1.0".to_owned(),
        version_min: 1,
        version_max: 1,
        types: BTreeSet::new(),
        control_replica: ReplicaId(id),
        join_request: u128::from(id),
    }
}
