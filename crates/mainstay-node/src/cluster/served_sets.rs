use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_cluster::control::ControlWatch;
use mainstay_cluster::control::record::{self, MemberList, ServiceRecord};
use mainstay_cluster::{HeldReplica, NodeSets, Working};
use mainstay_core::time::Duration;
use mainstay_core::{Level, NodeId, PartitionId, ReplicaId, Result, SetId};
use mainstay_replica::{NodeReplicas, Partition, RoleState};
use mainstay_runtime::{CALL_TIMEOUT_DEFAULT, Directory, KnownService, ServiceKind};
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};

/// The replicas of a node, whose partitions are served for as long as they are here: what the agent of the cluster creates is
/// attached to the directory, and what it drops is detached first.
#[derive(Debug)]
pub(crate) struct ServedSets {
    replicas: NodeReplicas,
    /// The directory with the services that this program has types for, once they are known.
    served: RwLock<Option<Served>>,
    /// Told when a replica was created.
    created: Notify,
}

#[derive(Debug, Clone)]
struct Served {
    directory: Arc<Directory>,
    services: Arc<[ServiceRecord]>,
}

impl ServedSets {
    pub(crate) fn new(replicas: NodeReplicas) -> Arc<Self> {
        Arc::new(Self { replicas, served: RwLock::default(), created: Notify::new() })
    }

    /// Serves the partitions of these services from now on, as far as their sets have replicas here.
    pub(crate) fn serve(&self, directory: Arc<Directory>, services: Vec<ServiceRecord>) {
        *self.served.write() = Some(Served { directory, services: services.into() });
        self.attach_all();
    }

    /// Serves nothing any more.
    pub(crate) fn let_go(&self) {
        self.served.write().take();
    }

    /// Attaches what replicas are created for, until the node stops.
    pub(crate) async fn keep_attached(self: Arc<Self>) {
        loop {
            self.created.notified().await;
            self.attach_all();
        }
    }

    fn attach_all(&self) {
        let Some(Served { directory, services }) = self.served.read().clone() else { return };
        for service in services.iter() {
            for (index, placed) in (0..).zip(&service.partitions) {
                // What has no replica here is served elsewhere.
                let Ok(partition) = self.replicas.partition(placed.set, placed.id) else { continue };
                if let Err(error) = directory.attach(&service.name, index, partition)
                    && !directory.is_stopped()
                {
                    tracing::error!(service = service.name, index, ?error, "a partition cannot be served");
                }
            }
        }
    }

    /// Lets go of the partitions of a set, and of those of level none that live beside it.
    async fn detach(&self, set: SetId) {
        let Some(Served { directory, services }) = self.served.read().clone() else { return };
        for service in services.iter() {
            for (index, placed) in (0..).zip(&service.partitions) {
                let is_beside = set.level == Level::Persisted && placed.set == SetId { level: Level::None, ..set };
                if (placed.set == set || is_beside)
                    && let Err(error) = directory.detach(&service.name, index).await
                {
                    tracing::warn!(service = service.name, index, ?error, "a partition cannot be let go of");
                }
            }
        }
    }
}

impl NodeSets for ServedSets {
    fn held(&self) -> Vec<HeldReplica> {
        self.replicas.held()
    }

    fn roles(&self, set: SetId) -> Option<watch::Receiver<RoleState>> {
        self.replicas.roles(set)
    }

    fn create<'a>(&'a self, set: SetId, replica: ReplicaId, data_loss: u32) -> Working<'a, Result<()>> {
        Box::pin(async move {
            self.replicas.create(set, replica, data_loss).await?;
            self.created.notify_one();
            Ok(())
        })
    }

    fn drop_replica<'a>(&'a self, set: SetId, replica: ReplicaId) -> Working<'a, Result<()>> {
        Box::pin(async move {
            self.detach(set).await;
            NodeSets::drop_replica(&self.replicas, set, replica).await
        })
    }

    fn found<'a>(&'a self, set: SetId) -> Working<'a, Result<()>> {
        self.replicas.found(set)
    }

    fn set_members<'a>(&'a self, set: SetId, members: &'a MemberList) -> Working<'a, Result<()>> {
        self.replicas.set_members(set, members)
    }

    fn expect(&self, set: SetId, nodes: BTreeSet<NodeId>) {
        self.replicas.expect(set, nodes);
    }

    fn partition(&self, set: SetId, partition: PartitionId) -> Result<Partition> {
        self.replicas.partition(set, partition)
    }

    fn receive(&self, from: NodeId, set: SetId, request: Bytes) -> Working<'static, Bytes> {
        NodeSets::receive(&self.replicas, from, set, request)
    }
}

/// Tells the directory of services that other programs register, so that they can be called from here, until the node stops.
pub(crate) async fn keep_learning(directory: Arc<Directory>, mut control: ControlWatch) {
    loop {
        for service in control.get_and_update().services.values() {
            if let Some(known) = known(service)
                && let Err(error) = directory.learn(known)
            {
                tracing::warn!(service = service.name, ?error, "a service of the cluster cannot be called from here");
            }
        }
        if !control.changed().await {
            return;
        }
    }
}

/// What callers have to know of a recorded service; `None` for what is not called by a partition.
fn known(service: &ServiceRecord) -> Option<KnownService> {
    let kind = match service.kind {
        record::ServiceKind::Actors => ServiceKind::Actors,
        record::ServiceKind::Service => ServiceKind::Stateful,
        record::ServiceKind::Workers | record::ServiceKind::Unknown => return None,
    };
    Some(KnownService {
        name: service.name.clone(),
        kind,
        interfaces: service.interfaces.iter().cloned().collect(),
        partitioning: service.partitioning.clone(),
        partitions: service.partitions.iter().map(|placed| placed.id).collect(),
        call_timeout: service.call_timeout_ms.map_or(CALL_TIMEOUT_DEFAULT, Duration::from_millis),
    })
}
