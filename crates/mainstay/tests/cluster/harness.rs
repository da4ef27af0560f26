//! Several nodes in one process, on an in-process network, simulated disks and virtual time. Each has its replicas and its own
//! directory of services, as `mainstay-node` puts them together.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay::{NodeId, PartitionId, SetId};
use mainstay_core::ClusterId;
use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration};
use mainstay_replica::{
    InProcessNetwork, Partition, Replica, ReplicaOptions, Role, RoleState, UniformSets, UniformSetsOptions,
};
use mainstay_runtime::{Directory, ServiceType, Services, Serving};
use mainstay_store::log::{Driver, SyncDelay};

const CLUSTER: ClusterId = ClusterId(1);

/// How long anything may take in virtual time before the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The one persisted set of the cluster.
pub(crate) const SET: SetId = SetId { level: Level::Persisted, number: 0 };

/// Makes the types that every node serves, each in one partition: the first in partition 0, and so on.
pub(crate) type ServedTypes = fn() -> Vec<ServiceType>;

pub(crate) struct Cluster {
    pub(crate) network: InProcessNetwork,
    pub(crate) processes: BTreeMap<NodeId, Process>,
}

/// A node.
pub(crate) struct Process {
    pub(crate) node: NodeId,
    pub(crate) replicas: UniformSets,
    pub(crate) services: Services,
    directory: Arc<Directory>,
    scope: Scope,
}

impl Cluster {
    /// Nodes 1 to `count`, with a primary that is ready.
    pub(crate) async fn start(count: u64, types: ServedTypes) -> Self {
        Self::start_with(count, types, ReplicaOptions::default()).await
    }

    pub(crate) async fn start_with(count: u64, types: ServedTypes, replica: ReplicaOptions) -> Self {
        let mut cluster = Self { network: InProcessNetwork::new(), processes: BTreeMap::new() };
        for number in 1..=count {
            let process = Process::start(&cluster.network, number, types, replica.clone()).await;
            cluster.processes.insert(process.node, process);
        }
        cluster.primary().await;
        cluster
    }

    pub(crate) fn process(&self, node: NodeId) -> &Process {
        &self.processes[&node]
    }

    /// Waits for a primary of the set on a node that is not one of `except`, and until all others know of it.
    pub(crate) async fn primary_except(&self, except: &[NodeId]) -> &Process {
        let found = async {
            loop {
                let mut others = self.processes.values().filter(|process| !except.contains(&process.node));
                if let Some(primary) = others.clone().find(|process| process.role_state().role == Role::Primary)
                    && others.all(|process| process.role_state().primary == Some(primary.node))
                {
                    return primary;
                }
                time::sleep(Duration::from_millis(5)).await;
            }
        };
        time::timeout(PATIENCE, found).await.expect("a primary in time")
    }

    pub(crate) async fn primary(&self) -> &Process {
        self.primary_except(&[]).await
    }

    /// Cuts a node off from all others, both ways.
    pub(crate) fn isolate(&self, node: NodeId) {
        for other in self.processes.keys().filter(|other| **other != node) {
            self.network.cut(node, *other);
            self.network.cut(*other, node);
        }
    }

    pub(crate) async fn stop(self) {
        for process in self.processes.into_values() {
            process.directory.stop().await;
            process.replicas.stop().await;
            process.scope.stop();
        }
    }
}

impl Process {
    async fn start(network: &InProcessNetwork, number: u64, types: ServedTypes, replica: ReplicaOptions) -> Self {
        let (node, scope) = (NodeId(number), Scope::new());
        let mut options =
            UniformSetsOptions { cluster: Some(CLUSTER), sets_per_level: 1, replica, ..UniformSetsOptions::new(node) };
        options.log.segment_bytes = 256 << 10;
        options.log.driver = Driver::Task { sync_delay: SyncDelay::default() };
        options.store.cache_bytes_max = 8 << 20;
        let disk = Arc::new(SimDisk::new(number));
        let opening = UniformSets::open(disk, Path::new("/data"), options, network.endpoint(node));
        let replicas = scope.enter(opening).await.unwrap();
        let handler = replicas.clone();
        network.attach(
            node,
            scope.clone(),
            Arc::new(move |from, set, request| {
                let replicas = handler.clone();
                Box::pin(async move { replicas.receive(from, set, request).await })
            }),
        );
        match number {
            1 => replicas.bootstrap().await.unwrap(),
            _ => replicas.join(&(1..number).map(NodeId).collect::<Vec<_>>()).await.unwrap(),
        }
        let place = |(id, service): (u64, ServiceType)| {
            let partitions = vec![replicas.partition(service.level(), PartitionId(id))];
            Serving { service, partitions }
        };
        let serving: Vec<Serving> = (0..).zip(types()).map(place).collect();
        let directory = Arc::new(Directory::new(&serving).unwrap());
        directory.serve(node, serving, directory.clone());
        let services = Services::new(directory.clone());
        Self { node, replicas, services, directory, scope }
    }

    pub(crate) fn replica(&self) -> &Replica {
        self.replicas.replica(SET).unwrap()
    }

    /// A partition of the set that no type is served in.
    pub(crate) fn partition(&self) -> Partition {
        self.replicas.partition(SET.level, PartitionId(1000))
    }

    pub(crate) fn role_state(&self) -> RoleState {
        self.replica().role_state()
    }
}
