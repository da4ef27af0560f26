use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mainstay_core::task::Scope;
use mainstay_core::{ClusterId, Level, NodeId, PartitionId, ReplicaId, Result, SetId};
use mainstay_replica::{Identity, InProcessNetwork, Partition, Replica, Role};
use mainstay_store::disk::Disk;
use mainstay_store::disk::sim::SimDisk;
use mainstay_store::log::{NodeLog, SegmentLog};
use mainstay_store::state::{DiskStore, StateStore};
use parking_lot::Mutex;

use crate::event;
use crate::ledger::{Ledger, RecordingStore};
use crate::planted::PlantedBug;
use crate::scenario::Scenario;
use crate::trace::Trace;

/// The cluster that is simulated.
pub(crate) const CLUSTER: ClusterId = ClusterId(1);

/// The set that is simulated.
pub(crate) const SET: SetId = SetId { level: Level::Persisted, number: 0 };

/// The nodes of a run.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub scenario: Scenario,
    pub network: InProcessNetwork,
    pub ledger: Arc<Ledger>,
    pub trace: Trace,
    bug: Option<PlantedBug>,
    seed: u64,
    nodes: Mutex<BTreeMap<NodeId, Node>>,
}

#[derive(Debug)]
struct Node {
    disk: SimDisk,
    running: Option<Running>,
    /// Somebody starts it at this moment.
    starting: bool,
    /// Its disk was made to fail: its replica may stop with an error, or not start.
    doomed: bool,
}

#[derive(Debug, Clone)]
struct Running {
    replica: Replica,
    scope: Scope,
}

impl Cluster {
    pub(crate) fn new(seed: u64, scenario: Scenario, bug: Option<PlantedBug>, trace: Trace) -> Self {
        let network = InProcessNetwork::new();
        network.set_troubles(scenario.calm);
        Self { scenario, network, ledger: Arc::default(), trace, bug, seed, nodes: Mutex::default() }
    }

    /// Starts the first nodes and founds the set on them.
    pub(crate) async fn found(&self) -> Result<()> {
        let members: BTreeMap<ReplicaId, NodeId> =
            (1..=self.scenario.replicas).map(|id| (ReplicaId(id), NodeId(id))).collect();
        for node in members.values() {
            self.start(*node).await?;
        }
        if let Some(first) = self.replica(NodeId(1)) {
            first.found(&members).await?;
        }
        Ok(())
    }

