//! Replicas that come and go, on logs and stores in memory that survive the node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use mainstay_cluster::control::record::MemberList;
use mainstay_cluster::{HeldReplica, NodeSets, Working};
use mainstay_core::{ClusterId, Error, ErrorKind, Level, NodeId, PartitionId, ReplicaId, Result, SetId};
use mainstay_replica::{Identity, Partition, Replica, ReplicaOptions, RoleState, Status, Transport};
use mainstay_store::log::MemoryLog;
use mainstay_store::state::MemoryStore;
use parking_lot::Mutex;
use tokio::sync::watch;

/// What a folder holds. Clones are the same one; [`copy`](Folder::copy) is another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folder {
    content: Arc<Mutex<Content>>,
}

#[derive(Debug, Clone, Default)]
struct Content {
    identity: Option<(ClusterId, NodeId)>,
    boot: u64,
    stored: BTreeMap<SetId, Stored>,
    dropped: BTreeSet<ReplicaId>,
}

#[derive(Debug, Clone)]
struct Stored {
    replica: ReplicaId,
    log: Arc<MemoryLog>,
    store: Arc<MemoryStore>,
}

impl Folder {
    pub(crate) fn identity(&self) -> Option<(ClusterId, NodeId)> {
        self.content.lock().identity
    }

    /// The same content, of which later changes of the boot counter are not seen. What is in the logs is shared: only who the
    /// folder says that it is counts in these tests.
    pub(crate) fn copy(&self) -> Self {
        Self { content: Arc::new(Mutex::new(self.content.lock().clone())) }
    }

    pub(crate) fn boot(&self) -> u64 {
        self.content.lock().boot
    }
}

/// The replicas of a node that runs.
#[derive(Debug)]
pub(crate) struct MemorySets {
    cluster: ClusterId,
    node: NodeId,
    folder: Folder,
    transport: Arc<dyn Transport>,
    running: Mutex<BTreeMap<SetId, Replica>>,
    /// The members that were last asked for and are in force.
    asked: Mutex<BTreeMap<SetId, MemberList>>,
}

impl MemorySets {
    /// Opens a folder: raises its boot counter, and starts what it holds.
    pub(crate) async fn open(
        folder: &Folder,
        (cluster, node): (ClusterId, NodeId),
        transport: Arc<dyn Transport>,
    ) -> Result<(Arc<Self>, u64)> {
        let (boot, stored) = {
            let mut content = folder.content.lock();
            assert_eq!(*content.identity.get_or_insert((cluster, node)), (cluster, node));
            content.boot += 1;
            (content.boot, content.stored.clone())
        };
        let sets = Arc::new(Self {
            cluster,
            node,
            folder: folder.clone(),
            transport,
            running: Mutex::default(),
            asked: Mutex::default(),
        });
        for (set, stored) in stored {
            sets.start(set, stored).await?;
        }
        Ok((sets, boot))
    }

    async fn start(&self, set: SetId, stored: Stored) -> Result<()> {
        let Stored { replica, log, store } = stored;
        let identity = Identity { cluster: self.cluster, set, replica, node: self.node };
        let started = Replica::start(identity, ReplicaOptions::default(), log, store, self.transport.clone()).await?;
        self.running.lock().insert(set, started);
        Ok(())
    }

    pub(crate) fn replica(&self, set: SetId) -> Option<Replica> {
        self.running.lock().get(&set).cloned()
    }

    /// Stops one replica and leaves it stopped.
    pub(crate) fn kill(&self, set: SetId) {
        if let Some(replica) = self.running.lock().remove(&set) {
            replica.kill();
        }
    }

    /// What the replicas know, for a test that fails.
    pub(crate) fn statuses(&self) -> Vec<Status> {
        self.running.lock().values().map(Replica::status).collect()
    }

    pub(crate) fn kill_all(&self) {
        std::mem::take(&mut *self.running.lock()).values().for_each(Replica::kill);
    }

