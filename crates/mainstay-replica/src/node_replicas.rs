use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::{
    ClusterId, Error, ErrorKind, Level, NodeId, PartitionId, RESTORE, ReplicaId, Result, SetId, random,
};
use mainstay_store::disk::{Disk, OpenMode};
use mainstay_store::log::{LogActivity, LogHealth, LogOptions, MemoryLog, NodeLog, SegmentLog};
use mainstay_store::state::{DiskStore, DiskStoreOptions, MemoryStore, StateStore};
use rand::Rng as _;

use crate::activity::SetActivity;
use crate::folder_lock::lock_folder;
use crate::health::Health;
use crate::identity::{NodeIdentity, Wanted};
use crate::local::LocalSet;
use crate::log_owner::LogOwner;
use crate::log_storage::{LogStorage, log_batch_bytes};
use crate::message::{Response, answer_version};
use crate::options::{CommitOptions, ReplicaOptions};
use crate::partition::Partition;
use crate::replica::{Identity, Replica};
use crate::transport::Transport;

/// How many replica sets a level has unless told otherwise: few enough that idle costs nearly nothing and logs batch well,
/// enough to spread over cores and nodes.
pub const SETS_PER_LEVEL: u16 = 8;

/// How many bytes a state file takes at most when it is new.
const STATE_FILE_BYTES: u64 = (1 << 20) + (64 << 10);

/// How the names of state files end.
const STATE_SUFFIX: &str = ".redb";

/// All replicas of a node: the persisted ones on one node log, the volatile ones in memory, and the sets of level none.
#[derive(Debug, Clone)]
pub struct NodeReplicas {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    cluster: ClusterId,
    node: NodeId,
    sets_per_level: u16,
    replicas: BTreeMap<SetId, Replica>,
    local: Vec<Arc<LocalSet>>,
    log: Arc<SegmentLog>,
}

/// How the replicas of a node are set up.
#[derive(Debug, Clone)]
pub struct NodeReplicasOptions {
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

impl NodeReplicasOptions {
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
        if self.sets_per_level == 0 {
            return Err(Error::invalid("sets_per_level is 0: a level needs at least one set"));
        }
        self.replica.check()?;
        let CommitOptions { commit_bytes_max, entry_bytes_max, .. } = self.replica.commit;
        let needed = log_batch_bytes(commit_bytes_max.max(entry_bytes_max));
        if needed > self.log.batch_bytes_max {
            return Err(Error::invalid(format!(
                "commit.bytes_max is {commit_bytes_max}, commit.entry_bytes_max is {entry_bytes_max} and log.batch_bytes_max is \
                 {}, so that what is committed would not fit into the log: give log.batch_bytes_max at least {needed}",
                self.log.batch_bytes_max
            )));
        }
        let LogOptions { segment_bytes, log_bytes_max, .. } = self.log;
        if log_bytes_max < segment_bytes.saturating_mul(2) {
            return Err(Error::invalid(format!(
                "log.segment_bytes is {segment_bytes} and log.bytes_max is {log_bytes_max}, which is less than the two segments that \
                 are reserved at all times: give log.bytes_max at least {}, or smaller segments",
                segment_bytes.saturating_mul(2)
            )));
        }
        let kept = self.replica.checkpoint.log_keep_bytes;
        if kept > log_bytes_max {
            return Err(Error::invalid(format!(
                "checkpoint.log_keep_bytes is {kept} and log.bytes_max is {log_bytes_max}, so that the log of one set alone would be \
                 too long: give log.bytes_max at least as much, or keep less"
            )));
        }
        Ok(())
    }

    /// About how many bytes of the disk a new data folder takes: the first two segments of the log, and a file for each
    /// persisted set.
    pub fn first_start_bytes(&self) -> u64 {
        self.log.first_start_bytes().saturating_add(u64::from(self.sets_per_level) * STATE_FILE_BYTES)
    }
}

