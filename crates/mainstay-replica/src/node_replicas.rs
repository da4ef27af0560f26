mod folder;
mod lifecycle;
mod options;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use mainstay_core::{ClusterId, Error, ErrorKind, Level, NodeId, PartitionId, Result, SetId, task};
use mainstay_store::disk::Disk;
use mainstay_store::log::{LogActivity, LogHealth, MemoryLog, NodeLog, SegmentLog};
use parking_lot::RwLock;

pub(crate) use self::folder::folder_error;
use self::folder::{LOG_FOLDER, STATE_FOLDER, check_room, open_log};
pub(crate) use self::lifecycle::Ids;
pub use self::lifecycle::ReplicaSpec;
pub use self::options::NodeReplicasOptions;
use crate::activity::SetActivity;
use crate::folder_lock::lock_folder;
use crate::health::Health;
use crate::identity::{FolderIdentity, NodeIdentity, Wanted};
use crate::local::LocalSet;
use crate::log_owner::LogOwner;
use crate::message::{Response, answer_version};
use crate::partition::Partition;
use crate::replica::Replica;
use crate::transport::Transport;

/// All replicas of a node: the persisted ones on one node log, the volatile ones in memory, and the sets of level none. They come
/// and go while the node runs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NodeReplicas {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    cluster: ClusterId,
    node: NodeId,
    boot: u64,
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    options: NodeReplicasOptions,
    transport: Arc<dyn Transport>,
    log: Arc<SegmentLog>,
    memory_log: Arc<dyn NodeLog>,
    /// The group of the log in memory that the next volatile replica gets.
    next_volatile_group: AtomicU64,
    /// Locked while a replica is created or dropped, one at a time.
    identity: tokio::sync::Mutex<NodeIdentity>,
    running: RwLock<Running>,
    /// Carries creations and drops to their end, even if who asked for them goes away.
    scope: task::Scope,
}

/// What runs. Locked for moments only.
#[derive(Debug, Default)]
struct Running {
    replicas: BTreeMap<SetId, Replica>,
    /// The sets of level none, each beside the persisted one of its number.
    local: BTreeMap<u16, Arc<LocalSet>>,
    /// Nothing is started any more.
    is_stopped: bool,
}

impl NodeReplicas {
    /// What a folder says of itself, without opening it; `None` if it is empty or not there.
    ///
    /// # Errors
    /// `Corrupt` or `UnknownVersion` if what it says cannot be read, or if it holds data and does not say whose.
    pub fn identity_of(disk: &dyn Disk, folder: &Path) -> Result<Option<FolderIdentity>> {
        NodeIdentity::peek(disk, folder)
    }

