use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mainstay_core::task::{self, Scope};
use mainstay_core::time::{self, Duration};
use mainstay_core::{ClusterId, Level, NodeId, PartitionId, ReplicaId, Result, SetId};
use mainstay_replica::{Identity, InProcessNetwork, Partition, Replica, Role};
use mainstay_store::disk::Disk;
use mainstay_store::disk::sim::{DiskOp, Fault, SimDisk};
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

/// One in so many seeds has disks with sectors of 4 KiB: a crash keeps or drops eight times as much together.
const LARGE_SECTORS_EVERY: u64 = 4;

/// How long it may take, in simulated time, until nothing has the folder of a process open that was stopped.
const FOLDER_FREE: Duration = Duration::from_secs(1);

/// The nodes of a run.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub scenario: Scenario,
    pub network: InProcessNetwork,
    pub ledger: Arc<Ledger>,
    pub trace: Trace,
    pub bug: Option<PlantedBug>,
    seed: u64,
    nodes: Mutex<BTreeMap<NodeId, Node>>,
}

#[derive(Debug)]
struct Node {
    disk: SimDisk,
    running: Option<Running>,
    /// It is being started or stopped at this moment.
    is_busy: bool,
    /// Its power is about to go, or has gone: its replica may stop with an error, or not start.
    loses_power: bool,
    /// An operation of its disk was made to fail, with the same consequences.
    has_fault: bool,
}

impl Node {
    fn new(disk: SimDisk) -> Self {
        Self { disk, running: None, is_busy: false, loses_power: false, has_fault: false }
    }

    /// Stops the machine: what its disk had not synced is lost, and it works again.
    fn crash(&mut self) {
        self.disk.crash();
        self.disk.heal();
        self.loses_power = false;
        self.has_fault = false;
    }
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
    pub(crate) async fn bootstrap(&self) -> Result<()> {
        let members: BTreeMap<ReplicaId, NodeId> =
            (1..=self.scenario.replicas).map(|id| (ReplicaId(id), NodeId(id))).collect();
        for node in members.values() {
            self.start(*node).await?;
        }
        if let Some(first) = self.replica(NodeId(1)) {
            first.bootstrap(&members).await?;
        }
        Ok(())
    }

