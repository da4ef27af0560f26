//! What must hold, whatever happens.
//!
//! While things go wrong: at most one replica may serve reads at any moment, and only one per epoch; no two replicas
//! apply different things at one place of the log; a client never reads less than it was told is there; no replica
//! stops by itself; a process that has stopped leaves its folder unlocked. After healing: a commit goes through and all members
//! reach the same place (liveness), their stores are byte for byte equal, and on each of them every acknowledged commit is
//! there, at the place that its sequence number says, and every refused one is not; counters have counted each of them once.
//! And there is one order of all reads and writes of what clients share that explains what they were told
//! (`linearizability`), in which a commit of unknown outcome does not happen after a read that did not show it
//! (`shared`).

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Epoch, NodeId, PartitionId};
use mainstay_replica::Replica;
use mainstay_store::state::{KeyRange, Order};

use crate::client::{COUNTER, Client, Outcome, count, delta};
use crate::cluster::Cluster;
use crate::shared::SHARED;

/// How long healing may take, in simulated time.
const HEALING: Duration = Duration::from_secs(60);

/// How often the roles are looked at.
const GLANCE: Duration = Duration::from_millis(2);

/// Watches the roles until the first objection.
pub(crate) async fn watch_roles(cluster: Arc<Cluster>) -> String {
    let mut owners: BTreeMap<Epoch, NodeId> = BTreeMap::new();
    loop {
        let mut serving = Vec::new();
        for id in cluster.running() {
            let Some(partition) = cluster.partition(id, PartitionId(0)) else { continue };
            let Ok(epoch) = partition.check() else { continue };
            serving.push(id);
            let owner = *owners.entry(epoch).or_insert(id);
            if owner != id {
                return format!("both {owner} and {id} served reads in epoch {epoch}");
            }
        }
        if serving.len() > 1 {
            return format!("{serving:?} serve reads at the same moment");
        }
        if let Some(failure) = wrong(&cluster) {
            return failure;
        }
        time::sleep(GLANCE).await;
    }
}

/// What is wrong whatever clients have seen.
fn wrong(cluster: &Cluster) -> Option<String> {
    cluster.failure().or_else(|| cluster.ledger.divergence()).or_else(|| cluster.forgotten())
}

/// Waits until the healed cluster works again and agrees.
///
/// # Errors
/// What is still wrong when the time is up.
pub(crate) async fn heals(cluster: &Cluster, probe: &Client) -> Result<Vec<Replica>, String> {
    let mut state = "no primary showed up".to_owned();
    let healed = async {
        let mut number = 900_000;
        loop {
            time::sleep(Duration::from_millis(50)).await;
            let Some(primary) = cluster.primary() else { continue };
            let at = primary.status().identity.node;
            number += 1;
            probe.write(&primary.partition(probe.partition), at, number).await;
            if !matches!(probe.history.lock().outcomes.get(&number), Some(Outcome::Acknowledged(_))) {
                state = format!("{at} is primary and commits nothing");
                continue;
            }
            match agreement(cluster, &primary).await {
                Ok(members) => {
                    // What was acknowledged at last is to be seen by somebody.
                    for register in 0..cluster.scenario.shared_registers {
                        probe.read_shared(&primary.partition(SHARED), at, register);
                    }
                    return members;
                }
                Err(what) => state = what,
            }
        }
    };
    match time::timeout(HEALING, healed).await {
        Ok(members) => Ok(members),
        Err(_) => Err(format!("not healed after {HEALING:?} without trouble: {state}")),
    }
}

/// The members of the set, if all have applied as much as the primary has now.
async fn agreement(cluster: &Cluster, primary: &Replica) -> Result<Vec<Replica>, String> {
    let status = primary.status();
    let goal = status.applied_next;
    let mut members = Vec::new();
    for node in status.voters.values().chain(status.learners.values()) {
        let Some(replica) = cluster.replica(*node) else { return Err(format!("member {node} does not run")) };
        members.push(replica);
    }
    let caught_up = async {
        while members.iter().any(|member| member.status().applied_next < goal) {
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    match time::timeout(Duration::from_secs(5), caught_up).await {
        // A node that was doomed before may have crashed meanwhile: then its handle is of the life before.
        Ok(()) if members.iter().all(|member| is_current(cluster, member)) => Ok(members),
        Ok(()) => Err("a member has just crashed".to_owned()),
        Err(_) => {
            let places: Vec<_> = members.iter().map(|m| (m.status().identity.node, m.status().applied_next)).collect();
            Err(format!("members lag behind {goal}: {places:?}"))
        }
    }
}

/// True if a replica is the one that runs on its node now.
fn is_current(cluster: &Cluster, member: &Replica) -> bool {
    let node = member.status().identity.node;
    cluster.replica(node).is_some_and(|running| Arc::ptr_eq(running.store(), member.store()))
}

/// Compares the members' stores with each other and with what the clients were told.
///
/// # Errors
/// The first objection.
pub(crate) fn judge(cluster: &Cluster, members: &[Replica], clients: &[Arc<Client>]) -> Result<(), String> {
    let Some((first, others)) = members.split_first() else { return Err("the set has no members".to_owned()) };
    let state = contents(first)?;
    for other in others {
        let differing = contents(other)?;
        if differing != state {
            let nodes = (first.status().identity.node, other.status().identity.node);
            return Err(format!("the stores of {} and {} differ", nodes.0, nodes.1));
        }
    }
    let mut sums: BTreeMap<PartitionId, i64> = BTreeMap::new();
    for client in clients {
        let history = client.history.lock();
        if let Some(violation) = &history.violation {
            return Err(violation.clone());
        }
        for (number, outcome) in &history.outcomes {
            let key = full_key(client.partition, &client.key(*number));
            let there = state.contains_key(&key);
            match outcome {
                Outcome::Acknowledged(sequence) => {
                    if !there {
                        return Err(format!("client {}: the acknowledged commit {number} is lost", client.id));
                    }
                    // A mark's index is one above the entry's.
                    let index = (sequence.0 >> 16) + 1;
                    if !cluster.ledger.wrote(index, &key) {
                        return Err(format!("client {}: commit {number} is not at its place {sequence}", client.id));
                    }
                }
                Outcome::Refused if there => {
                    return Err(format!("client {}: the refused commit {number} happened", client.id));
                }
                Outcome::Refused | Outcome::Unknown | Outcome::GivenUp => {}
            }
            if there {
                *sums.entry(client.partition).or_default() += delta(*number);
            }
        }
    }
    // A commit adds to a counter and has a key of its own: so it is known which have happened, each once.
    for (partition, sum) in sums {
        let found = count(state.get(&full_key(partition, COUNTER)).map(Vec::as_slice));
        if found != sum {
            return Err(format!(
                "the counter of partition {partition} is {found}, and the commits that happened add up to {sum}"
            ));
        }
    }
    wrong(cluster).map_or(Ok(()), Err)
}

/// A key of a partition, as it is in the store.
fn full_key(partition: PartitionId, key: &[u8]) -> Vec<u8> {
    [&partition.0.to_be_bytes()[..], key].concat()
}

fn contents(replica: &Replica) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
    let read = || -> mainstay_core::Result<_> {
        let snapshot = replica.store().snapshot()?;
        let entries = snapshot.scan(KeyRange::all(), Order::Ascending)?;
        entries.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect()
    };
    read().map_err(|error| format!("a store cannot be read: {error:?}"))
}
