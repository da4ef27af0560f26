use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::task::Scope;
use mainstay_core::{ClusterId, Error, Level, NodeId, PartitionId, ReplicaId, SetId, time};
use mainstay_replica::{Identity, InProcessNetwork, Partition, Replica, ReplicaOptions, Role};
use mainstay_store::disk::RealDisk;
use mainstay_store::log::{LogOptions, NodeLog, SegmentLog};
use mainstay_store::state::{DiskStore, DiskStoreOptions, StateStore};

use crate::outcome::Outcome;

/// How long a set may take to have a primary.
const PRIMARY_TIMEOUT: time::Duration = time::Duration::from_secs(30);

/// How long a writer waits before it looks again for a primary, or for room.
pub(super) const RETRY_PAUSE: time::Duration = time::Duration::from_millis(1);

/// Nodes in one process with a replica of every persisted set each, on one disk and a network without trouble.
#[derive(Debug)]
pub(super) struct Cluster {
    /// By node.
    nodes: Vec<Vec<Replica>>,
}

impl Cluster {
    /// Starts all nodes and founds the sets, each on another node in turn, so that the work is spread.
    pub(super) async fn start(folder: &Path, nodes: u64, sets: u16) -> Outcome<Self> {
        let network = InProcessNetwork::new();
        let mut started = Vec::new();
        for node in (1..=nodes).map(NodeId) {
            started.push(start_node(&network, folder, node, sets).await?);
        }
        let members: BTreeMap<ReplicaId, NodeId> = (1..=nodes).map(|id| (ReplicaId(id), NodeId(id))).collect();
        for set in 0..usize::from(sets) {
            started[set % started.len()][set].bootstrap(&members).await?;
        }
        let cluster = Self { nodes: started };
        for set in 0..usize::from(sets) {
            cluster.primary(set).await?;
        }
        Ok(cluster)
    }

    /// The replica that leads a set, when there is one.
    async fn primary(&self, set: usize) -> Outcome<Replica> {
        let find = async {
            loop {
                let mut replicas = self.nodes.iter().map(|node| &node[set]);
                match replicas.find(|replica| replica.role_state().role == Role::Primary) {
                    Some(replica) => return replica.clone(),
                    None => time::sleep(RETRY_PAUSE).await,
                }
            }
        };
        let found = time::timeout(PRIMARY_TIMEOUT, find).await;
        found.map_err(|_| format!("set {set} has no primary after {PRIMARY_TIMEOUT:?}").into())
    }

    /// A partition where it can be written.
    pub(super) async fn partition(&self, id: PartitionId) -> Outcome<Partition> {
        let sets = self.nodes.first().map_or(1, Vec::len);
        let set = (id.0 % sets as u64) as usize;
        Ok(self.primary(set).await?.partition(id))
    }

    pub(super) async fn stop(&self) {
        for replica in self.nodes.iter().flatten() {
            replica.stop().await;
        }
    }
}

async fn start_node(network: &InProcessNetwork, folder: &Path, node: NodeId, sets: u16) -> Outcome<Vec<Replica>> {
    let disk = Arc::new(RealDisk);
    let folder = folder.join(node.to_string());
    let log: Arc<dyn NodeLog> = Arc::new(SegmentLog::open(disk.clone(), &folder.join("log"), LogOptions::default())?);
    let mut replicas = Vec::new();
    for number in 0..sets {
        let set = SetId { level: Level::Persisted, number };
        let options = DiskStoreOptions {
            cache_bytes_max: DiskStoreOptions::default().cache_bytes_max / usize::from(sets),
            owner: Bytes::from(format!("{set} of {node}")),
            ..DiskStoreOptions::default()
        };
        let store: Arc<dyn StateStore> =
            Arc::new(DiskStore::open(disk.clone(), &folder.join(format!("{set}.redb")), options)?);
        let identity = Identity { cluster: ClusterId(1), set, replica: ReplicaId(node.0), node, data_loss: 0 };
        let transport = network.endpoint(node);
        replicas.push(Replica::start(identity, ReplicaOptions::default(), log.clone(), store, transport).await?);
    }
    replicas.iter().for_each(Replica::expect_anyone);
    let receivers = replicas.clone();
    network.attach(
        node,
        Scope::new(),
        Arc::new(move |from, set, request| {
            let receiver = receivers.get(usize::from(set.number)).cloned();
            Box::pin(async move {
                match receiver {
                    Some(replica) => replica.receive(from, request).await,
                    // Nobody asks for a set that was not started.
                    None => Bytes::new(),
                }
            })
        }),
    );
    Ok(replicas)
}

/// Whether a commit that failed may be made again as it is: the benchmark's writes are idempotent.
pub(super) fn is_passing(error: &Error) -> bool {
    use mainstay_core::ErrorKind::{NotPrimary, OutcomeUnknown, Overloaded, Retry, Timeout};
    matches!(error.kind(), NotPrimary { .. } | OutcomeUnknown | Overloaded | Retry | Timeout)
}
