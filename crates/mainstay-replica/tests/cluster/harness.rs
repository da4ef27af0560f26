//! Several nodes of one replica set in one process, on an in-process network and virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration};
use mainstay_core::{ClusterId, Level, NodeId, PartitionId, ReplicaId, SetId};
use mainstay_replica::{Identity, InProcessNetwork, Partition, Replica, ReplicaOptions, Role, Transport};
use mainstay_store::log::{MemoryLog, NodeLog};
use mainstay_store::state::{MemoryStore, StateStore};

pub(crate) const CLUSTER: ClusterId = ClusterId(0xc1);
pub(crate) const SET: SetId = SetId { level: Level::Volatile, number: 0 };

pub(crate) struct Cluster {
    pub network: InProcessNetwork,
    pub options: ReplicaOptions,
    pub members: BTreeMap<NodeId, Member>,
}

/// A node: its log and store outlive the replica, as a disk would.
pub(crate) struct Member {
    pub replica: Replica,
    pub scope: Scope,
    pub log: Arc<dyn NodeLog>,
    pub store: Arc<dyn StateStore>,
}

impl Cluster {
    pub(crate) fn new(options: ReplicaOptions) -> Self {
        Self { network: InProcessNetwork::new(), options, members: BTreeMap::new() }
    }

    /// A set that was founded on nodes 1 to `count`.
    pub(crate) async fn founded(count: u64, options: ReplicaOptions) -> Self {
        let mut cluster = Self::new(options);
        for node in 1..=count {
            cluster.start(NodeId(node), ReplicaId(node)).await;
        }
        let first = (1..=count).map(|id| (ReplicaId(id), NodeId(id))).collect();
        cluster.replica(1).bootstrap(&first).await.unwrap();
        cluster
    }

    pub(crate) async fn start(&mut self, node: NodeId, replica: ReplicaId) {
        self.start_on(node, replica, Arc::new(MemoryLog::new()), Arc::new(MemoryStore::new())).await;
    }

    pub(crate) async fn start_on(
        &mut self,
        node: NodeId,
        replica: ReplicaId,
        log: Arc<dyn NodeLog>,
        store: Arc<dyn StateStore>,
    ) {
        let transport = self.network.endpoint(node);
        self.start_by(node, replica, log, store, transport).await;
    }

    /// Starts a replica that reaches the others by a way of its own.
    pub(crate) async fn start_by(
        &mut self,
        node: NodeId,
        replica: ReplicaId,
        log: Arc<dyn NodeLog>,
        store: Arc<dyn StateStore>,
        transport: Arc<dyn Transport>,
    ) {
        let identity = Identity { cluster: CLUSTER, set: SET, replica, node, data_loss: 0 };
        let scope = Scope::new();
        let starting = Replica::start(identity, self.options.clone(), log.clone(), store.clone(), transport);
        let replica = scope.enter(starting).await.unwrap();
        replica.expect_anyone();
        let handler = replica.clone();
        self.network.attach(
            node,
            scope.clone(),
            Arc::new(move |from, _, request| {
                let replica = handler.clone();
                Box::pin(async move { replica.receive(from, request).await })
            }),
        );
        self.members.insert(node, Member { replica, scope, log, store });
    }

    /// Kills a node where it stands and returns what it had in its log and store.
    pub(crate) fn kill(&mut self, node: NodeId) -> Member {
        self.network.detach(node);
        let member = self.members.remove(&node).unwrap();
        member.replica.kill();
        member.scope.stop();
        member
    }

    pub(crate) fn replica(&self, node: u64) -> Replica {
        self.members[&NodeId(node)].replica.clone()
    }

    /// Waits for a primary that is not one of `except`.
    pub(crate) async fn primary_except(&self, except: &[NodeId]) -> Replica {
        let found = async {
            loop {
                let mut members = self.members.iter().filter(|(node, _)| !except.contains(node));
                if let Some((_, member)) = members.find(|(_, member)| member.replica.role_state().role == Role::Primary)
                {
                    return member.replica.clone();
                }
                time::sleep(Duration::from_millis(10)).await;
            }
        };
        time::timeout(Duration::from_secs(60), found).await.expect("a primary within a minute")
    }

    pub(crate) async fn primary(&self) -> Replica {
        self.primary_except(&[]).await
    }

    /// Waits until all running replicas have applied the same log.
    pub(crate) async fn converged(&self) {
        let equal = async {
            loop {
                let mut places = self.members.values().map(|member| {
                    let status = member.replica.status();
                    (status.applied_next, status.log_next)
                });
                let first = places.next().expect("a member");
                if first.0 == first.1 && places.all(|place| place == first) {
                    return;
                }
                time::sleep(Duration::from_millis(10)).await;
            }
        };
        time::timeout(Duration::from_secs(60), equal).await.expect("convergence within a minute");
    }

    /// Cuts a node off from all others, both ways.
    pub(crate) fn isolate(&self, node: NodeId) {
        for other in self.members.keys().filter(|other| **other != node) {
            self.network.cut(node, *other);
            self.network.cut(*other, node);
        }
    }
}

pub(crate) async fn put(
    partition: &Partition,
    key: &str,
    value: &str,
) -> mainstay_core::Result<mainstay_core::SequenceNumber> {
    let mut batch = partition.batch();
    batch.put(key.as_bytes(), value.as_bytes());
    partition.commit(batch).await
}

pub(crate) fn contents(replica: &Replica) -> Vec<(Vec<u8>, Vec<u8>)> {
    let snapshot = replica.store().snapshot().unwrap();
    let all = mainstay_store::state::KeyRange::all();
    let entries = snapshot.scan(all, mainstay_store::state::Order::Ascending).unwrap();
    entries.map(|entry| entry.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

pub(crate) fn partition(replica: &Replica) -> Partition {
    replica.partition(PartitionId(1))
}
