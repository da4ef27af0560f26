//! Volatile sets whose replicas have lost their memory.
//!
//! A node that starts again has none of its volatile replicas. Each gets a new id and joins its set as a new member, and the
//! set goes on as long as a majority of its voters has its memory. If not, there is nothing to go on from: the set begins again,
//! as a new incarnation with a higher data-loss number.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_core::{Epoch, Error, NodeId, ReplicaId, Result, SetId};

use crate::control::ControlState;
use crate::control::record::{MemberList, SetRecord};

/// The replica of a set on a node has lost its memory.
pub(super) fn replica_lost(state: &mut ControlState, set: SetId, node: NodeId) -> Result<()> {
    let Some(record) = state.sets.get(&set) else { return Ok(()) };
    let gone: BTreeSet<ReplicaId> =
        record.wanted.all().chain(record.confirmed.all()).filter(|(_, at)| *at == node).map(|(id, _)| id).collect();
    if gone.is_empty() {
        return Ok(());
    }
    let mut record = record.clone();
    record.lost.extend(&gone);
    if let Some(old) = record.wanted.on(node) {
        let new = state.new_replica()?;
        let list = match record.wanted.voters.remove(&old) {
            Some(_) => &mut record.wanted.voters,
            None => &mut record.wanted.learners,
        };
        list.remove(&old);
        list.insert(new, node);
        let is_never_founded = record.confirmed.is_empty() && record.lost.contains(&record.founder);
        if is_never_founded || survivors(&record, new).is_empty() {
            record = new_incarnation(state, record, node)?;
        }
    }
    state.sets.insert(set, record);
    Ok(())
}

/// The voters that may still have their memory, beside one that is new.
fn survivors(record: &SetRecord, new: ReplicaId) -> BTreeSet<ReplicaId> {
    let voters = record.confirmed.voters.keys().chain(record.wanted.voters.keys()).copied();
    voters.filter(|id| *id != new && !record.lost.contains(id)).collect()
}

/// True if too few of the voters of a set have their memory for it to go on, as far as they are confirmed.
pub(super) fn has_lost_quorum(record: &SetRecord) -> bool {
    let voters = record.confirmed.voters.keys();
    let alive = voters.clone().filter(|id| !record.lost.contains(id)).count();
    !record.lost.is_empty() && alive < voters.count() / 2 + 1
}

/// Lets a set that has lost its quorum begin again, on the nodes where it is wanted.
pub(super) fn begin_again(state: &mut ControlState, set: SetId) -> Result<()> {
    let Some(record) = state.sets.get(&set).cloned() else { return Ok(()) };
    // A node whose replica was lost has started again, so that it runs.
    let started = record.confirmed.all().find(|(id, _)| record.lost.contains(id)).map(|(_, node)| node);
    let founder = started.filter(|node| record.wanted.on(*node).is_some());
    let founder = founder.or_else(|| record.wanted.voters.values().next().copied());
    let Some(founder) = founder else { return Ok(()) };
    let record = new_incarnation(state, record, founder)?;
    state.sets.insert(set, record);
    Ok(())
}

fn new_incarnation(state: &mut ControlState, before: SetRecord, founder: NodeId) -> Result<SetRecord> {
    let renewed =
        |state: &mut ControlState, list: &BTreeMap<ReplicaId, NodeId>| -> Result<BTreeMap<ReplicaId, NodeId>> {
            list.values().map(|node| Ok((state.new_replica()?, *node))).collect()
        };
    let voters = renewed(state, &before.wanted.voters)?;
    let learners = renewed(state, &before.wanted.learners)?;
    let wanted = MemberList { voters, learners };
    let on_node = wanted.voters.iter().find(|(_, node)| **node == founder);
    let founder = on_node.or_else(|| wanted.voters.iter().next()).map(|(id, _)| *id);
    let founder = founder.ok_or_else(|| Error::fatal(format!("set {} has no voter to begin again with", before.id)))?;
    let data_loss = before.data_loss.checked_add(1).ok_or_else(|| Error::fatal("there is no data-loss number left"))?;
    tracing::warn!(set = %before.id, data_loss, "a volatile set has lost its quorum and begins again without its state");
    Ok(SetRecord {
        data_loss,
        wanted,
        confirmed: MemberList::default(),
        confirmed_epoch: Epoch(0),
        founder,
        lost: BTreeSet::new(),
        ..before
    })
}
