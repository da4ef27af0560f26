//! Which nodes hold which replica sets: a function of what there is, without an effect.
//!
//! [`place`] takes the nodes, the target and where replicas are wanted now, and says where they are to be. It never
//! puts two replicas of a set on one node, spreads them over fault domains where that is possible, balances each level within
//! one replica per node, and moves as few as it can. The same input gives the same answer, and its own answer is one that it
//! leaves as it is.

mod domain;
mod levelling;
mod size;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use mainstay_core::{Level, NodeId, SetId};

use levelling::{Levelling, elect};
use size::{CONTROL_VOTERS_MAX, voters_of};

/// A node that replicas can be on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What fails together with it: `region/zone/rack`.
    pub fault_domain: String,
    /// False if no replica may be put there and those that are there are to leave.
    pub is_accepting: bool,
}

/// Where the replicas of a set are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placed {
    /// The nodes of those that vote.
    pub voters: BTreeSet<NodeId>,
    /// The nodes of those that only learn.
    pub learners: BTreeSet<NodeId>,
}

/// A set, as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    /// Where its replicas are wanted now.
    pub placed: Placed,
    /// False while its members are still being changed to what is wanted: it stays as it is then, except for nodes that accept
    /// nothing.
    pub is_settled: bool,
}

impl Placed {
    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.voters.iter().chain(&self.learners).copied()
    }

    /// True if a replica is there.
    pub fn contains(&self, node: NodeId) -> bool {
        self.voters.contains(&node) || self.learners.contains(&node)
    }
}

/// Where the replicas of the sets of services are to be.
///
/// A set has as many replicas as the target says, or as there are nodes. Of these an odd number votes, so that a set grows from
/// one to three voters in one step and never has two; the others learn. The number of voters goes down with the target alone: nodes that
/// are gone still count.
pub fn place(
    nodes: &BTreeMap<NodeId, Candidate>,
    target: u32,
    sets: &BTreeMap<SetId, Current>,
) -> BTreeMap<SetId, Placed> {
    let mut placed = BTreeMap::new();
    for level in [Level::Persisted, Level::Volatile, Level::None] {
        let of_level = sets.iter().filter(|(set, _)| set.level == level).map(|(set, current)| (*set, current));
        placed.extend(Levelling::new(nodes, target, of_level).place());
    }
    placed
}

/// Where the replicas of the control set are to be: one voter, three from three nodes on and five from five; every other node
/// learns. Nodes that accept nothing leave it.
pub fn place_control(nodes: &BTreeMap<NodeId, Candidate>, control: &Placed) -> Placed {
    let accepting = nodes.iter().filter(|(_, candidate)| candidate.is_accepting);
    let members: BTreeSet<NodeId> = accepting.map(|(node, _)| *node).collect();
    if members.is_empty() {
        return control.clone();
    }
    elect(nodes, &members, control, voters_of(members.len(), CONTROL_VOTERS_MAX))
}
