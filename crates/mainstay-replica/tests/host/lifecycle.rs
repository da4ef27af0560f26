//! Replicas that come and go while a node runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{ClusterId, Epoch, ErrorKind, Level, NodeId, PartitionId, ReplicaId, Result, SetId, task};
use mainstay_replica::{
    InProcessNetwork, NodeReplicas, NodeReplicasOptions, Partition, Replica, ReplicaSpec, Role, UniformSetsOptions,
};
use mainstay_store::disk::Disk as _;
use mainstay_store::disk::sim::{DiskOp, Fault, SimDisk};
use mainstay_store::log::{GroupId, NodeLog as _, SegmentLog};

use crate::harness::{FOLDER, Nodes, founded, get, options, put};

const CLUSTER: ClusterId = ClusterId(0xc1);
const NODE: NodeId = NodeId(1);

const fn persisted(number: u16) -> SetId {
    SetId { level: Level::Persisted, number }
}

const fn volatile(number: u16) -> SetId {
    SetId { level: Level::Volatile, number }
}

const fn spec(set: SetId, replica: u64) -> ReplicaSpec {
    ReplicaSpec { set, replica: ReplicaId(replica), data_loss: 0 }
}

fn node_options() -> NodeReplicasOptions {
    let UniformSetsOptions { log, store, replica, .. } = options(NODE.0);
    NodeReplicasOptions { log, store, replica, ..NodeReplicasOptions::new(CLUSTER, NODE) }
}

async fn open_with(disk: &SimDisk, options: NodeReplicasOptions) -> Result<NodeReplicas> {
    let transport = InProcessNetwork::new().endpoint(NODE);
    NodeReplicas::open(Arc::new(disk.clone()), Path::new(FOLDER), options, transport).await
}

async fn open(disk: &SimDisk) -> Result<NodeReplicas> {
    open_with(disk, node_options()).await
}

/// Ends a node where it stands; its disk loses what was not synced.
fn crash(node: NodeReplicas, disk: &SimDisk) {
    node.kill();
    drop(node);
    disk.crash();
}

/// A replica that is the only one of its set, when it is primary.
async fn alone(node: &NodeReplicas, spec: ReplicaSpec) -> Result<Replica> {
    let replica = node.create_replica(spec).await?;
    replica.bootstrap(&BTreeMap::from([(spec.replica, NODE)])).await?;
    is_primary(&replica).await;
    Ok(replica)
}

async fn is_primary(replica: &Replica) {
    let mut role = replica.watch();
    let primary = role.wait_for(|role_state| role_state.role == Role::Primary);
    time::timeout(Duration::from_secs(60), primary).await.expect("a primary within a minute").unwrap();
}

fn partition(node: &NodeReplicas, set: SetId) -> Partition {
    node.partition(set, PartitionId(1)).unwrap()
}

fn refusal<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, says: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

/// The groups that the log of a folder has which nothing uses, without the one that names its owner.
fn groups(disk: &SimDisk) -> Vec<u64> {
    let log = SegmentLog::open(Arc::new(disk.clone()), &Path::new(FOLDER).join("log"), node_options().log).unwrap();
    log.groups().into_iter().map(|GroupId(group)| group).filter(|group| *group != u64::MAX).collect()
}

fn state_files(disk: &SimDisk) -> Vec<String> {
    let names = disk.list(&Path::new(FOLDER).join("state")).unwrap();
    names.into_iter().filter(|name| name.ends_with(".redb")).collect()
}