    /// Starts a node, or starts it again on what is left on its disk. One that runs, or that somebody else starts at this
    /// moment, is left alone.
    pub(crate) async fn start(&self, id: NodeId) -> Result<()> {
        let disk = {
            let mut nodes = self.nodes.lock();
            let disk = || SimDisk::new(self.seed ^ id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let node =
                nodes.entry(id).or_insert_with(|| Node { disk: disk(), running: None, starting: false, doomed: false });
            if node.running.is_some() || std::mem::replace(&mut node.starting, true) {
                return Ok(());
            }
            node.disk.clone()
        };
        let started = self.start_on(id, disk).await;
        match (self.nodes.lock().get_mut(&id), &started) {
            (Some(node), _) => {
                node.starting = false;
                node.running = started.as_ref().ok().cloned();
            }
            // It was taken away meanwhile.
            (None, Ok(running)) => self.kill(id, running),
            (None, Err(_)) => {}
        }
        match &started {
            Ok(_) => event!(self.trace, "{id} started"),
            Err(error) => event!(self.trace, "{id} could not start: {:?}", error.kind()),
        }
        started.map(drop)
    }

    async fn start_on(&self, id: NodeId, disk: SimDisk) -> Result<Running> {
        let scope = Scope::new();
        let replica = match scope.enter(self.open(id, disk)).await {
            Ok(replica) => replica,
            Err(error) => {
                scope.stop();
                return Err(error);
            }
        };
        let handler = replica.clone();
        self.network.attach(
            id,
            scope.clone(),
            Arc::new(move |_, request| {
                let replica = handler.clone();
                Box::pin(async move { replica.receive(request).await })
            }),
        );
        Ok(Running { replica, scope })
    }

    /// True if a node is there and neither runs nor is about to.
    pub(crate) fn is_down(&self, id: NodeId) -> bool {
        self.nodes.lock().get(&id).is_some_and(|node| node.running.is_none() && !node.starting)
    }

    async fn open(&self, id: NodeId, disk: SimDisk) -> Result<Replica> {
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let folder = Path::new("/data");
        disk.create_dir_all(folder).map_err(|error| mainstay_core::Error::fatal("no folder").with_source(error))?;
        let log: Arc<dyn NodeLog> =
            Arc::new(SegmentLog::open(disk.clone(), &folder.join("log"), self.scenario.log.clone())?);
        let log = PlantedBug::plant(self.bug, log);
        let store: Arc<dyn StateStore> =
            Arc::new(DiskStore::open(disk, &folder.join("state"), self.scenario.store.clone())?);
        let store = Arc::new(RecordingStore { replica: id.to_string(), store, ledger: self.ledger.clone() });
        let identity = Identity { cluster: CLUSTER, set: SET, replica: ReplicaId(id.0), node: id };
        Replica::start(identity, self.scenario.replica.clone(), log, store, self.network.endpoint(id)).await
    }

    /// Kills a node where it stands; what its disk had not synced is lost. False if it did not run.
    pub(crate) fn crash(&self, id: NodeId) -> bool {
        let mut nodes = self.nodes.lock();
        let Some(node) = nodes.get_mut(&id) else { return false };
        let Some(running) = node.running.take() else { return false };
        event!(self.trace, "{id} crashes");
        self.kill(id, &running);
        node.disk.crash();
        node.doomed = false;
        true
    }

    fn kill(&self, id: NodeId, running: &Running) {
        self.network.detach(id);
        running.replica.kill();
        running.scope.stop();
    }

    /// Kills a node, whether it runs or has failed to start.
    pub(crate) fn lose_power(&self, id: NodeId) {
        if !self.crash(id)
            && let Some(node) = self.nodes.lock().get_mut(&id)
        {
            node.disk.crash();
            node.doomed = false;
        }
    }

    /// True if the power of a node is about to go, or has gone.
    pub(crate) fn is_doomed(&self, id: NodeId) -> bool {
        self.nodes.lock().get(&id).is_some_and(|node| node.doomed)
    }

    /// True if the disk of a node refuses everything by now, because its time has run out.
    pub(crate) fn is_without_power(&self, id: NodeId) -> bool {
        self.nodes.lock().get(&id).is_some_and(|node| node.disk.is_without_power())
    }

    /// Lets a node's disk fail from some operation on, as when the power goes in the midst of a write.
    pub(crate) fn doom(&self, id: NodeId, operations: u64) {
        if let Some(node) = self.nodes.lock().get_mut(&id) {
            event!(self.trace, "{id} loses power after {operations} more disk operations");
            node.doomed = true;
            node.disk.power_off_after(operations);
        }
    }

    /// Takes a node away for good.
    pub(crate) fn retire(&self, id: NodeId) {
        self.crash(id);
        self.nodes.lock().remove(&id);
    }

    pub(crate) fn ids(&self) -> Vec<NodeId> {
        self.nodes.lock().keys().copied().collect()
    }

    pub(crate) fn running(&self) -> Vec<NodeId> {
        self.nodes.lock().iter().filter(|(_, node)| node.running.is_some()).map(|(id, _)| *id).collect()
    }

    pub(crate) fn replica(&self, id: NodeId) -> Option<Replica> {
        self.nodes.lock().get(&id)?.running.as_ref().map(|running| running.replica.clone())
    }

    pub(crate) fn partition(&self, id: NodeId, partition: PartitionId) -> Option<Partition> {
        self.replica(id).map(|replica| replica.partition(partition))
    }

    pub(crate) fn primary(&self) -> Option<Replica> {
        let running = self.running().into_iter().filter_map(|id| self.replica(id));
        running.into_iter().find(|replica| replica.standing().role == Role::Primary)
    }

    /// A replica that stopped by itself although its disk did what it should.
    pub(crate) fn failure(&self) -> Option<String> {
        self.nodes.lock().iter().filter(|(_, node)| !node.doomed).find_map(|(id, node)| {
            let failure = node.running.as_ref()?.replica.status().failure?;
            Some(format!("the replica on {id} stopped: {failure}"))
        })
    }
}
