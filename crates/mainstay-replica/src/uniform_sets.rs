use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::{ClusterId, Error, Level, NodeId, PartitionId, ReplicaId, Result, SetId, random};
use mainstay_store::disk::Disk;
use mainstay_store::log::LogOptions;
use mainstay_store::state::DiskStoreOptions;
use rand::Rng as _;

use crate::identity::Wanted;
use crate::local::LocalSet;
use crate::node_replicas::{Ids, NodeReplicas, NodeReplicasOptions, ReplicaSpec};
use crate::options::ReplicaOptions;
use crate::partition::Partition;
use crate::replica::Replica;
use crate::transport::Transport;

/// How many replica sets a level has unless told otherwise: few enough that idle costs nearly nothing and logs batch well,
/// enough to spread over cores and nodes.
pub const SETS_PER_LEVEL: u16 = 8;

/// The replicas of a node that has one of every set, as many sets of each level, and maps partitions to them by their ids: what a
/// node has that is alone. Cheap to clone.
///
/// Nodes that all have the same sets can [join](UniformSets::join) each other; they take requests from any node of their cluster.
#[derive(Debug, Clone)]
pub struct UniformSets {
    node: NodeReplicas,
    sets_per_level: u16,
    /// Those that this has created or found, each of which stays for as long as this.
    replicas: Arc<BTreeMap<SetId, Replica>>,
    local: Arc<BTreeMap<u16, Arc<LocalSet>>>,
}

/// How a node with one replica of every set is set up.
#[derive(Debug, Clone)]
pub struct UniformSetsOptions {
    /// The node that this is.
    pub node: NodeId,
    /// The cluster that the data folder is to belong to, if it is known: that of the nodes to join. `None` for the one that the folder
    /// belongs to, and for a new one if it is empty.
    pub cluster: Option<ClusterId>,
    /// How many replica sets each level has. Chosen when a data folder is created; partitions are mapped by it.
    pub sets_per_level: u16,
    /// How the replicas behave.
    pub replica: ReplicaOptions,
    /// How the node log behaves.
    pub log: LogOptions,
    /// How the state stores of all persisted sets together behave; each gets its share of the cache.
    pub store: DiskStoreOptions,
}

impl UniformSetsOptions {
    /// The defaults for a node.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            cluster: None,
            sets_per_level: SETS_PER_LEVEL,
            replica: ReplicaOptions::default(),
            log: LogOptions::default(),
            store: DiskStoreOptions::default(),
        }
    }

    /// Refuses options that contradict each other.
    ///
    /// # Errors
    /// `Invalid` with the names of both.
    pub fn check(&self) -> Result<()> {
        if !(1..u16::MAX).contains(&self.sets_per_level) {
            return Err(Error::invalid(format!(
                "sets_per_level is {}: a level needs at least one set, and has room for {}",
                self.sets_per_level,
                u16::MAX - 1
            )));
        }
        self.node_options().check()
    }

    /// About how many bytes of the disk a new data folder takes: the first two segments of the log, and a file for each
    /// persisted set.
    pub fn first_start_bytes(&self) -> u64 {
        self.node_options().first_start_bytes()
    }

    fn node_options(&self) -> NodeReplicasOptions {
        NodeReplicasOptions {
            owner: None,
            expected_replicas: self.sets_per_level,
            replica: self.replica.clone(),
            log: self.log.clone(),
            store: self.store.clone(),
        }
    }
}