impl NodeReplicas {
    /// Opens a data folder, creating it if need be, and starts a replica of every set.
    ///
    /// # Errors
    /// `Invalid` if options contradict each other, or the folder belongs to another node or cluster or was created with another
    /// number of sets; `Conflict` if another process uses it, `Corrupt` or `UnknownVersion` if it cannot be used.
    pub async fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        options: NodeReplicasOptions,
        transport: Arc<dyn Transport>,
    ) -> Result<Self> {
        options.check()?;
        let sets = options.sets_per_level;
        let state_folder = folder.join("state");
        let folder_lock = lock_folder(&*disk, folder).await?;
        check_room(&*disk, folder, &options)?;
        let wanted = Wanted { cluster: options.cluster, node: options.node, sets_per_level: sets };
        let mut identity = NodeIdentity::open(wanted, &*disk, folder)?;
        let node_log = Arc::new(open_log(disk.clone(), folder, identity.has_log, &options)?);
        drop(folder_lock);
        identity.log_is_there(&*disk, folder)?;
        let NodeIdentity { cluster, node, replicas: ids, .. } = identity;
        let log: Arc<dyn NodeLog> = node_log.clone();
        if let Some(replica) = ids.first().copied() {
            LogOwner { node, replica }.claim(&log, &folder.join("log")).await?;
        }
        let memory_log: Arc<dyn NodeLog> = Arc::new(MemoryLog::new());
        disk.create_dir_all(&state_folder).map_err(|error| folder_error(&state_folder, error))?;

        let mut replicas = BTreeMap::new();
        for (number, replica) in (0..sets).zip(ids) {
            let persisted = async {
                let set = SetId { level: Level::Persisted, number };
                let identity = Identity { cluster, set, replica, node };
                let store = open_store(disk.clone(), &state_folder, identity, &log, &options)?;
                Replica::start(identity, options.replica.clone(), log.clone(), store, transport.clone()).await
            };
            let volatile = async {
                let set = SetId { level: Level::Volatile, number };
                let replica = ReplicaId(random::rng().next_u64());
                let identity = Identity { cluster, set, replica, node };
                let store: Arc<dyn StateStore> = Arc::new(MemoryStore::new());
                Replica::start(identity, options.replica.clone(), memory_log.clone(), store, transport.clone()).await
            };
            for started in [persisted.await, volatile.await] {
                match started {
                    Ok(replica) => drop(replicas.insert(replica.inner.identity.set, replica)),
                    Err(error) => {
                        // What runs already holds the log and the stores, and nobody would ever stop it.
                        replicas.values().for_each(Replica::kill);
                        return Err(error);
                    }
                }
            }
        }
        // Each follows the role of the persisted set of its number.
        let of_level = |level, number| SetId { level, number };
        let local = (0..sets)
            .filter_map(|number| {
                let followed = replicas.get(&of_level(Level::Persisted, number))?;
                let bytes_max = options.replica.commit.commit_bytes_max;
                Some(LocalSet::following(of_level(Level::None, number), followed, bytes_max))
            })
            .collect();
        Ok(Self { inner: Arc::new(Inner { cluster, node, sets_per_level: sets, replicas, local, log: node_log }) })
    }

    /// The cluster that this node belongs to.
    pub fn cluster(&self) -> ClusterId {
        self.inner.cluster
    }

    /// Creates every set that does not exist yet, with this node as its only member.
    ///
    /// # Errors
    /// `Fatal` if a replica has stopped.
    pub async fn bootstrap(&self) -> Result<()> {
        for replica in self.inner.replicas.values() {
            let me = BTreeMap::from([(replica.status().identity.replica, self.inner.node)]);
            replica.bootstrap(&me).await?;
        }
        Ok(())
    }

    /// Joins the sets that other nodes have, as a new member of each; returns when all have taken this node in. To be called
    /// at the first start and, for the volatile sets, at every start. The folder must have been created for their
    /// [cluster](NodeReplicasOptions::cluster).
    ///
    /// # Errors
    /// `Invalid` without another node to ask, or if a node refuses this one because it belongs to another cluster or lives by another
    /// timing; `Timeout` and `Fatal` as [`Replica::join`] has them.
    pub async fn join(&self, nodes: &[NodeId]) -> Result<()> {
        for replica in self.inner.replicas.values() {
            replica.join(nodes).await?;
        }
        Ok(())
    }

    /// A handle to a partition. Which set it lives in follows from its id.
    pub fn partition(&self, level: Level, id: PartitionId) -> Partition {
        let number = (id.0 % u64::from(self.inner.sets_per_level)) as u16;
        match level {
            Level::None => Partition::local(id, self.inner.local[usize::from(number)].clone()),
            Level::Persisted | Level::Volatile => self.inner.replicas[&SetId { level, number }].partition(id),
        }
    }

    /// The replica of a set on this node.
    pub fn replica(&self, set: SetId) -> Option<&Replica> {
        self.inner.replicas.get(&set)
    }

    /// All replicas of this node.
    pub fn replicas(&self) -> impl Iterator<Item = &Replica> {
        self.inner.replicas.values()
    }

    /// What each set has done on this node since it was opened.
    pub fn activity(&self) -> Vec<(SetId, SetActivity)> {
        let replicated = self.inner.replicas.iter().map(|(set, replica)| (*set, replica.activity()));
        let local = self.inner.local.iter().map(|set| {
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
        let replicas = self.inner.replicas.iter();
        let stopped = replicas.filter_map(|(set, replica)| Some((*set, replica.failure()?))).collect();
        Health { log_failure: failure, stopped, low_space, free_bytes }
    }

    /// Answers a request of another node for one of the sets.
    pub async fn receive(&self, set: SetId, request: Bytes) -> Bytes {
        match self.inner.replicas.get(&set) {
            Some(replica) => replica.receive(request).await,
            None => Response::Failed(format!("node {} has no replica of set {set}", self.inner.node))
                .encode(answer_version(&request)),
        }
    }

    /// Stops all replicas. What was acknowledged is durable already.
    pub async fn stop(&self) {
        self.inner.local.iter().for_each(|set| set.stop());
        for replica in self.inner.replicas.values() {
            replica.stop().await;
        }
    }
}

/// Refuses to begin a data folder for which the disk has no room: it would be left half made.
fn check_room(disk: &dyn Disk, folder: &Path, options: &NodeReplicasOptions) -> Result<()> {
    if NodeIdentity::is_there(disk, folder)? {
        return Ok(());
    }
    // A disk that does not say how much room it has is tried.
    let Ok(space) = disk.space(folder) else { return Ok(()) };
    let needed = options.first_start_bytes();
    if space.free_bytes >= needed {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::StorageFull,
        format!(
            "the disk of {} has {} MiB left, and a new data folder takes {} MiB (beside what log.reserve_bytes keeps back): make room, \
             or choose a folder on another disk",
            folder.display(),
            space.free_bytes >> 20,
            needed.div_ceil(1 << 20)
        ),
    ))
}

