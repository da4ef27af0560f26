use std::collections::{BTreeMap, BTreeSet};

use mainstay_core::{Level, NodeId, ReplicaId, Result, SetId};

use crate::control::record::{MemberList, NodeState, SetRecord};
use crate::control::{CONTROL_SET, ControlState};
use crate::placement::{Candidate, Current, Placed, place, place_control};

use super::founding::new_set;
use super::incarnation::begin_again;
use super::members::finish_removals;

/// Brings the wanted members in line with the nodes and the target. `lost` are volatile sets that have lost their quorum for good.
pub(super) fn reconcile(state: &mut ControlState, lost: &BTreeSet<SetId>) -> Result<()> {
    if state.cluster.is_none() {
        return Ok(());
    }
    for set in lost {
        begin_again(state, *set)?;
    }
    let nodes = candidates(state);
    let target = state.cluster()?.replicas_target;
    let current = data_sets(state)?;
    for (set, placed) in place(&nodes, target, &current) {
        // Without a node that takes replicas there is nothing to found.
        if !placed.voters.is_empty() {
            want(state, set, &placed)?;
        }
    }
    want_control(state, &nodes)?;
    finish_removals(state);
    Ok(())
}

fn candidates(state: &ControlState) -> BTreeMap<NodeId, Candidate> {
    let nodes = state.nodes.values().filter(|node| node.state != NodeState::Joining);
    let candidate = |node: &crate::control::record::NodeRecord| Candidate {
        fault_domain: node.fault_domain.clone(),
        is_accepting: node.state == NodeState::Up && !state.is_leaving(node.id),
    };
    nodes.map(|node| (node.id, candidate(node))).collect()
}

/// The sets of services that there are to be, as they stand: those of level persisted always, those of level volatile as soon as
/// a service needs them.
fn data_sets(state: &ControlState) -> Result<BTreeMap<SetId, Current>> {
    let is_volatile = state.services.values().any(|service| service.level == Level::Volatile);
    let levels = [Some(Level::Persisted), is_volatile.then_some(Level::Volatile)];
    let count = state.cluster()?.sets_per_level;
    let wanted = levels.into_iter().flatten().flat_map(|level| (0..count).map(move |number| SetId { level, number }));
    let known = state.sets.keys().copied().filter(|set| *set != CONTROL_SET);
    let sets: BTreeSet<SetId> = wanted.chain(known).collect();
    Ok(sets.into_iter().map(|set| (set, current(state.sets.get(&set)))).collect())
}

fn current(record: Option<&SetRecord>) -> Current {
    let Some(record) = record else { return Current { placed: Placed::default(), is_settled: true } };
    Current { placed: placed(&record.wanted), is_settled: record.confirmed == record.wanted }
}

fn placed(members: &MemberList) -> Placed {
    let nodes = |list: &BTreeMap<ReplicaId, NodeId>| list.values().copied().collect();
    Placed { voters: nodes(&members.voters), learners: nodes(&members.learners) }
}

/// Wants the replicas of a set to be there. A replica that is there keeps its id, another gets a new one.
fn want(state: &mut ControlState, set: SetId, wanted: &Placed) -> Result<()> {
    let before = state.sets.get(&set).cloned();
    if before.as_ref().is_some_and(|record| placed(&record.wanted) == *wanted) {
        return Ok(());
    }
    let known = |node: NodeId| {
        let record = before.as_ref()?;
        let lists = [&record.wanted, &record.confirmed];
        lists.into_iter().find_map(|list| list.on(node)).filter(|id| !record.lost.contains(id))
    };
    let mut members = MemberList::default();
    for (nodes, list) in [(&wanted.voters, &mut members.voters), (&wanted.learners, &mut members.learners)] {
        for node in nodes {
            let id = known(*node).map_or_else(|| state.new_replica(), Ok)?;
            list.insert(id, *node);
        }
    }
    let record = match before {
        Some(record) => SetRecord { wanted: members, ..record },
        None => {
            let founder = founder(state, set, &members);
            new_set(set, members, founder)
        }
    };
    state.sets.insert(set, record);
    Ok(())
}

/// The replica that founds a new set: on the node that founds the fewest of its level, so that primaries are spread.
fn founder(state: &ControlState, set: SetId, members: &MemberList) -> ReplicaId {
    let founded = |node: NodeId| {
        let of_level = state.sets.values().filter(|record| record.id.level == set.level && record.id != CONTROL_SET);
        of_level.filter(|record| record.wanted.on(node) == Some(record.founder)).count()
    };
    let best = members.voters.iter().min_by_key(|(_, node)| (founded(**node), **node));
    best.map(|(id, _)| *id).unwrap_or_default()
}

/// The same for the control set, whose replicas have the ids that were given to their nodes.
fn want_control(state: &mut ControlState, nodes: &BTreeMap<NodeId, Candidate>) -> Result<()> {
    let Some(record) = state.sets.get(&CONTROL_SET) else { return Ok(()) };
    let wanted = place_control(nodes, &placed(&record.wanted));
    let with_ids = |list: &BTreeSet<NodeId>| -> BTreeMap<ReplicaId, NodeId> {
        let records = list.iter().filter_map(|node| state.nodes.get(node));
        records.map(|node| (node.control_replica, node.id)).collect()
    };
    let wanted = MemberList { voters: with_ids(&wanted.voters), learners: with_ids(&wanted.learners) };
    if let Some(record) = state.sets.get_mut(&CONTROL_SET) {
        record.wanted = wanted;
    }
    Ok(())
}