impl UniformSets {
    /// Opens a data folder, creating it if need be, and starts a replica of every set.
    ///
    /// # Errors
    /// `Invalid` if options contradict each other, or the folder belongs to another node or cluster or was created with another
    /// number of sets; `Conflict` if another process uses it, `Corrupt` or `UnknownVersion` if it cannot be used.
    pub async fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        options: UniformSetsOptions,
        transport: Arc<dyn Transport>,
    ) -> Result<Self> {
        options.check()?;
        let wanted = Wanted { cluster: options.cluster, node: Some(options.node) };
        let node = NodeReplicas::open_wanted(disk, folder, wanted, options.node_options(), transport).await?;
        match Self::of(&node, options.sets_per_level, folder).await {
            Ok(sets) => Ok(sets),
            Err(error) => {
                node.kill();
                Err(error)
            }
        }
    }

    async fn of(node: &NodeReplicas, sets_per_level: u16, folder: &Path) -> Result<Self> {
        let found = node.replicas().iter().filter(|replica| replica.identity().set.number < u16::MAX).count();
        if found != 0 && found != usize::from(sets_per_level) {
            return Err(Error::invalid(format!(
                "{} was created with {found} sets per level and cannot be opened with {sets_per_level}, because the number is fixed at \
                 creation: set sets_per_level to what it was",
                folder.display()
            )));
        }
        let drawn = |level| {
            (0..sets_per_level).map(move |number| ReplicaSpec {
                set: SetId { level, number },
                replica: ReplicaId(random::rng().next_u64()),
                data_loss: 0,
            })
        };
        let persisted = drawn(Level::Persisted).filter(|_| found == 0);
        let specs: Vec<ReplicaSpec> = persisted.chain(drawn(Level::Volatile)).collect();
        node.create_all(&specs, Ids::Drawn).await?;
        let replicas = node.replicas().into_iter().map(|replica| (replica.identity().set, replica));
        let replicas: BTreeMap<SetId, Replica> = replicas.collect();
        replicas.values().for_each(Replica::expect_anyone);
        Ok(Self {
            node: node.clone(),
            sets_per_level,
            replicas: Arc::new(replicas),
            local: Arc::new(node.local_sets()),
        })
    }

    /// All replicas of the node, and what it has beside these.
    pub fn node_replicas(&self) -> &NodeReplicas {
        &self.node
    }

    /// The cluster that this node belongs to.
    pub fn cluster(&self) -> ClusterId {
        self.node.cluster()
    }

    /// Creates every set that does not exist yet, with this node as its only member.
    ///
    /// # Errors
    /// `Fatal` if a replica has stopped.
    pub async fn bootstrap(&self) -> Result<()> {
        for replica in self.replicas() {
            let identity = replica.identity();
            replica.bootstrap(&BTreeMap::from([(identity.replica, identity.node)])).await?;
        }
        Ok(())
    }

    /// Joins the sets that other nodes have, as a new member of each; returns when all have taken this node in. To be called
    /// at the first start and, for the volatile sets, at every start. The folder must have been created for their
    /// [cluster](UniformSetsOptions::cluster).
    ///
    /// # Errors
    /// `Invalid` without another node to ask, or if a node refuses this one because it belongs to another cluster or lives by another
    /// timing; `Timeout` and `Fatal` as [`Replica::join`] has them.
    pub async fn join(&self, nodes: &[NodeId]) -> Result<()> {
        for replica in self.replicas() {
            replica.join(nodes).await?;
        }
        Ok(())
    }

    /// A handle to a partition. Which set it lives in follows from its id.
    pub fn partition(&self, level: Level, id: PartitionId) -> Partition {
        let number = (id.0 % u64::from(self.sets_per_level)) as u16;
        match level {
            // Both have all numbers below that of the sets: they were created before this was made, and are kept by it.
            Level::None => Partition::local(id, self.local[&number].clone()),
            Level::Persisted | Level::Volatile => self.replicas[&SetId { level, number }].partition(id),
        }
    }

    /// The replica of a set on this node.
    pub fn replica(&self, set: SetId) -> Option<&Replica> {
        self.replicas.get(&set)
    }

    /// All replicas of this node.
    pub fn replicas(&self) -> impl Iterator<Item = &Replica> {
        self.replicas.values()
    }

    /// Answers a request of another node for one of the sets.
    pub async fn receive(&self, from: NodeId, set: SetId, request: Bytes) -> Bytes {
        self.node.receive(from, set, request).await
    }

    /// Stops all replicas. What was acknowledged is durable already.
    pub async fn stop(&self) {
        self.node.stop().await;
    }
}