    /// Opens a data folder, creating it if it is to be, and starts the persisted replicas that it has. What a crash has left of one
    /// that was being created or dropped is finished.
    ///
    /// # Errors
    /// `Invalid` if options contradict each other, or the folder belongs to another node or cluster; `NotFound` if it is empty and
    /// no owner is given; `Conflict` if another process uses it, `Corrupt` or `UnknownVersion` if it cannot be used.
    pub async fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        options: NodeReplicasOptions,
        transport: Arc<dyn Transport>,
    ) -> Result<Self> {
        let (cluster, node) = options.owner.unzip();
        Self::open_wanted(disk, folder, Wanted { cluster, node }, options, transport).await
    }

    pub(crate) async fn open_wanted(
        disk: Arc<dyn Disk>,
        folder: &Path,
        wanted: Wanted,
        options: NodeReplicasOptions,
        transport: Arc<dyn Transport>,
    ) -> Result<Self> {
        options.check()?;
        let folder_lock = lock_folder(&*disk, folder).await?;
        check_room(&*disk, folder, &options)?;
        let mut identity = NodeIdentity::open(wanted, &*disk, folder)?;
        let node_log = Arc::new(open_log(disk.clone(), folder, identity.has_log, &options)?);
        drop(folder_lock);
        // Durably: without the log, the replicas would come back without their memory.
        identity.change(&*disk, folder, |next| next.has_log = true)?;
        let log: Arc<dyn NodeLog> = node_log.clone();
        let owner = LogOwner { node: identity.node, replica: identity.log_token };
        owner.claim(&log, &folder.join(LOG_FOLDER)).await?;
        let state_folder = folder.join(STATE_FOLDER);
        disk.create_dir_all(&state_folder).map_err(|error| folder_error(&state_folder, error))?;
        let inner = Inner {
            cluster: identity.cluster,
            node: identity.node,
            boot: identity.boot,
            disk,
            folder: folder.to_path_buf(),
            options,
            transport,
            log: node_log,
            memory_log: Arc::new(MemoryLog::new()),
            next_volatile_group: AtomicU64::new(0),
            identity: tokio::sync::Mutex::new(identity),
            running: RwLock::default(),
            scope: task::Scope::new(),
        };
        let this = Self { inner: Arc::new(inner) };
        match this.take_up().await {
            Ok(()) => Ok(this),
            Err(error) => {
                // What runs already holds the log and the stores, and nobody would ever stop it.
                this.kill();
                Err(error)
            }
        }
    }

    /// The cluster that this node belongs to.
    pub fn cluster(&self) -> ClusterId {
        self.inner.cluster
    }

    /// The node that this is.
    pub fn node(&self) -> NodeId {
        self.inner.node
    }

    /// How often the data folder was opened, this time included. A node whose number is not above the one that others have seen of it
    /// runs on an old copy of its folder.
    pub fn boot(&self) -> u64 {
        self.inner.boot
    }

    /// A handle to a partition of a set. A set of level none is there if the persisted one of its number is.
    ///
    /// # Errors
    /// `NotFound` if this node has no replica of the set.
    pub fn partition(&self, set: SetId, id: PartitionId) -> Result<Partition> {
        let running = self.inner.running.read();
        let found = match set.level {
            Level::None => running.local.get(&set.number).map(|local| Partition::local(id, local.clone())),
            Level::Persisted | Level::Volatile => running.replicas.get(&set).map(|replica| replica.partition(id)),
        };
        found.ok_or_else(|| self.not_here(set))
    }

    /// The replica of a set on this node.
    pub fn replica(&self, set: SetId) -> Option<Replica> {
        self.inner.running.read().replicas.get(&set).cloned()
    }

    /// All replicas of this node, by their sets.
    pub fn replicas(&self) -> Vec<Replica> {
        self.inner.running.read().replicas.values().cloned().collect()
    }

    /// The sets of level none, by their numbers.
    pub(crate) fn local_sets(&self) -> BTreeMap<u16, Arc<LocalSet>> {
        self.inner.running.read().local.clone()
    }

    /// What each set has done on this node since its replica was started.
    pub fn activity(&self) -> Vec<(SetId, SetActivity)> {
        let running = self.inner.running.read();
        let replicated = running.replicas.iter().map(|(set, replica)| (*set, replica.activity()));
        let local = running.local.values().map(|set| {
            let activity = SetActivity { commits: set.commits(), held: set.counts(), ..SetActivity::default() };
            (set.id(), activity)
        });
        replicated.chain(local).collect()
    }

    /// What the node log has done since it was opened.
    pub fn log_activity(&self) -> LogActivity {
        self.inner.log.activity()
    }

    /// What is wrong with the log and the replicas, if anything is.
    pub fn health(&self) -> Health {
        let LogHealth { failure, low_space, free_bytes } = self.inner.log.health();
        let replicas = self.replicas().into_iter();
        let stopped = replicas.filter_map(|replica| Some((replica.identity().set, replica.failure()?))).collect();
        Health { log_failure: failure, stopped, low_space, free_bytes }
    }

    /// Answers a request of another node for one of the sets. Whatever the bytes are, it answers and does not panic.
    pub async fn receive(&self, from: NodeId, set: SetId, request: Bytes) -> Bytes {
        match self.replica(set) {
            Some(replica) => replica.receive(from, request).await,
            None => Response::Failed(self.not_here(set).to_string()).encode(answer_version(&request)),
        }
    }

    /// Stops all replicas, after one that is just being created or dropped. What was acknowledged is durable already.
    pub async fn stop(&self) {
        let _alone = self.inner.identity.lock().await;
        let (replicas, local) = self.end();
        local.iter().for_each(|set| set.stop());
        for replica in replicas {
            replica.stop().await;
        }
        self.inner.scope.stop();
    }

    /// Stops every task of all replicas where it stands, as a crash would.
    pub fn kill(&self) {
        let (replicas, _) = self.end();
        self.inner.scope.stop();
        replicas.iter().for_each(Replica::kill);
    }

    /// Sees to it that nothing is started any more; returns what runs.
    fn end(&self) -> (Vec<Replica>, Vec<Arc<LocalSet>>) {
        let mut running = self.inner.running.write();
        running.is_stopped = true;
        (running.replicas.values().cloned().collect(), running.local.values().cloned().collect())
    }

    fn not_here(&self, set: SetId) -> Error {
        Error::new(ErrorKind::NotFound, format!("node {} has no replica of set {set}", self.inner.node))
    }
}