#[tokio::test(start_paused = true)]
async fn replicas_come_and_go_and_persisted_ones_come_back_with_the_folder() {
    let disk = SimDisk::new(1);
    assert_eq!(NodeReplicas::identity_of(&disk, Path::new(FOLDER)).unwrap(), None);
    let node = open(&disk).await.unwrap();
    assert_eq!((node.cluster(), node.node(), node.boot()), (CLUSTER, NODE, 1));
    assert!(node.replicas().is_empty());
    for set in [persisted(3), volatile(3), SetId { level: Level::None, number: 3 }] {
        refusal(node.partition(set, PartitionId(1)), ErrorKind::NotFound, &set.to_string());
        assert!(node.replica(set).is_none());
    }
    alone(&node, spec(persisted(3), 10)).await.unwrap();
    alone(&node, spec(volatile(0), 11)).await.unwrap();
    put(&partition(&node, persisted(3)), "k", "kept").await.unwrap();
    put(&partition(&node, volatile(0)), "k", "lost").await.unwrap();
    let none = SetId { level: Level::None, number: 3 };
    put(&partition(&node, none), "k", "lost").await.unwrap();
    assert_eq!(node.activity().len(), 3);
    assert!(node.health().stopped.is_empty());

    // The same again is the same one, and there is no other beside it.
    assert_eq!(node.create_replica(spec(persisted(3), 10)).await.unwrap().identity().replica, ReplicaId(10));
    assert_eq!(node.create_replica(spec(volatile(0), 11)).await.unwrap().identity().replica, ReplicaId(11));
    for set in [persisted(3), volatile(0)] {
        refusal(node.create_replica(spec(set, 12)).await, ErrorKind::Conflict, "drop that before r12");
    }
    let lossy = ReplicaSpec { data_loss: 1, ..spec(persisted(3), 10) };
    refusal(node.create_replica(lossy).await, ErrorKind::Invalid, "data-loss number");
    let huge = ReplicaSpec { data_loss: Epoch::DATA_LOSS_MAX + 1, ..spec(persisted(4), 13) };
    refusal(node.create_replica(huge).await, ErrorKind::Invalid, "data-loss number");
    refusal(node.create_replica(spec(none, 13)).await, ErrorKind::Invalid, "level none");
    node.stop().await;
    refusal(node.create_replica(spec(persisted(5), 14)).await, ErrorKind::Fatal, "has stopped");
    refusal(node.drop_replica(persisted(3), ReplicaId(10)).await, ErrorKind::Fatal, "has stopped");
    drop(node);

    let said = NodeReplicas::identity_of(&disk, Path::new(FOLDER)).unwrap().unwrap();
    assert_eq!((said.cluster, said.node, said.boot), (Some(CLUSTER), NODE, 1));
    let node = open_with(&disk, NodeReplicasOptions { owner: None, ..node_options() }).await.unwrap();
    assert_eq!((node.cluster(), node.node(), node.boot()), (CLUSTER, NODE, 2));
    let sets: Vec<SetId> = node.replicas().iter().map(|replica| replica.identity().set).collect();
    assert_eq!(sets, [persisted(3)], "a volatile one ends with its process");
    is_primary(&node.replica(persisted(3)).unwrap()).await;
    assert_eq!(get(&partition(&node, persisted(3)), "k").as_deref(), Some("kept"));
    assert_eq!(get(&partition(&node, none), "k"), None);
    refusal(node.create_replica(spec(volatile(0), 11)).await, ErrorKind::Invalid, "was on node n1 before");
    alone(&node, spec(volatile(0), 15)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_replica_leaves_nothing_but_a_tombstone() {
    let disk = SimDisk::new(1);
    let node = open(&disk).await.unwrap();
    for set in [persisted(0), volatile(0)] {
        alone(&node, spec(set, 10)).await.unwrap();
        let held = partition(&node, set);
        put(&held, "k", "of r10").await.unwrap();
        node.drop_replica(set, ReplicaId(9)).await.unwrap();
        assert_eq!(get(&held, "k").as_deref(), Some("of r10"), "another one was dropped, which was never here");
        node.drop_replica(set, ReplicaId(10)).await.unwrap();
        node.drop_replica(set, ReplicaId(10)).await.unwrap();

        refusal(node.partition(set, PartitionId(1)), ErrorKind::NotFound, &set.to_string());
        assert!(node.replica(set).is_none());
        assert_eq!(put(&held, "k", "late").await.unwrap_err().kind(), ErrorKind::Fatal, "{set}");
        assert_eq!(held.get(b"k").unwrap_err().kind(), ErrorKind::NotPrimary { hint: None }, "{set}");
        for used in [9, 10] {
            refusal(node.create_replica(spec(set, used)).await, ErrorKind::Invalid, "no id is used twice");
        }
        // A handle to the old one is still there and holds its lock.
        alone(&node, spec(set, 11)).await.unwrap();
        assert_eq!(get(&partition(&node, set), "k"), None, "{set}");
        put(&partition(&node, set), "k", "of r11").await.unwrap();
    }
    refusal(node.partition(SetId { level: Level::None, number: 1 }, PartitionId(1)), ErrorKind::NotFound, "none-1");
    crash(node, &disk);
    assert_eq!((groups(&disk), state_files(&disk).len()), (vec![1], 1));
    let node = open(&disk).await.unwrap();
    is_primary(&node.replica(persisted(0)).unwrap()).await;
    assert_eq!(get(&partition(&node, persisted(0)), "k").as_deref(), Some("of r11"));
    for (set, used) in [(persisted(0), 10), (volatile(0), 10), (volatile(0), 11)] {
        node.drop_replica(persisted(0), ReplicaId(11)).await.unwrap();
        refusal(node.create_replica(spec(set, used)).await, ErrorKind::Invalid, "no id is used twice");
    }
    node.stop().await;
    drop(node);
    assert_eq!((groups(&disk), state_files(&disk)), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_operation_of_a_creation_leaves_a_folder_that_opens() {
    let wanted = spec(persisted(7), 20);
    for operations in 0.. {
        let disk = SimDisk::new(operations);
        let node = open(&disk).await.unwrap();
        alone(&node, spec(persisted(0), 10)).await.unwrap();
        put(&partition(&node, persisted(0)), "k", "v").await.unwrap();
        disk.power_off_after(operations);
        let created = node.create_replica(wanted).await;
        let is_created = created.is_ok();
        drop(created);
        crash(node, &disk);

        let node = open(&disk).await.unwrap_or_else(|error| panic!("after {operations} operations: {error}"));
        assert!(!is_created || node.replica(persisted(7)).is_some(), "after {operations} operations it is gone");
        is_primary(&node.replica(persisted(0)).unwrap()).await;
        assert_eq!(get(&partition(&node, persisted(0)), "k").as_deref(), Some("v"));
        // Whether it is there or not, asking for it again is fine.
        alone(&node, wanted).await.unwrap_or_else(|error| panic!("after {operations} operations: {error}"));
        put(&partition(&node, persisted(7)), "k", "v").await.unwrap();
        crash(node, &disk);
        assert_eq!((groups(&disk).len(), state_files(&disk).len()), (2, 2), "after {operations} operations");
        if is_created {
            assert!(operations > 10, "{operations} operations are hardly a creation");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_operation_of_a_drop_leaves_the_replica_or_its_tombstone() {
    for operations in 0.. {
        let disk = SimDisk::new(operations);
        let node = open(&disk).await.unwrap();
        for set in [persisted(0), persisted(1)] {
            alone(&node, spec(set, 10)).await.unwrap();
            put(&partition(&node, set), "k", "v").await.unwrap();
        }
        node.replica(persisted(1)).unwrap().checkpoint().await.unwrap();
        disk.power_off_after(operations);
        let dropped = node.drop_replica(persisted(1), ReplicaId(10)).await;
        crash(node, &disk);

        let node = open(&disk).await.unwrap_or_else(|error| panic!("after {operations} operations: {error}"));
        let left = node.replica(persisted(1));
        assert!(dropped.is_err() || left.is_none(), "after {operations} operations it is back");
        match left {
            Some(replica) => {
                is_primary(&replica).await;
                assert_eq!(get(&partition(&node, persisted(1)), "k").as_deref(), Some("v"), "{operations}");
            }
            None => refusal(node.create_replica(spec(persisted(1), 10)).await, ErrorKind::Invalid, "used twice"),
        }
        node.drop_replica(persisted(1), ReplicaId(10)).await.unwrap();
        alone(&node, spec(persisted(1), 11)).await.unwrap();
        assert_eq!(get(&partition(&node, persisted(1)), "k"), None);
        is_primary(&node.replica(persisted(0)).unwrap()).await;
        assert_eq!(get(&partition(&node, persisted(0)), "k").as_deref(), Some("v"));
        crash(node, &disk);
        assert_eq!((groups(&disk).len(), state_files(&disk).len()), (2, 2), "after {operations} operations");
        if dropped.is_ok() {
            assert!(operations > 10, "{operations} operations are hardly a drop");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_disk_leaves_no_half_replica_in_the_way() {
    let faults = [
        Fault::on(DiskOp::Rename).path("/data/identity.new"),
        Fault::on(DiskOp::Open).path("/data/state/persisted-7.1.redb.import-new"),
        Fault::on(DiskOp::Sync).path("/data/state/persisted-7.1.redb.import-new"),
    ];
    for fault in faults {
        let disk = SimDisk::new(1);
        let node = open(&disk).await.unwrap();
        alone(&node, spec(persisted(0), 10)).await.unwrap();
        disk.inject(fault);
        node.create_replica(spec(persisted(7), 20)).await.unwrap_err();
        assert_eq!(disk.struck(), 1, "the fault has struck");
        assert!(node.replica(persisted(7)).is_none());
        disk.heal();
        // Another one may come instead: what was there of the first is no second replica of the set.
        alone(&node, spec(persisted(7), 21)).await.unwrap();
        put(&partition(&node, persisted(7)), "k", "v").await.unwrap();
        put(&partition(&node, persisted(0)), "k", "v").await.unwrap();
        crash(node, &disk);
        let node = open(&disk).await.unwrap();
        assert_eq!(node.replicas().len(), 2);
        is_primary(&node.replica(persisted(7)).unwrap()).await;
        assert_eq!(get(&partition(&node, persisted(7)), "k").as_deref(), Some("v"));
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_that_want_the_same_set_one_gets_it() {
    let disk = SimDisk::new(1);
    let node = open(&disk).await.unwrap();
    let mut tasks = Vec::new();
    for number in 0..12 {
        let node = node.clone();
        let wanted = spec(persisted(number % 3), 100 + u64::from(number));
        tasks.push(task::spawn(async move { node.create_replica(wanted).await }));
    }
    let mut created = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            Ok(replica) => created.push(replica.identity()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    }
    let sets: Vec<SetId> = created.iter().map(|identity| identity.set).collect();
    assert_eq!(sets, [0, 1, 2].map(persisted));
    // Dropped and looked at at the same time.
    let mut tasks = Vec::new();
    for identity in created {
        let (dropping, looking) = (node.clone(), node.clone());
        tasks.push(task::spawn(async move { dropping.drop_replica(identity.set, identity.replica).await }));
        tasks.push(task::spawn(async move {
            let _ = (looking.partition(identity.set, PartitionId(1)), looking.health(), looking.activity());
            looking.receive(NodeId(2), identity.set, vec![1, 2, 3].into()).await;
            Ok(())
        }));
    }
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert!(node.replicas().is_empty());
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_creation_goes_on_when_its_caller_goes_away() {
    let disk = SimDisk::new(1);
    let node = open(&disk).await.unwrap();
    let begun = time::timeout(Duration::ZERO, node.create_replica(spec(persisted(1), 10))).await;
    assert!(begun.is_err(), "it takes longer than that");
    let there = async {
        while node.replica(persisted(1)).is_none() {
            time::sleep(Duration::from_millis(1)).await;
        }
    };
    time::timeout(Duration::from_secs(10), there).await.expect("it goes on");
    // Asked for in the meantime, it would have been the same one.
    alone(&node, spec(persisted(1), 10)).await.unwrap();
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn epochs_of_a_set_that_is_created_again_are_above_all_before() {
    let disk = SimDisk::new(1);
    let mut node = open(&disk).await.unwrap();
    let mut highest = Epoch(0);
    for (data_loss, set) in [(0, volatile(0)), (1, volatile(0)), (2, volatile(0))] {
        let wanted = ReplicaSpec { data_loss, ..spec(set, 10 + u64::from(data_loss)) };
        let replica = alone(&node, wanted).await.unwrap();
        let held = partition(&node, set);
        let epoch = held.check().unwrap();
        assert!(epoch > highest && epoch.data_loss() == data_loss, "{epoch} after {highest}");
        let mut stale = held.batch();
        stale.put(b"k", b"stale").in_epoch(highest);
        assert!(matches!(held.commit(stale).await.unwrap_err().kind(), ErrorKind::NotPrimary { .. }));
        put(&held, "k", &data_loss.to_string()).await.unwrap();
        assert_eq!(held.read().unwrap().epoch(), epoch);
        assert_eq!(replica.status().role_state.epoch, epoch);
        highest = epoch;
        if data_loss == 1 {
            // Elections within an incarnation go on from there, too.
            node.stop().await;
            drop((node, replica, held));
            node = open(&disk).await.unwrap();
        } else {
            drop((replica, held));
            node.drop_replica(set, wanted.replica).await.unwrap();
        }
    }
    // A persisted one keeps its number with the folder.
    let kept = ReplicaSpec { data_loss: 5, ..spec(persisted(0), 30) };
    let epoch = partition_of(&alone(&node, kept).await.unwrap()).check().unwrap();
    put(&partition(&node, persisted(0)), "k", "v").await.unwrap();
    crash(node, &disk);
    let node = open(&disk).await.unwrap();
    is_primary(&node.replica(persisted(0)).unwrap()).await;
    let again = partition(&node, persisted(0));
    assert!(again.check().unwrap() > epoch && again.check().unwrap().data_loss() == 5);
    assert_eq!(get(&again, "k").as_deref(), Some("v"), "what was committed in such an epoch is applied again");
}

fn partition_of(replica: &Replica) -> Partition {
    replica.partition(PartitionId(1))
}

#[tokio::test(start_paused = true)]
async fn a_folder_with_uniform_sets_is_opened_with_its_replicas_and_gets_more() {
    let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
    let process = founded(&nodes, &disk, UniformSetsOptions { sets_per_level: 2, ..options(1) }).await;
    put(&process.replicas.partition(Level::Persisted, PartitionId(1)), "k", "v").await.unwrap();
    let cluster = process.replicas.cluster();
    nodes.stop(process).await;
    assert_eq!(state_files(&disk), ["persisted-0.redb", "persisted-1.redb"]);
    let owner = Some((cluster, NODE));
    let node = open_with(&disk, NodeReplicasOptions { owner, ..node_options() }).await.unwrap();
    assert_eq!((node.replicas().len(), node.boot()), (2, 2));
    is_primary(&node.replica(persisted(1)).unwrap()).await;
    assert_eq!(get(&partition(&node, persisted(1)), "k").as_deref(), Some("v"));
    alone(&node, spec(persisted(u16::MAX), 3)).await.unwrap();
    node.stop().await;
    drop(node);
    for (owner, says) in [((ClusterId(7), NODE), cluster.to_string()), ((cluster, NodeId(2)), "n1".to_owned())] {
        let other = open_with(&disk, NodeReplicasOptions { owner: Some(owner), ..node_options() }).await;
        refusal(other.map(drop), ErrorKind::Invalid, &says);
    }
    // The set of another kind is not counted.
    let process = founded(&nodes, &disk, UniformSetsOptions { sets_per_level: 2, ..options(1) }).await;
    assert_eq!(process.replicas.node_replicas().boot(), 3, "those that were refused do not count");
    nodes.stop(process).await;
    let refused = open_with(&SimDisk::new(2), NodeReplicasOptions { owner: None, ..node_options() }).await;
    refusal(refused.map(drop), ErrorKind::NotFound, "say which node");
}