    fn found_replica(&self, set: SetId) -> Result<Replica> {
        let missing = || Error::new(ErrorKind::NotFound, format!("node {} has no replica of set {set}", self.node));
        self.replica(set).ok_or_else(missing)
    }

    /// The members that a replica knows. These replicas know no way to only learn, so that learners vote here, and are
    /// told apart by what was asked for.
    fn members(&self, replica: &Replica) -> MemberList {
        let status = replica.status();
        let set = status.identity.set;
        let all: BTreeMap<ReplicaId, NodeId> = status.voters.clone();
        match self.asked.lock().get(&set) {
            Some(asked) if asked.all().collect::<BTreeMap<_, _>>() == all => asked.clone(),
            _ => MemberList { voters: all, learners: status.learners },
        }
    }
}

impl Drop for MemorySets {
    fn drop(&mut self) {
        self.kill_all();
    }
}

impl NodeSets for MemorySets {
    fn held(&self) -> Vec<HeldReplica> {
        let running: Vec<Replica> = self.running.lock().values().cloned().collect();
        let held = |replica: &Replica| HeldReplica {
            set: replica.identity().set,
            replica: replica.identity().replica,
            role_state: replica.role_state(),
            members: self.members(replica),
        };
        running.iter().map(held).collect()
    }

    fn roles(&self, set: SetId) -> Option<watch::Receiver<RoleState>> {
        self.replica(set).map(|replica| replica.watch())
    }

    fn create<'a>(&'a self, set: SetId, replica: ReplicaId, _data_loss: u32) -> Working<'a, Result<()>> {
        Box::pin(async move {
            if let Some(known) = self.replica(set) {
                assert_eq!(known.identity().replica, replica, "a second replica of {set} on node {}", self.node);
                return Ok(());
            }
            let stored = Stored { replica, log: Arc::new(MemoryLog::new()), store: Arc::new(MemoryStore::new()) };
            {
                let mut content = self.folder.content.lock();
                assert!(!content.dropped.contains(&replica), "{replica} was dropped here before");
                if set.level == Level::Persisted {
                    content.stored.insert(set, stored.clone());
                }
            }
            self.start(set, stored).await
        })
    }

    fn drop_replica<'a>(&'a self, set: SetId, replica: ReplicaId) -> Working<'a, Result<()>> {
        Box::pin(async move {
            self.kill(set);
            let mut content = self.folder.content.lock();
            content.stored.remove(&set);
            content.dropped.insert(replica);
            Ok(())
        })
    }

    fn found<'a>(&'a self, set: SetId) -> Working<'a, Result<()>> {
        Box::pin(async move {
            let replica = self.found_replica(set)?;
            replica.bootstrap(&BTreeMap::from([(replica.identity().replica, self.node)])).await
        })
    }

    fn set_members<'a>(&'a self, set: SetId, members: &'a MemberList) -> Working<'a, Result<()>> {
        Box::pin(async move {
            let replica = self.found_replica(set)?;
            let before = replica.status().voters;
            for (id, node) in members.all().filter(|(id, _)| !before.contains_key(id)) {
                replica.add_member(id, node).await?;
            }
            let gone = replica.status().voters.into_keys().filter(|id| !members.contains(*id));
            for id in gone.collect::<Vec<_>>() {
                replica.remove_member(id).await?;
            }
            self.asked.lock().insert(set, members.clone());
            Ok(())
        })
    }

    fn expect(&self, _set: SetId, _nodes: BTreeSet<NodeId>) {}

    fn partition(&self, set: SetId, partition: PartitionId) -> Result<Partition> {
        Ok(self.found_replica(set)?.partition(partition))
    }

    fn receive(&self, _from: NodeId, set: SetId, request: Bytes) -> Working<'static, Bytes> {
        match self.replica(set) {
            Some(replica) => Box::pin(async move { replica.receive(request).await }),
            // As a node does that does not know the set yet: nothing that could be read.
            None => Box::pin(async { Bytes::new() }),
        }
    }
}
