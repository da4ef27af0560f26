use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, Level, NodeId, RESTORE, ReplicaId, Result, SequenceNumber, SetId};
use mainstay_replica::{Batch, Committed, KeyRange, Operation as Written, Order, Snapshot};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::codec::{decode, encode_over};
use super::key::RecordKey;
use super::record::{
    ClusterRecord, GateRecord, NodeRecord, NodeState, Operation, OperationRecord, ServiceRecord, SetRecord, TokenRecord,
};
use crate::formats::CONTROL_RECORD;

/// All that the control set holds, at one moment. A value: a decision changes a copy, and [what differs](Self::write_changes) is
/// committed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ControlState {
    /// The cluster as a whole; `None` before it was founded.
    pub cluster: Option<ClusterRecord>,
    /// All nodes that there ever were.
    pub nodes: BTreeMap<NodeId, NodeRecord>,
    /// All replica sets, the control set among them.
    pub sets: BTreeMap<SetId, SetRecord>,
    /// All services, by name.
    pub services: BTreeMap<String, Arc<ServiceRecord>>,
    /// What is under way.
    pub operations: BTreeMap<u64, OperationRecord>,
    /// Switches, by name.
    pub gates: BTreeMap<String, GateRecord>,
    /// Join tokens, by the hash of their secret.
    pub tokens: BTreeMap<[u8; 32], TokenRecord>,
    /// All commits up to here are in it.
    pub sequence_number: SequenceNumber,
}

impl ControlState {
    /// The state in a snapshot of the control partition.
    ///
    /// # Errors
    /// `Corrupt` or `UnknownVersion` if a record cannot be read.
    pub fn read(snapshot: &Snapshot) -> Result<Self> {
        let mut state = Self { sequence_number: snapshot.sequence_number(), ..Self::default() };
        for entry in snapshot.scan(KeyRange::prefix(b""), Order::Ascending)? {
            let (key, value) = entry?;
            state.put(&key, &value)?;
        }
        Ok(state)
    }

    /// Brings it up to date by a commit. True if it is another one now.
    ///
    /// # Errors
    /// `Corrupt` or `UnknownVersion` if a record cannot be read.
    pub fn apply(&mut self, committed: &Committed) -> Result<bool> {
        let mut is_changed = false;
        for operation in committed.operations() {
            match operation {
                Written::Put { key, value } => self.put(&key, value)?,
                Written::Delete { key } => self.remove(&RecordKey::decode(key)?),
                // Only a later program could do so.
                Written::DeleteRange { .. } | Written::Add { .. } => {
                    return Err(Error::new(
                        ErrorKind::UnknownVersion,
                        "the control set was changed in a way that this program does not know: use a later one",
                    ));
                }
                Written::Note { .. } => continue,
            }
            is_changed = true;
        }
        self.sequence_number = committed.sequence_number;
        Ok(is_changed)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match RecordKey::decode(key)? {
            RecordKey::Cluster => self.cluster = Some(record(value, || "the cluster".to_owned())?),
            RecordKey::Node(id) => {
                self.nodes.insert(id, record(value, || format!("node {id}"))?);
            }
            RecordKey::Set(id) => {
                self.sets.insert(id, record(value, || format!("set {id}"))?);
            }
            RecordKey::Service(name) => {
                let service: ServiceRecord = record(value, || format!("service {name:?}"))?;
                self.services.insert(name, Arc::new(service));
            }
            RecordKey::Operation(id) => {
                self.operations.insert(id, record(value, || format!("operation {id}"))?);
            }
            RecordKey::Gate(name) => {
                let gate = record(value, || format!("gate {name:?}"))?;
                self.gates.insert(name, gate);
            }
            RecordKey::Token(hash) => {
                self.tokens.insert(hash, record(value, || "a join token".to_owned())?);
            }
            RecordKey::Unknown => {}
        }
        Ok(())
    }

    fn remove(&mut self, key: &RecordKey) {
        match key {
            RecordKey::Cluster => self.cluster = None,
            RecordKey::Node(id) => drop(self.nodes.remove(id)),
            RecordKey::Set(id) => drop(self.sets.remove(id)),
            RecordKey::Service(name) => drop(self.services.remove(name)),
            RecordKey::Operation(id) => drop(self.operations.remove(id)),
            RecordKey::Gate(name) => drop(self.gates.remove(name)),
            RecordKey::Token(hash) => drop(self.tokens.remove(hash)),
            RecordKey::Unknown => {}
        }
    }

    /// Writes what differs from the state before into a batch. `stored` is that state as it is stored, from which fields are kept
    /// that this program does not know. Returns how many records differ.
    ///
    /// # Errors
    /// `Corrupt` if a stored record cannot be read.
    pub fn write_changes(&self, before: &Self, stored: &Snapshot, batch: &mut Batch) -> Result<usize> {
        let mut writer = Writer { stored, batch, count: 0 };
        if self.cluster != before.cluster
            && let Some(cluster) = &self.cluster
        {
            writer.put(&RecordKey::Cluster, cluster)?;
        }
        writer.write(&before.nodes, &self.nodes, |id| RecordKey::Node(*id))?;
        writer.write(&before.sets, &self.sets, |id| RecordKey::Set(*id))?;
        writer.write_services(&before.services, &self.services)?;
        writer.write(&before.operations, &self.operations, |id| RecordKey::Operation(*id))?;
        writer.write(&before.gates, &self.gates, |name| RecordKey::Gate(name.clone()))?;
        writer.write(&before.tokens, &self.tokens, |hash| RecordKey::Token(*hash))?;
        Ok(writer.count)
    }

