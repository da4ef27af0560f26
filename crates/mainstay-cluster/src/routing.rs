use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_core::{Epoch, NodeId, SetId};
use mainstay_replica::Role;
use parking_lot::Mutex;

use crate::control::{ControlWatch, replicated};
use crate::node_sets::NodeSets;

/// Where to send what is for the primary of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetRoute {
    /// The node to ask; `None` if no node of the set is known.
    pub node: Option<NodeId>,
    /// The newest epoch of the set that is known here.
    pub epoch: Option<Epoch>,
}

/// Which node is the primary of each set, as far as this node knows. Clones are the same table.
///
/// It knows by this node's own replicas, by what callers were told elsewhere, and else by the members that the control state has,
/// one after the other. It never asks the primary of the control set, so that calls find their way while that is down.
#[derive(Debug, Clone)]
pub struct RoutingTable {
    node: NodeId,
    sets: Arc<dyn NodeSets>,
    control: ControlWatch,
    learned: Arc<Mutex<BTreeMap<SetId, Learned>>>,
}

/// What callers have learned of a set.
#[derive(Debug, Clone, Copy, Default)]
struct Learned {
    primary: Option<NodeId>,
    epoch: Epoch,
    /// How many members were tried in vain since the primary was last known.
    tried: usize,
}

impl RoutingTable {
    pub(crate) fn new(node: NodeId, sets: Arc<dyn NodeSets>, control: ControlWatch) -> Self {
        Self { node, sets, control, learned: Arc::default() }
    }

    /// Where to send what is for a set now. A set of level none is where the persisted set of its number is.
    pub fn route(&self, set: SetId) -> SetRoute {
        let set = replicated(set);
        let own = self.sets.roles(set).map(|roles| *roles.borrow());
        let learned = self.learned.lock().get(&set).copied().unwrap_or_default();
        let own_epoch = own.map_or(Epoch::default(), |own| own.epoch);
        let newest = learned.epoch.max(own_epoch);
        let epoch = (newest > Epoch::default()).then_some(newest);
        if let Some(own) = own {
            if own.role == Role::Primary {
                return SetRoute { node: Some(self.node), epoch };
            }
            // Of two that are known, the one of the later epoch; what was learned of the same one is later.
            if own.primary.is_some() && (own_epoch > learned.epoch || learned.primary.is_none() && learned.tried == 0) {
                return SetRoute { node: own.primary, epoch };
            }
        }
        let node = learned.primary.or_else(|| {
            let members = self.control.get().members(set);
            let place = learned.tried.checked_rem(members.len())?;
            members.get(place).copied()
        });
        SetRoute { node, epoch }
    }

    /// A node has answered that it is not the primary, and which one is, where it knows.
    pub fn redirected(&self, set: SetId, from: NodeId, hint: Option<NodeId>) {
        self.learn(set, |learned| match hint.filter(|hint| *hint != from) {
            Some(hint) => learned.primary = Some(hint),
            None => learned.give_up(from),
        });
    }

    /// A node has answered as the primary of an epoch.
    pub fn confirmed(&self, set: SetId, primary: NodeId, epoch: Epoch) {
        self.learn(set, |learned| {
            if epoch >= learned.epoch {
                *learned = Learned { primary: Some(primary), epoch, tried: 0 };
            }
        });
    }

    /// A node could not be reached.
    pub fn unreachable(&self, set: SetId, node: NodeId) {
        self.learn(set, |learned| learned.give_up(node));
    }

    /// Nothing is kept of a set that is not known, so that the table is no larger than the control state.
    fn learn(&self, set: SetId, lesson: impl FnOnce(&mut Learned)) {
        let set = replicated(set);
        if self.control.get().sets.contains_key(&set) {
            lesson(self.learned.lock().entry(set).or_default());
        }
    }
}

impl Learned {
    fn give_up(&mut self, node: NodeId) {
        if self.primary.is_none_or(|primary| primary == node) {
            self.primary = None;
            self.tried = self.tried.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests;
