//! Machines on a simulated network, and what is asked of them.

use std::path::Path;
use std::sync::Arc;

use mainstay_cluster::control::ControlState;
use mainstay_cluster::control::record::{NodeState, ServiceKind};
use mainstay_cluster::message::{ControlAnswer, ControlRequest, ServiceRegistration};
use mainstay_cluster::{ClusterNode, ClusterOptions, Membership, NodeParts, NodeSets as _, WireTransport};
use mainstay_core::partitioning::Partitioning;
use mainstay_core::time::{self, Duration};
use mainstay_core::{ClusterId, Level, NodeId, PartitionId, Result, SetId, random};
use mainstay_replica::{Disk as _, FolderIdentity, NodeReplicas, NodeReplicasOptions, Replica, Role, SimDisk};
use mainstay_store::disk::OpenMode;
use mainstay_store::log::{Driver, LogOptions, SyncDelay};
use mainstay_wire::sim::SimNetwork;
use mainstay_wire::{Address, Incoming, Serve};

pub(crate) const SETS: u16 = 2;
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A machine with a disk. It keeps both when its process ends.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) host: String,
    pub(crate) network: SimNetwork,
    pub(crate) disk: SimDisk,
}

/// A node that runs on a machine.
pub(crate) struct Process {
    pub(crate) node: ClusterNode,
    pub(crate) sets: NodeReplicas,
    disk: SimDisk,
}

struct NoOther;

impl Serve for NoOther {
    fn receive(&self, incoming: Incoming) {
        incoming.refuse_kind();
    }
}

pub(crate) fn address(host: &str) -> Address {
    format!("{host}:7400").parse().unwrap()
}

pub(crate) fn persisted(number: u16) -> SetId {
    SetId { level: Level::Persisted, number }
}

/// A network with so many machines, `n1` and on.
pub(crate) fn machines(count: usize) -> Vec<Machine> {
    random::seed_thread(7);
    let network = SimNetwork::new();
    (1..=count).map(|number| machine(&network, &format!("n{number}"))).collect()
}

pub(crate) fn machine(network: &SimNetwork, host: &str) -> Machine {
    Machine { host: host.to_owned(), network: network.clone(), disk: SimDisk::new(1) }
}

impl Machine {
    pub(crate) fn options(&self, seeds: &[&str]) -> ClusterOptions {
        let mut options = ClusterOptions::new(address(&self.host));
        options.seeds = seeds.iter().map(|seed| address(seed)).collect();
        options.dial = Arc::new(self.network.dial_from(&self.host));
        options.founding.sets_per_level = SETS;
        options
    }

    pub(crate) async fn start(&self, seeds: &[&str]) -> Result<Process> {
        self.start_with(&self.options(seeds)).await
    }

    /// Begins to join, and ends after so long if it has not come about.
    pub(crate) async fn interrupted_join(&self, seeds: &[&str], after: Duration) -> bool {
        let (disk, options) = (Arc::new(self.disk.clone()), self.options(seeds));
        time::timeout(after, Membership::find(disk, Path::new(FOLDER), None, &options)).await.is_err()
    }

    /// Starts a node as its owner would: whose folder, its replicas, then the network.
    pub(crate) async fn start_with(&self, options: &ClusterOptions) -> Result<Process> {
        let (disk, folder) = (Arc::new(self.disk.clone()), Path::new(FOLDER));
        let known = NodeReplicas::identity_of(&*disk, folder)?;
        let membership = Membership::find(disk.clone(), folder, known.as_ref(), options).await?;
        let transport = WireTransport::new();
        let (cluster, node) = membership.owner();
        let sets =
            NodeReplicas::open(disk, folder, replica_options(cluster, node), Arc::new(transport.clone())).await?;
        let guard = KillOnDrop(Some(sets.clone()));
        let boot = sets.boot();
        let parts = NodeParts { membership, sets: Arc::new(sets.clone()), boot, transport, serve: Arc::new(NoOther) };
        let listen = self.network.listen(&address(&self.host))?;
        let node = ClusterNode::start(parts, options, Some(listen)).await?;
        guard.disarm();
        Ok(Process { node, sets, disk: self.disk.clone() })
    }

    /// Whose the folder is, and how often it was opened.
    pub(crate) fn identity(&self) -> Option<FolderIdentity> {
        NodeReplicas::identity_of(&self.disk, Path::new(FOLDER)).unwrap()
    }

    /// The same machine with another disk that has what is in this one's folder. Not while a node runs on it.
    pub(crate) fn copied(&self) -> Self {
        let copy = SimDisk::new(2);
        for part in ["", "log", "state"] {
            let folder = Path::new(FOLDER).join(part);
            copy.create_dir_all(&folder).unwrap();
            for name in self.disk.list(&folder).unwrap_or_default() {
                let Ok(file) = self.disk.open(&folder.join(&name), OpenMode::Existing) else { continue };
                let mut bytes = vec![0; file.len().unwrap() as usize];
                file.read_exact_at(&mut bytes, 0).unwrap();
                let to = copy.open(&folder.join(&name), OpenMode::New).unwrap();
                to.write_all_at(&bytes, 0).unwrap();
                to.sync().unwrap();
            }
            copy.sync_dir(&folder).unwrap();
        }
        Self { disk: copy, ..self.clone() }
    }
}