    /// The record of the cluster.
    ///
    /// # Errors
    /// `Retry` before the cluster was founded, or before this node has heard of it.
    pub fn cluster(&self) -> Result<&ClusterRecord> {
        self.cluster.as_ref().ok_or_else(not_founded)
    }

    pub(crate) fn cluster_mut(&mut self) -> Result<&mut ClusterRecord> {
        self.cluster.as_mut().ok_or_else(not_founded)
    }

    /// A new id for a replica. None is given twice.
    pub(crate) fn new_replica(&mut self) -> Result<ReplicaId> {
        // Replicas of a folder from before the control set have drawn their ids.
        let taken: BTreeSet<ReplicaId> = self.replica_ids().collect();
        let next = &mut self.cluster_mut()?.next_replica;
        loop {
            let id = ReplicaId(*next);
            *next = next.checked_add(1).ok_or_else(|| Error::fatal("there is no id left for a replica"))?;
            if !taken.contains(&id) {
                return Ok(id);
            }
        }
    }

    fn replica_ids(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        let of_sets = self.sets.values().flat_map(|set| {
            let members = set.wanted.all().chain(set.confirmed.all()).map(|(id, _)| id);
            members.chain([set.founder]).chain(set.retired.iter().copied())
        });
        of_sets.chain(self.nodes.values().map(|node| node.control_replica))
    }

    /// The nodes that take part.
    pub fn up(&self) -> impl Iterator<Item = &NodeRecord> {
        self.nodes.values().filter(|node| node.state == NodeState::Up)
    }

    /// The nodes that were removed.
    pub fn removed(&self) -> BTreeSet<NodeId> {
        self.nodes.values().filter(|node| node.state == NodeState::Removed).map(|node| node.id).collect()
    }

    /// True if a node is being taken out.
    pub fn is_leaving(&self, node: NodeId) -> bool {
        self.operations.values().any(|operation| operation.what == Operation::RemoveNode { node })
    }

    /// True if a replica is no member of its set and never will be again, so that its node may drop it. Of an id that
    /// this state does not know yet it is not true: the state may lag behind the one that gave the id.
    pub fn is_retired(&self, set: SetId, replica: ReplicaId) -> bool {
        let (Some(cluster), Some(record)) = (&self.cluster, self.sets.get(&set)) else { return false };
        let is_member = record.wanted.contains(replica) || record.confirmed.contains(replica);
        !is_member && (replica.0 < cluster.next_replica || record.retired.contains(&replica))
    }

    /// The nodes that have a replica of a set, those that vote first. On level none, those of the persisted set of the same number.
    pub fn members(&self, set: SetId) -> Vec<NodeId> {
        let Some(record) = self.sets.get(&replicated(set)) else { return Vec::new() };
        let known = if record.confirmed.is_empty() { &record.wanted } else { &record.confirmed };
        known.all().map(|(_, node)| node).collect()
    }
}

/// The set whose primary serves the partitions of a set: level none has no replicas of its own, and follows the persisted set of
/// the same number.
pub(crate) fn replicated(set: SetId) -> SetId {
    match set.level {
        Level::None => SetId { level: Level::Persisted, number: set.number },
        Level::Persisted | Level::Volatile => set,
    }
}

fn not_founded() -> Error {
    let text = "this node does not know its cluster yet, because its replica of the control set is empty: retry";
    Error::new(ErrorKind::Retry, text)
}

fn record<T: DeserializeOwned>(value: &[u8], what: impl Fn() -> String) -> Result<T> {
    let name = || format!("the control record of {}", what());
    decode(&CONTROL_RECORD, value, name).map_err(|error| match error.kind() {
        ErrorKind::Corrupt => Error::corrupt(format!("{} cannot be used: {RESTORE}", name())).with_source(error),
        _ => error,
    })
}

/// Writes the records that differ.
struct Writer<'w> {
    stored: &'w Snapshot,
    batch: &'w mut Batch,
    count: usize,
}

impl Writer<'_> {
    fn write<K: Ord, T: PartialEq + Serialize + DeserializeOwned>(
        &mut self,
        before: &BTreeMap<K, T>,
        after: &BTreeMap<K, T>,
        key: impl Fn(&K) -> RecordKey,
    ) -> Result<()> {
        for (id, record) in after.iter().filter(|(id, record)| before.get(id) != Some(record)) {
            self.put(&key(id), record)?;
        }
        for id in before.keys().filter(|id| !after.contains_key(id)) {
            self.delete(&key(id));
        }
        Ok(())
    }

    fn write_services(
        &mut self,
        before: &BTreeMap<String, Arc<ServiceRecord>>,
        after: &BTreeMap<String, Arc<ServiceRecord>>,
    ) -> Result<()> {
        for (name, service) in after.iter().filter(|(name, service)| before.get(*name) != Some(service)) {
            self.put(&RecordKey::Service(name.clone()), &**service)?;
        }
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            self.delete(&RecordKey::Service(name.clone()));
        }
        Ok(())
    }

    fn put<T: Serialize + DeserializeOwned>(&mut self, key: &RecordKey, record: &T) -> Result<()> {
        let key = key.encode();
        let old = self.stored.get(&key)?;
        self.batch.put(&key, &encode_over(&CONTROL_RECORD, old.as_deref(), record)?);
        self.count += 1;
        Ok(())
    }

    fn delete(&mut self, key: &RecordKey) {
        self.batch.delete(&key.encode());
        self.count += 1;
    }
}
