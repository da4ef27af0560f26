use mainstay_core::time::WallTime;
use mainstay_core::{Error, ErrorKind, NodeId, Result};

use crate::control::record::{GateRecord, NodeState, Operation, OperationRecord, TokenRecord};
use crate::control::{ControlState, NAME_BYTES_MAX};
use crate::message::Confirmation;

/// The most replicas of a set. More voters make every commit slower and hardly anything safer.
const REPLICAS_MAX: u32 = 9;

/// The most switches of a cluster, and the most tokens that wait to be used.
const GATES_MAX: usize = 10_000;
const TOKENS_MAX: usize = 1_000;

/// Notes the members that the primary of a set has.
pub(super) fn confirm(state: &mut ControlState, from: NodeId, confirmation: &Confirmation) -> Result<()> {
    let Confirmation { set, replica, epoch, members } = confirmation;
    let next_replica = state.cluster()?.next_replica;
    let record = state.sets.get_mut(set);
    let record = record.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no set {set}")))?;
    // A primary of an incarnation before has an id that the set does not have any more.
    let is_known = [&record.wanted, &record.confirmed].into_iter().any(|list| list.on(from) == Some(*replica));
    if !is_known || !members.voters.contains_key(replica) {
        return Err(Error::invalid(format!(
            "replica {replica} on node {from} is no member of set {set} and cannot say what its members are"
        )));
    }
    if *epoch < record.confirmed_epoch || epoch.data_loss() != record.data_loss {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "set {set} has had a primary in epoch {} since, and the one of {epoch} does not count",
                record.confirmed_epoch
            ),
        ));
    }
    let (before, wanted) = (std::mem::replace(&mut record.confirmed, members.clone()), &record.wanted);
    record.confirmed_epoch = *epoch;
    record.lost.retain(|id| members.contains(*id));
    let is_gone = |id: &mainstay_core::ReplicaId| !members.contains(*id) && !wanted.contains(*id);
    let gone = before.all().map(|(id, _)| id).filter(is_gone);
    record.retired.extend(gone.filter(|id| id.0 >= next_replica));
    Ok(())
}

/// Changes how many replicas sets have.
pub(super) fn set_replicas(state: &mut ControlState, target: u32, min: u32) -> Result<()> {
    if target == 0 || target > REPLICAS_MAX || min > target || min < target / 2 + 1 {
        return Err(Error::invalid(format!(
            "replicas.min is {min} and replicas.target is {target}: the target is 1 to {REPLICAS_MAX}, and min is from a majority of it up \
             to all of it"
        )));
    }
    if target == 2 {
        return Err(Error::invalid(
            "replicas.target is 2: a set of two stands still when either fails, and so fails more often than one: use 3, or 1",
        ));
    }
    let cluster = state.cluster_mut()?;
    cluster.replicas_target = target;
    cluster.replicas_min = min;
    Ok(())
}

/// Begins to take a node out, or refuses it from now on if it is gone.
pub(super) fn remove_node(state: &mut ControlState, node: NodeId, is_gone: bool, now: WallTime) -> Result<()> {
    let record = state.nodes.get(&node);
    let record = record.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no node {node}")))?;
    if record.state == NodeState::Removed {
        return Ok(());
    }
    let others = state.up().filter(|other| other.id != node && !state.is_leaving(other.id)).count();
    if others == 0 {
        return Err(Error::invalid(format!(
            "node {node} is the last of its cluster: there is nothing to take it out of"
        )));
    }
    let needed = state.sets.values().filter(|set| set.id != crate::control::CONTROL_SET);
    let needed =
        needed.map(|set| set.wanted.voters.len()).max().unwrap_or(0).min(state.cluster()?.replicas_target as usize);
    if !is_gone && others < needed {
        return Err(Error::invalid(format!(
            "without node {node} there are {others} nodes for sets of {needed} replicas: add a node first, or set replicas.target to what \
             {others} nodes can hold"
        )));
    }
    if is_gone {
        remove(state, node);
    } else if !state.is_leaving(node) {
        let cluster = state.cluster_mut()?;
        let id = cluster.next_operation;
        cluster.next_operation = id.saturating_add(1);
        state.operations.insert(id, OperationRecord { id, what: Operation::RemoveNode { node }, since: now });
    }
    Ok(())
}

/// Removes nodes that are being taken out and hold nothing any more.
pub(super) fn finish_removals(state: &mut ControlState) {
    let leaving = state.operations.values().map(|operation| match operation.what {
        Operation::RemoveNode { node } => node,
    });
    let holds = |node: NodeId| {
        let mut members = state.sets.values().flat_map(|set| set.wanted.all().chain(set.confirmed.all()));
        members.any(|(_, at)| at == node)
    };
    let empty: Vec<NodeId> = leaving.filter(|node| !holds(*node)).collect();
    empty.into_iter().for_each(|node| remove(state, node));
}

fn remove(state: &mut ControlState, node: NodeId) {
    if let Some(record) = state.nodes.get_mut(&node) {
        record.state = NodeState::Removed;
    }
    state.operations.retain(|_, operation| operation.what != Operation::RemoveNode { node });
}

/// Makes a token by which one node may join.
pub(super) fn create_token(state: &mut ControlState, hash: [u8; 32], expires: WallTime, now: WallTime) -> Result<()> {
    state.tokens.retain(|_, token| token.expires > now);
    if state.tokens.contains_key(&hash) {
        return Ok(());
    }
    if expires <= now {
        return Err(Error::invalid(format!(
            "a join token that expires at {expires} is good for nothing: choose a later time"
        )));
    }
    if state.tokens.len() >= TOKENS_MAX {
        let text = format!("{TOKENS_MAX} join tokens wait to be used: use them, or wait until they expire");
        return Err(Error::new(ErrorKind::Overloaded, text));
    }
    state.tokens.insert(hash, TokenRecord { hash, expires, used_by: None });
    Ok(())
}

/// Turns a switch.
pub(super) fn set_gate(state: &mut ControlState, name: &str, is_open: bool) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a gate has a name of {} bytes: a name has 1 to {NAME_BYTES_MAX}",
            name.len()
        )));
    }
    if state.gates.len() >= GATES_MAX && !state.gates.contains_key(name) {
        let text = format!("the cluster has {GATES_MAX} gates, and takes no more: {name:?} was not made");
        return Err(Error::new(ErrorKind::TooLarge, text));
    }
    state.gates.insert(name.to_owned(), GateRecord { name: name.to_owned(), is_open });
    Ok(())
}
