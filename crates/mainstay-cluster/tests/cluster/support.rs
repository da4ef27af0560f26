//! Machines on a simulated network, and what is asked of them.

use std::path::Path;
use std::sync::Arc;

use mainstay_cluster::control::ControlState;
use mainstay_cluster::control::record::{NodeState, ServiceKind};
use mainstay_cluster::message::{ControlAnswer, ControlRequest, ServiceRegistration};
use mainstay_cluster::{ClusterNode, ClusterOptions, Membership, NodeParts, NodeSets, WireTransport};
use mainstay_core::partitioning::Partitioning;
use mainstay_core::time::{self, Duration};
use mainstay_core::{Level, NodeId, PartitionId, Result, SetId, random};
use mainstay_replica::{Role, SimDisk};
use mainstay_wire::sim::SimNetwork;
use mainstay_wire::{Address, Incoming, Serve};

use crate::memory_sets::{Folder, MemorySets};

pub(crate) const SETS: u16 = 2;
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A machine with a disk. It keeps both when its process ends.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) host: String,
    pub(crate) network: SimNetwork,
    pub(crate) disk: SimDisk,
    pub(crate) folder: Folder,
}

/// A node that runs on a machine.
pub(crate) struct Process {
    pub(crate) node: ClusterNode,
    pub(crate) sets: Arc<MemorySets>,
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
    Machine { host: host.to_owned(), network: network.clone(), disk: SimDisk::new(1), folder: Folder::default() }
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

    /// Starts a node as its owner would: whose folder, its replicas, then the network.
    pub(crate) async fn start_with(&self, options: &ClusterOptions) -> Result<Process> {
        let disk = Arc::new(self.disk.clone());
        let membership = Membership::find(disk, Path::new("/data"), self.folder.identity(), options).await?;
        let transport = WireTransport::new();
        let (sets, boot) = MemorySets::open(&self.folder, membership.owner(), Arc::new(transport.clone())).await?;
        let parts = NodeParts { membership, sets: sets.clone(), boot, transport, serve: Arc::new(NoOther) };
        let listen = self.network.listen(&address(&self.host))?;
        let node = ClusterNode::start(parts, options, listen).await?;
        Ok(Process { node, sets })
    }
}

impl Process {
    pub(crate) fn state(&self) -> Arc<ControlState> {
        self.node.control().get()
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
                self.sets.statuses()
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
        self.sets.kill_all();
        self.node.stop().await;
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
        process.node.announced().await.unwrap();
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
