//! A set that spreads over nodes which hold the replicas that they were given.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use mainstay_core::task::{self, Scope};
use mainstay_core::time::{self, Duration};
use mainstay_core::{ClusterId, ErrorKind, Level, NodeId, PartitionId, ReplicaId, SetId};
use mainstay_replica::{
    Answer, InProcessNetwork, Members, NodeReplicas, NodeReplicasOptions, Partition, ReplicaSpec, Role, Traffic,
    Transport, UniformSetsOptions,
};
use mainstay_store::disk::sim::SimDisk;

use crate::harness::{FOLDER, get, options, put};

const CLUSTER: ClusterId = ClusterId(0xc1);
const SET: SetId = SetId { level: Level::Persisted, number: 4 };

/// A way on which entries and states can be held up, and nothing else.
#[derive(Debug)]
struct Jammed {
    way: Arc<dyn Transport>,
    is_jammed: Arc<AtomicBool>,
}

impl Transport for Jammed {
    fn call(&self, to: NodeId, set: SetId, traffic: Traffic, request: Bytes) -> Answer {
        if traffic != Traffic::Heartbeat && self.is_jammed.load(Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        self.way.call(to, set, traffic, request)
    }
}

struct Nodes {
    network: InProcessNetwork,
    is_jammed: Arc<AtomicBool>,
    disks: BTreeMap<u64, SimDisk>,
    running: BTreeMap<u64, (NodeReplicas, Scope)>,
}

impl Nodes {
    async fn start(count: u64) -> Self {
        let (network, is_jammed) = (InProcessNetwork::new(), Arc::new(AtomicBool::new(false)));
        let mut nodes = Self { network, is_jammed, disks: BTreeMap::new(), running: BTreeMap::new() };
        for node in 1..=count {
            nodes.disks.insert(node, SimDisk::new(node));
            nodes.open(node).await;
        }
        nodes
    }

    async fn open(&mut self, number: u64) {
        let node = NodeId(number);
        let UniformSetsOptions { log, store, replica, .. } = options(number);
        let options = NodeReplicasOptions { log, store, replica, ..NodeReplicasOptions::new(CLUSTER, node) };
        let way = Arc::new(Jammed { way: self.network.endpoint(node), is_jammed: self.is_jammed.clone() });
        let scope = Scope::new();
        let disk = Arc::new(self.disks[&number].clone());
        let replicas = scope.enter(NodeReplicas::open(disk, Path::new(FOLDER), options, way)).await.unwrap();
        let handler = replicas.clone();
        self.network.attach(
            node,
            scope.clone(),
            Arc::new(move |from, set, request| {
                let replicas = handler.clone();
                Box::pin(async move { replicas.receive(from, set, request).await })
            }),
        );
        self.running.insert(number, (replicas, scope));
    }

    fn kill(&mut self, number: u64) {
        self.network.detach(NodeId(number));
        let (replicas, scope) = self.running.remove(&number).unwrap();
        replicas.kill();
        scope.stop();
        drop(replicas);
        self.disks[&number].crash();
    }

    fn node(&self, number: u64) -> &NodeReplicas {
        &self.running[&number].0
    }

    /// Tells the replicas of the set which nodes it has, or is going to have.
    fn expect(&self, expected: &[u64]) {
        for (node, _) in self.running.values() {
            if let Some(replica) = node.replica(SET) {
                replica.expect_members(expected.iter().map(|node| NodeId(*node)));
            }
        }
    }

    async fn create(&self, node: u64, replica: u64) {
        let spec = ReplicaSpec { set: SET, replica: ReplicaId(replica), data_loss: 0 };
        self.node(node).create_replica(spec).await.unwrap();
    }

    async fn primary(&self) -> Partition {
        let found = async {
            loop {
                for (node, _) in self.running.values() {
                    match node.partition(SET, PartitionId(1)) {
                        Ok(partition) if partition.check().is_ok() => return partition,
                        _ => {}
                    }
                }
                time::sleep(Duration::from_millis(10)).await;
            }
        };
        time::timeout(Duration::from_secs(60), found).await.expect("a primary within a minute")
    }