/// Opens the node log, and creates it only where there was none yet and is no state: the log is there, durably, before the
/// first state is.
fn open_log(disk: Arc<dyn Disk>, folder: &Path, had_log: bool, options: &NodeReplicasOptions) -> Result<SegmentLog> {
    let (log_folder, state_folder) = (folder.join("log"), folder.join("state"));
    let has_state = match disk.list(&state_folder) {
        Ok(names) => names.iter().any(|name| name.ends_with(STATE_SUFFIX)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(folder_error(&state_folder, error)),
    };
    let must_exist = had_log || has_state;
    let mode = if must_exist { OpenMode::Existing } else { options.log.mode };
    SegmentLog::open(disk, &log_folder, LogOptions { mode, ..options.log.clone() }).map_err(|error| match error.kind() {
        ErrorKind::NotFound if must_exist => Error::corrupt(format!(
            "{} is the data folder of a node that has run, but its log {} is gone, and with it all that was committed since \
             the last checkpoints and whom this node has voted for; {RESTORE}",
            folder.display(),
            log_folder.display()
        )),
        _ => error,
    })
}

fn open_store(
    disk: Arc<dyn Disk>,
    folder: &Path,
    identity: Identity,
    log: &Arc<dyn NodeLog>,
    options: &NodeReplicasOptions,
) -> Result<Arc<dyn StateStore>> {
    let Identity { set, node, replica, .. } = identity;
    let path: PathBuf = folder.join(format!("{set}{STATE_SUFFIX}"));
    let name = format!("state file {}", path.display());
    let log = LogStorage::of_set(log.clone(), set);
    let share = usize::from(options.sets_per_level);
    let options = DiskStoreOptions {
        cache_bytes_max: options.store.cache_bytes_max / share,
        owner: Bytes::from(format!("{set} of {node}, replica {replica}")),
        // A log that was cut is worth nothing without the file: an empty one must not take its place.
        mode: if log.first() > 0 { OpenMode::Existing } else { options.store.mode },
    };
    // Builds before named no replica.
    let former = DiskStoreOptions { owner: Bytes::from(format!("{set} of {node}")), ..options.clone() };
    let opened = match DiskStore::open(disk.clone(), &path, options) {
        Err(refused) if refused.kind() == ErrorKind::Invalid => {
            DiskStore::open(disk, &path, former).map_err(|_| refused)
        }
        opened => opened,
    };
    let store = match opened {
        Err(missing) if missing.kind() == ErrorKind::NotFound => {
            log.check_joins(0, &name)?;
            return Err(missing);
        }
        opened => opened?,
    };
    // The replica looks, too, and does not know the file's name.
    log.check_joins(store.mark().index, &name)?;
    Ok(Arc::new(store))
}

/// What is told when something of a data folder cannot be used.
pub(crate) fn folder_error(path: &Path, error: io::Error) -> Error {
    use io::ErrorKind::{
        AlreadyExists, InvalidFilename, InvalidInput, NotADirectory, NotFound, PermissionDenied, QuotaExceeded,
        ReadOnlyFilesystem, WouldBlock,
    };
    let (kind, remedy) = match error.kind() {
        io::ErrorKind::StorageFull | QuotaExceeded => {
            (ErrorKind::StorageFull, "the disk is full; make room, or choose a folder on another disk")
        }
        WouldBlock => (ErrorKind::Conflict, "another process uses it; stop that, or choose another folder"),
        PermissionDenied => (
            ErrorKind::Invalid,
            "permission denied; let the user of this process read and write it, or choose another folder",
        ),
        ReadOnlyFilesystem => {
            (ErrorKind::Invalid, "the file system is read-only; mount it for writing, or choose another folder")
        }
        AlreadyExists | NotADirectory => {
            (ErrorKind::Invalid, "it, or something on the way to it, is a file and no folder; choose another folder")
        }
        NotFound | InvalidInput | InvalidFilename => {
            (ErrorKind::Invalid, "there can be no such folder; choose another one")
        }
        _ => (ErrorKind::Fatal, "check the disk"),
    };
    Error::new(kind, format!("cannot use {}: {remedy}", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    use mainstay_store::disk::sim::SimDisk;

    use super::*;
    use crate::InProcessNetwork;

    fn options() -> NodeReplicasOptions {
        let mut options = NodeReplicasOptions::new(NodeId(1));
        options.log.driver =
            mainstay_store::log::Driver::Task { sync_delay: mainstay_store::log::SyncDelay::default() };
        options
    }

    async fn open(disk: &SimDisk) -> Result<NodeReplicas> {
        let transport = InProcessNetwork::new().endpoint(NodeId(1));
        NodeReplicas::open(Arc::new(disk.clone()), Path::new("/data"), options(), transport).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_folder_takes_what_it_says_and_a_disk_without_it_is_told_how_much() {
        let (disk, needed) = (SimDisk::new(1), options().first_start_bytes());
        open(&disk).await.unwrap().stop().await;
        let used = disk.used_bytes();
        assert!(used <= needed && needed < 4 * used, "{used} bytes used, {needed} said");

        let disk = SimDisk::new(1);
        disk.set_capacity(Some(needed - 1));
        let error = open(&disk).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        let said = format!("a new data folder takes {} MiB", needed.div_ceil(1 << 20));
        assert!(error.to_string().contains(&said) && error.to_string().contains("make room"), "{error}");
        assert_eq!(disk.list(Path::new("/data")).unwrap().iter().filter(|name| *name == "identity").count(), 0);

        disk.set_capacity(Some(needed));
        open(&disk).await.unwrap().stop().await;
        // One that is there is opened however little is left.
        disk.set_capacity(Some(disk.used_bytes()));
        open(&disk).await.unwrap().stop().await;
    }

    #[test]
    fn what_keeps_a_folder_from_being_used_is_told_with_a_remedy_and_not_twice() {
        for (error, kind, says) in [
            (io::ErrorKind::PermissionDenied, ErrorKind::Invalid, "let the user of this process read and write it"),
            (io::ErrorKind::ReadOnlyFilesystem, ErrorKind::Invalid, "mount it for writing"),
            (io::ErrorKind::NotADirectory, ErrorKind::Invalid, "is a file and no folder"),
            (io::ErrorKind::AlreadyExists, ErrorKind::Invalid, "is a file and no folder"),
            (io::ErrorKind::StorageFull, ErrorKind::StorageFull, "make room"),
            (io::ErrorKind::QuotaExceeded, ErrorKind::StorageFull, "make room"),
            (io::ErrorKind::WouldBlock, ErrorKind::Conflict, "another process uses it"),
            (io::ErrorKind::Other, ErrorKind::Fatal, "check the disk"),
        ] {
            let told = folder_error(Path::new("/data"), io::Error::new(error, "what the system said"));
            assert_eq!(told.kind(), kind, "{told}");
            assert!(told.to_string().starts_with("cannot use /data: ") && told.to_string().contains(says), "{told}");
            assert_eq!(format!("{told:?}").matches("what the system said").count(), 1);
        }
    }
}