const FOLDER: &str = "/data";

fn replica_options(cluster: ClusterId, node: NodeId) -> NodeReplicasOptions {
    let mut options = NodeReplicasOptions::new(cluster, node);
    options.log = LogOptions {
        segment_bytes: 256 << 10,
        driver: Driver::Task { sync_delay: SyncDelay::default() },
        ..LogOptions::default()
    };
    options.store.cache_bytes_max = 8 << 20;
    options
}

/// Ends the replicas of a start that is given up half way.
struct KillOnDrop(Option<NodeReplicas>);

impl KillOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(sets) = &self.0 {
            sets.kill();
        }
    }
}

impl Process {
    pub(crate) fn state(&self) -> Arc<ControlState> {
        self.node.control().get()
    }

    /// Waits until the cluster has taken note of this start, or refuses it.
    pub(crate) async fn announced(&self) -> Result<()> {
        time::timeout(5 * MINUTE, self.node.announced()).await.expect("the cluster says something")
    }

    /// Waits until something is so in this node's view of the control state.
    pub(crate) async fn until(&self, what: &str, condition: impl FnMut(&ControlState) -> bool) -> Arc<ControlState> {
        let mut control = self.node.control().clone();
        let waited = time::timeout(5 * MINUTE, control.wait_for(condition)).await;
        match waited {
            Ok(state) => state.unwrap(),
            Err(_) => panic!(
                "node {} never saw that {what}: {:#?}\nit holds {:#?}",
                self.node.node(),
                self.state(),
                self.sets.replicas().iter().map(Replica::status).collect::<Vec<_>>()
            ),
        }
    }

    /// Waits until every set has exactly so many voters, as wanted and confirmed.
    pub(crate) async fn until_settled(&self, nodes: usize, voters: usize) -> Arc<ControlState> {
        let what = format!("{nodes} nodes have settled with {voters} voters");
        self.until(&what, |state| {
            state.up().count() == nodes
                && !state.sets.is_empty()
                && state.sets.values().all(|set| set.wanted == set.confirmed && set.wanted.voters.len() == voters)
        })
        .await
    }

    pub(crate) async fn request(&self, request: ControlRequest) -> Result<ControlAnswer> {
        self.node.client().request(&request, MINUTE).await
    }

    /// Commits a value to a partition of a set that this node leads.
    pub(crate) async fn put(&self, set: SetId, key: &[u8], value: &[u8]) -> Result<()> {
        let partition = self.sets.partition(set, PartitionId(16))?;
        let mut batch = partition.batch();
        batch.put(key, value);
        partition.commit(batch).await.map(drop)
    }

    pub(crate) fn is_primary(&self, set: SetId) -> bool {
        self.sets.roles(set).is_some_and(|roles| roles.borrow().role == Role::Primary)
    }

    /// Ends the process without a word.
    pub(crate) async fn crash(&self) {
        self.sets.kill();
        self.node.stop().await;
        self.disk.end_process();
    }

    /// Stops one replica and leaves it stopped.
    pub(crate) fn kill_replica(&self, set: SetId) {
        self.sets.replica(set).unwrap().kill();
    }
}

pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = time::now();
    while !condition() {
        assert!(begun.elapsed() < 5 * MINUTE, "it never came about that {what}");
        time::sleep(Duration::from_millis(10)).await;
    }
}

/// The primary of a set among processes.
pub(crate) async fn primary<'p>(processes: &[&'p Process], set: SetId) -> &'p Process {
    until(&format!("{set} has a primary"), || processes.iter().any(|process| process.is_primary(set))).await;
    processes.iter().find(|process| process.is_primary(set)).unwrap()
}

/// Three nodes that have settled.
pub(crate) async fn three(machines: &[Machine]) -> Vec<Process> {
    let mut processes = Vec::new();
    for (number, machine) in machines.iter().enumerate() {
        let seeds: &[&str] = if number == 0 { &[] } else { &["n1"] };
        let process = machine.start(seeds).await.unwrap();
        process.announced().await.unwrap();
        processes.push(process);
    }
    for process in &processes {
        process.until_settled(3, 3).await;
    }
    processes
}

pub(crate) fn registration(name: &str, level: Level) -> ServiceRegistration {
    ServiceRegistration {
        name: name.to_owned(),
        kind: ServiceKind::Actors,
        level,
        partitioning: Partitioning::uniform(4),
        interfaces: [name.to_owned()].into(),
        call_timeout_ms: None,
        partitions: None,
    }
}

pub(crate) fn is_up(state: &ControlState, node: NodeId) -> bool {
    state.nodes.get(&node).is_some_and(|node| node.state == NodeState::Up)
}