    async fn reach(&self, voters: &[(u64, u64)]) {
        let voters = voters.iter().map(|(replica, node)| (ReplicaId(*replica), NodeId(*node))).collect();
        let wanted = Members { voters, learners: BTreeMap::new() };
        let reached = async {
            loop {
                let replicas = self.running.values().filter_map(|(node, _)| node.replica(SET));
                let primary = replicas.into_iter().find(|replica| replica.role_state().role == Role::Primary);
                if let Some(primary) = primary
                    && primary.set_members(&wanted).await.is_ok()
                {
                    return;
                }
                time::sleep(Duration::from_millis(10)).await;
            }
        };
        time::timeout(Duration::from_secs(120), reached).await.expect("the members that are wanted");
    }
}

/// So many nodes, the first three of which have replicas 11 to 13, all of which vote.
async fn three(count: u64) -> Nodes {
    let nodes = Nodes::start(count).await;
    for node in 1..=3 {
        nodes.create(node, 10 + node).await;
    }
    nodes.expect(&[1, 2, 3]);
    let first = nodes.node(1).replica(SET).unwrap();
    first.bootstrap(&BTreeMap::from([(ReplicaId(11), NodeId(1))])).await.unwrap();
    put(&nodes.primary().await, "k", "1").await.unwrap();
    nodes.reach(&[(11, 1), (12, 2), (13, 3)]).await;
    nodes
}

#[tokio::test(start_paused = true)]
async fn a_set_grows_over_three_nodes_moves_and_survives_the_loss_of_each() {
    let mut nodes = three(4).await;
    for lost in 1..=3 {
        nodes.kill(lost);
        let partition = nodes.primary().await;
        assert_eq!(get(&partition, "k").as_deref(), Some(&*lost.to_string()));
        put(&partition, "k", &(lost + 1).to_string()).await.unwrap();
        drop(partition);
        nodes.open(lost).await;
        nodes.expect(&[1, 2, 3]);
    }
    // A move: a new replica on the fourth node instead of that on the first.
    nodes.create(4, 14).await;
    nodes.expect(&[1, 2, 3, 4]);
    nodes.reach(&[(12, 2), (13, 3), (14, 4)]).await;
    nodes.expect(&[2, 3, 4]);
    nodes.node(1).drop_replica(SET, ReplicaId(11)).await.unwrap();
    nodes.kill(2);
    let partition = nodes.primary().await;
    assert_eq!(get(&partition, "k").as_deref(), Some("4"));
    put(&partition, "k", "5").await.unwrap();
    // The first may get another one, under a new id.
    let again = ReplicaSpec { set: SET, replica: ReplicaId(11), data_loss: 0 };
    assert_eq!(nodes.node(1).create_replica(again).await.unwrap_err().kind(), ErrorKind::Invalid);
    nodes.create(1, 15).await;
    nodes.expect(&[1, 3, 4]);
    nodes.reach(&[(15, 1), (13, 3), (14, 4)]).await;
    nodes.kill(4);
    assert_eq!(get(&nodes.primary().await, "k").as_deref(), Some("5"));
}

#[tokio::test(start_paused = true)]
async fn a_removed_member_that_lives_on_disturbs_nobody() {
    let nodes = three(3).await;
    nodes.reach(&[(11, 1), (12, 2), (13, 3)]).await;
    let primary = nodes.primary().await.role_state().primary.unwrap().0;
    let removed = if primary == 3 { 2 } else { 3 };
    let staying: Vec<u64> = (1..=3).filter(|node| *node != removed).collect();
    // It never hears of its removal.
    for other in &staying {
        nodes.network.cut(NodeId(*other), NodeId(removed));
    }
    let voters: Vec<(u64, u64)> = staying.iter().map(|node| (10 + node, *node)).collect();
    nodes.reach(&voters).await;
    nodes.expect(&staying);
    let partition = nodes.primary().await;
    let epoch = partition.check().unwrap();
    let until = time::now() + Duration::from_secs(120);
    while time::now() < until {
        put(&partition, "k", "v").await.unwrap();
        time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(partition.check().unwrap(), epoch, "no election was forced");
    let stranger = nodes.node(removed).replica(SET).unwrap();
    assert_eq!(stranger.role_state().role, Role::Secondary);
}

#[tokio::test(start_paused = true)]
async fn a_way_that_is_full_of_entries_costs_no_election() {
    let nodes = three(3).await;
    let partition = nodes.primary().await;
    let epoch = partition.check().unwrap();
    nodes.is_jammed.store(true, Ordering::Relaxed);
    let committing = {
        let partition = partition.clone();
        task::spawn(async move { put(&partition, "k", "held up").await })
    };
    let until = time::now() + Duration::from_secs(60);
    while time::now() < until {
        assert_eq!(partition.check().unwrap(), epoch, "heartbeats get through");
        time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!committing.is_finished());
    nodes.is_jammed.store(false, Ordering::Relaxed);
    time::timeout(Duration::from_secs(30), committing).await.expect("it goes on").unwrap().unwrap();
    assert_eq!(partition.check().unwrap(), epoch);
}