    /// Starts a node, or starts it again on what is left on its disk. One that runs, or that is being started or stopped at
    /// this moment, is left alone.
    pub(crate) async fn start(&self, id: NodeId) -> Result<()> {
        let disk = {
            let mut nodes = self.nodes.lock();
            let node = nodes.entry(id).or_insert_with(|| self.node(id));
            if node.running.is_some() || std::mem::replace(&mut node.is_busy, true) {
                return Ok(());
            }
            node.disk.clone()
        };
        let started = self.start_on(id, disk).await;
        match (self.nodes.lock().get_mut(&id), &started) {
            (Some(node), _) => {
                node.is_busy = false;
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

    /// A node with an empty disk. In some seeds the disks of all nodes have sectors of 4 KiB.
    fn node(&self, id: NodeId) -> Node {
        let seed = self.seed ^ id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let has_large_sectors = self.seed.is_multiple_of(LARGE_SECTORS_EVERY);
        Node::new(if has_large_sectors { SimDisk::with_large_sectors(seed) } else { SimDisk::new(seed) })
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
        replica.expect_anyone();
        let handler = replica.clone();
        self.network.attach(
            id,
            scope.clone(),
            Arc::new(move |from, _, request| {
                let replica = handler.clone();
                Box::pin(async move { replica.receive(from, request).await })
            }),
        );
        Ok(Running { replica, scope })
    }

    /// True if a node is there and neither runs nor is about to.
    pub(crate) fn is_down(&self, id: NodeId) -> bool {
        self.nodes.lock().get(&id).is_some_and(|node| node.running.is_none() && !node.is_busy)
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
        if self.bug == Some(PlantedBug::KeepFolderLocked) {
            std::mem::forget(store.clone());
        }
        let store = Arc::new(RecordingStore { replica: id.to_string(), store, ledger: self.ledger.clone() });
        let identity = Identity { cluster: CLUSTER, set: SET, replica: ReplicaId(id.0), node: id, data_loss: 0 };
        Replica::start(identity, self.scenario.replica.clone(), log, store, self.network.endpoint(id)).await
    }

    /// Kills a node where it stands; what its disk had not synced is lost. False if it did not run.
    pub(crate) fn crash(&self, id: NodeId) -> bool {
        let mut nodes = self.nodes.lock();
        let Some(node) = nodes.get_mut(&id) else { return false };
        let Some(running) = node.running.take() else { return false };
        event!(self.trace, "{id} crashes");
        self.kill(id, &running);
        node.crash();
        true
    }

    /// Kills the process of a node; its machine goes on, and what was written stays, synced or not. False if it did not run.
    pub(crate) fn end_process(&self, id: NodeId) -> bool {
        let mut nodes = self.nodes.lock();
        let Some(node) = nodes.get_mut(&id) else { return false };
        let Some(running) = node.running.take() else { return false };
        event!(self.trace, "the process of {id} is killed");
        self.kill(id, &running);
        node.disk.end_process();
        true
    }

    /// Stops the process of a node in an orderly way. Then its folder is free to be opened again.
    ///
    /// # Errors
    /// If something still has its folder open.
    pub(crate) async fn stop(&self, id: NodeId) -> std::result::Result<(), String> {
        let (running, disk) = {
            let mut nodes = self.nodes.lock();
            let Some(node) = nodes.get_mut(&id) else { return Ok(()) };
            let Some(running) = node.running.take() else { return Ok(()) };
            node.is_busy = true;
            (running, node.disk.clone())
        };
        event!(self.trace, "{id} is stopped");
        self.network.detach(id);
        running.replica.stop().await;
        running.scope.stop();
        running.scope.ended().await;
        drop(running);
        let is_free = async {
            while disk.is_locked() {
                time::sleep(Duration::from_millis(10)).await;
            }
        };
        let freed = time::timeout(FOLDER_FREE, is_free).await;
        event!(self.trace, "{id} has stopped");
        if let Some(node) = self.nodes.lock().get_mut(&id) {
            node.is_busy = false;
        }
        freed.map_err(|_| format!("the folder of {id} is still locked {FOLDER_FREE:?} after its process has stopped"))
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
            node.crash();
        }
    }

    /// True if the disk of a node was made to fail.
    pub(crate) fn is_doomed(&self, id: NodeId) -> bool {
        self.nodes.lock().get(&id).is_some_and(|node| node.loses_power || node.has_fault)
    }

    /// True if the disk of a node refuses everything by now, because its time has run out.
    pub(crate) fn is_without_power(&self, id: NodeId) -> bool {
        self.nodes.lock().get(&id).is_some_and(|node| node.disk.is_without_power())
    }

    /// Lets a node's disk fail from some operation on, as when the power goes in the midst of a write.
    pub(crate) fn doom(&self, id: NodeId, operations: u64) {
        if let Some(node) = self.nodes.lock().get_mut(&id) {
            event!(self.trace, "{id} loses power after {operations} more disk operations");
            node.loses_power = true;
            node.disk.power_off_after(operations);
        }
    }

    /// Lets one operation of a node's disk fail, once. The node may be one that was never started.
    pub(crate) fn inject(&self, id: NodeId, op: DiskOp, nth: u64) {
        let mut nodes = self.nodes.lock();
        let node = nodes.entry(id).or_insert_with(|| self.node(id));
        event!(self.trace, "{op:?} of the disk of {id} is to fail once, at number {nth} from now");
        node.has_fault = true;
        node.disk.inject(Fault::on(op).nth(nth));
    }

    /// True if an operation of a node's disk was made to fail, and that was not taken back.
    pub(crate) fn has_fault(&self, id: NodeId) -> bool {
        self.nodes.lock().get(&id).is_some_and(|node| node.has_fault)
    }

    /// How many operations of a node's disk have failed on purpose so far.
    pub(crate) fn struck(&self, id: NodeId) -> u64 {
        self.nodes.lock().get(&id).map_or(0, |node| node.disk.struck())
    }

    /// Takes back what was to fail on a node's disk.
    pub(crate) fn mend_disk(&self, id: NodeId) {
        if let Some(node) = self.nodes.lock().get_mut(&id) {
            node.disk.heal();
            node.has_fault = false;
        }
    }

    /// Takes back what was announced for the disk of a node. A node whose power has gone already, or whose disk may have
    /// failed already, crashes: then it can be started.
    pub(crate) fn disarm(&self, id: NodeId) {
        let is_well = match self.nodes.lock().get_mut(&id) {
            Some(node) if node.has_fault => false,
            Some(node) if node.loses_power => {
                let is_on = node.disk.keep_power();
                node.loses_power = !is_on;
                is_on
            }
            _ => return,
        };
        event!(self.trace, "the disk of {id} is not to fail any more; it has not yet: {is_well}");
        if !is_well {
            self.lose_power(id);
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

    /// Does something on a node, as a task of its process: it ends with that.
    pub(crate) fn on_node<F>(&self, id: NodeId, work: impl FnOnce(Replica) -> F) -> Option<task::JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let nodes = self.nodes.lock();
        let running = nodes.get(&id)?.running.as_ref()?;
        Some(running.scope.spawn(work(running.replica.clone())))
    }

    pub(crate) fn partition(&self, id: NodeId, partition: PartitionId) -> Option<Partition> {
        self.replica(id).map(|replica| replica.partition(partition))
    }

    pub(crate) fn primary(&self) -> Option<Replica> {
        let running = self.running().into_iter().filter_map(|id| self.replica(id));
        running.into_iter().find(|replica| replica.role_state().role == Role::Primary)
    }

    /// A replica that lacks what it had acknowledged to its primary.
    pub(crate) fn forgotten(&self) -> Option<String> {
        self.nodes.lock().values().find_map(|node| {
            let forgetful = node.running.as_ref()?.replica.status().forgetful;
            forgetful.first().map(|replica| format!("replica {replica} has forgotten entries that it had acknowledged"))
        })
    }

    /// A replica that stopped by itself although its disk did what it should.
    pub(crate) fn failure(&self) -> Option<String> {
        self.nodes.lock().iter().filter(|(_, node)| !node.loses_power && !node.has_fault).find_map(|(id, node)| {
            let failure = node.running.as_ref()?.replica.status().failure?;
            Some(format!("the replica on {id} stopped: {failure}"))
        })
    }
}
