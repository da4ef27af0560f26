use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{ClusterId, ErrorKind, Level, NodeId, PartitionId, ReplicaId, SetId};
use mainstay_replica::{Replica, Role, UniformSetsOptions};
use mainstay_store::disk::sim::SimDisk;
use mainstay_store::disk::{Disk as _, OpenMode};
use mainstay_store::log::{GroupId, LogBatch, NodeLog as _, SegmentLog};
use mainstay_store::state::{DiskStore, DiskStoreOptions};

use crate::harness::{FOLDER, Nodes, Process, at_primary, copy_file, copy_of, founded, get, options, primaries, put};

const PERSISTED: SetId = SetId { level: Level::Persisted, number: 0 };

fn few(node: u64, cluster: Option<ClusterId>) -> UniformSetsOptions {
    UniformSetsOptions { cluster, sets_per_level: 1, ..options(node) }
}

fn replica(process: &Process) -> &Replica {
    process.replicas.replica(PERSISTED).unwrap()
}

async fn joined(nodes: &Nodes, disk: &SimDisk, node: u64, cluster: ClusterId) -> Process {
    let process = nodes.open(disk, few(node, Some(cluster))).await.unwrap();
    process.replicas.join(&[1, 2, 3].map(NodeId)).await.unwrap();
    process
}

/// Waits until something is so.
async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            time::sleep(Duration::from_millis(1)).await;
        }
    };
    time::timeout(Duration::from_secs(60), waiting).await.expect("it was never so");
}

#[tokio::test(start_paused = true)]
async fn an_emptied_folder_elects_nobody_who_lacks_what_was_acknowledged() {
    let nodes = Nodes::default();
    let disks = [SimDisk::new(1), SimDisk::new(2), SimDisk::new(3)];
    let a = founded(&nodes, &disks[0], few(1, None)).await;
    let cluster = a.replicas.cluster();
    let b = joined(&nodes, &disks[1], 2, cluster).await;
    let c = joined(&nodes, &disks[2], 3, cluster).await;
    let partition = a.replicas.partition(Level::Persisted, PartitionId(0));
    put(&partition, "k", "1").await.unwrap();

    // The third is cut off, and what is acknowledged then is on the first and the second alone.
    for node in [1, 2].map(NodeId) {
        nodes.network.cut(node, NodeId(3));
        nodes.network.cut(NodeId(3), node);
    }
    put(&partition, "k", "2").await.unwrap();
    let lost = replica(&b).status().identity.replica;
    nodes.kill(b, &disks[1]);
    let empty = SimDisk::new(22);
    let b = nodes.open(&empty, few(2, Some(cluster))).await.unwrap();
    let new = replica(&b).status().identity.replica;
    assert_ne!(new, lost, "an empty folder is a new replica");
    nodes.kill(a, &disks[0]);
    nodes.network.heal();

    // Of the three that vote one is dead, one is gone for good, and one lacks the last commit.
    let until = time::now() + Duration::from_secs(120);
    while time::now() < until {
        for process in [&b, &c] {
            let role_state = replica(process).role_state();
            assert_eq!(role_state.role, Role::Secondary, "elected without a quorum: {:?}", replica(process).status());
        }
        time::sleep(Duration::from_millis(10)).await;
    }

    // The first comes back, and the new one is taken in for the one that was lost.
    let a = nodes.open(&disks[0], few(1, None)).await.unwrap();
    primaries(&[&a, &c]).await;
    assert_eq!(get(&at_primary(&[&a, &c], Level::Persisted, 0).await, "k").as_deref(), Some("2"));
    replica(&b).join(&[1, 3].map(NodeId)).await.unwrap();
    let voters = replica(&b).status().voters;
    assert_eq!((voters.len(), voters.get(&new)), (3, Some(&NodeId(2))), "{voters:?}");
    assert!(!voters.contains_key(&lost), "{voters:?}");
    nodes.kill(a, &disks[0]);
    let partition = at_primary(&[&b, &c], Level::Persisted, 0).await;
    assert_eq!(get(&partition, "k").as_deref(), Some("2"));
    put(&partition, "k", "3").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_older_copy_of_a_folder_does_not_stop_the_primary() {
    let nodes = Nodes::default();
    let disks = [SimDisk::new(1), SimDisk::new(2), SimDisk::new(3)];
    let a = founded(&nodes, &disks[0], few(1, None)).await;
    let cluster = a.replicas.cluster();
    let b = joined(&nodes, &disks[1], 2, cluster).await;
    let c = joined(&nodes, &disks[2], 3, cluster).await;
    let partition = a.replicas.partition(Level::Persisted, PartitionId(0));
    put(&partition, "k", "1").await.unwrap();
    nodes.kill(c, &disks[2]);
    let older = copy_of(&disks[2], 33);

    // The primary hears from the third that it has more, and then finds that more gone.
    let c = nodes.open(&disks[2], few(3, None)).await.unwrap();
    for number in 2..20 {
        put(&partition, "k", &number.to_string()).await.unwrap();
    }
    let (first, third) = (replica(&a).clone(), replica(&c).clone());
    until(|| third.status().log_next >= first.status().log_next).await;
    // What the third has is not yet what the primary has heard of: several heartbeats, in virtual time.
    time::sleep(Duration::from_secs(1)).await;
    nodes.kill(c, &disks[2]);
    let c = nodes.open(&older, few(3, None)).await.unwrap();
    assert!(replica(&c).status().log_next < first.status().log_next, "the copy lacks what was acknowledged");
    let caught_up = async {
        while replica(&c).status().applied_next < first.status().applied_next {
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(Duration::from_secs(60), caught_up).await.expect("the third gets what it lacks");
    assert_eq!((replica(&a).failure(), partition.check().is_ok()), (None, true), "the primary goes on");
    let forgetful: Vec<ReplicaId> = first.status().forgetful.into_iter().collect();
    assert_eq!(forgetful, [third.status().identity.replica], "and names the third");
    put(&partition, "k", "20").await.unwrap();
    drop(partition);
    nodes.kill(a, &disks[0]);
    // The volatile replicas of the third have not joined again: their set is not waited for.
    let is_primary = |process: &&Process| replica(process).role_state().role == Role::Primary;
    let elected = async {
        loop {
            match [&b, &c].into_iter().find(is_primary) {
                Some(primary) => break primary.replicas.partition(Level::Persisted, PartitionId(0)),
                None => time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    let partition = time::timeout(Duration::from_secs(60), elected).await.expect("one of the two is elected");
    assert_eq!(get(&partition, "k").as_deref(), Some("20"));
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_cluster_is_refused_by_name() {
    let nodes = Nodes::default();
    let first = founded(&nodes, &SimDisk::new(1), few(1, None)).await;
    let stranger = nodes.open(&SimDisk::new(2), few(2, None)).await.unwrap();
    assert_ne!(first.replicas.cluster(), stranger.replicas.cluster());
    let before = replica(&first).status();
    let refused = stranger.replicas.join(&[NodeId(1)]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let told = refused.to_string();
    for name in [first.replicas.cluster().to_string(), stranger.replicas.cluster().to_string(), "node n1".to_owned()] {
        assert!(told.contains(&name), "{told}");
    }
    assert_eq!(replica(&first).status(), before, "a stranger changes nothing");

    let other = nodes.open(&SimDisk::new(3), few(3, Some(first.replicas.cluster()))).await.unwrap();
    assert_eq!(other.replicas.cluster(), first.replicas.cluster());
    replica(&other).join(&[NodeId(1)]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_with_another_timing_is_refused_by_name() {
    let nodes = Nodes::default();
    let first = founded(&nodes, &SimDisk::new(1), few(1, None)).await;
    let mut shorter = few(2, Some(first.replicas.cluster()));
    shorter.replica.timing.election_timeout_max /= 2;
    shorter.replica.timing.election_timeout_min /= 2;
    let before = replica(&first).status();
    let disk = SimDisk::new(2);
    let second = nodes.open(&disk, shorter).await.unwrap();
    let refused = second.replicas.join(&[NodeId(1)]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let told = refused.to_string();
    for name in
        ["node n1", "node n2", "election_timeout_max: 500ms", "election_timeout_max: 1s", "ReplicaOptions::timing"]
    {
        assert!(told.contains(name), "{name} in {told}");
    }
    assert_eq!(replica(&first).status(), before);
    nodes.stop(second).await;
    let second = nodes.open(&disk, few(2, None)).await.unwrap();
    second.replicas.join(&[NodeId(1)]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn parts_of_two_folders_are_refused_by_name() {
    let nodes = Nodes::default();
    let disks = [SimDisk::new(1), SimDisk::new(2)];
    for (disk, value) in disks.iter().zip(["one", "two"]) {
        let process = founded(&nodes, disk, few(1, None)).await;
        let partition = process.replicas.partition(Level::Persisted, PartitionId(0));
        put(&partition, "k", value).await.unwrap();
        replica(&process).checkpoint().await.unwrap();
        put(&partition, "last", value).await.unwrap();
        drop(partition);
        nodes.stop(process).await;
    }
    for (part, kind) in [("log", ErrorKind::Corrupt), ("state", ErrorKind::Invalid)] {
        let mixed = copy_of(&disks[0], 3);
        let folder = Path::new(FOLDER).join(part);
        mixed.list(&folder).unwrap().iter().for_each(|name| mixed.remove(&folder.join(name)).unwrap());
        disks[1].list(&folder).unwrap().iter().for_each(|name| copy_file(&disks[1], &mixed, &folder.join(name)));
        let refused = nodes.open(&mixed, few(1, None)).await.err().expect(part);
        assert_eq!(refused.kind(), kind, "{refused}");
        assert!(refused.to_string().contains(&folder.display().to_string()), "{refused}");
        assert!(refused.to_string().contains("belongs to"), "{refused}");
    }
    let whole = founded(&nodes, &copy_of(&disks[0], 4), few(1, None)).await;
    assert_eq!(get(&whole.replicas.partition(Level::Persisted, PartitionId(0)), "last").as_deref(), Some("one"));
}

#[tokio::test(start_paused = true)]
async fn a_folder_whose_parts_name_no_owner_opens_with_all_that_it_holds() {
    let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
    let process = founded(&nodes, &disk, few(1, None)).await;
    put(&process.replicas.partition(Level::Persisted, PartitionId(0)), "k", "1").await.unwrap();
    nodes.stop(process).await;

    // As builds before have left it: the log has no group that names its owner, and the state names no replica.
    let (log, state) = (Path::new(FOLDER).join("log"), Path::new(FOLDER).join("state/persisted-0.redb"));
    let log = SegmentLog::open(Arc::new(disk.clone()), &log, few(1, None).log).unwrap();
    let mut batch = LogBatch::new();
    batch.remove(GroupId(u64::MAX));
    let (done, durable) = tokio::sync::oneshot::channel();
    log.submit(batch, Box::new(move |result| done.send(result).unwrap())).unwrap();
    durable.await.unwrap().unwrap();
    drop(log);
    disk.remove(&state).unwrap();
    let former = DiskStoreOptions { owner: "persisted-0 of n1".into(), ..DiskStoreOptions::default() };
    drop(DiskStore::open(Arc::new(disk.clone()), &state, former).unwrap());

    for number in 1..4 {
        let process = founded(&nodes, &disk, few(1, None)).await;
        let partition = process.replicas.partition(Level::Persisted, PartitionId(0));
        assert_eq!(get(&partition, "k"), Some(number.to_string()));
        put(&partition, "k", &(number + 1).to_string()).await.unwrap();
        replica(&process).checkpoint().await.unwrap();
        drop(partition);
        nodes.stop(process).await;
    }
}

/// The identity of node 1 with one set per level, as version 1 wrote it.
const OLD: [u8; 23] = *b"MAINSTAY\x01\x01\0\0\0\0\0\0\0\x01\0\x61\x41\x50\x60";

fn write_old_identity(disk: &SimDisk) {
    let folder = Path::new(FOLDER);
    disk.create_dir_all(folder).unwrap();
    let file = disk.open(&folder.join("identity"), OpenMode::Either).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(&OLD, 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir(folder).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_folder_from_before_clusters_opens_with_all_that_it_holds() {
    let (nodes, disk) = (Nodes::default(), SimDisk::new(1));
    write_old_identity(&disk);
    let process = founded(&nodes, &disk, few(1, None)).await;
    let before = process.replicas.cluster();
    // What its log and states name it.
    assert_eq!(replica(&process).status().identity.replica, ReplicaId(1));
    put(&process.replicas.partition(Level::Persisted, PartitionId(0)), "k", "1").await.unwrap();
    nodes.stop(process).await;
    // That is what the build before has left.
    write_old_identity(&disk);

    let refused = nodes.open(&disk, few(1, Some(before))).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    let process = founded(&nodes, &disk, few(1, None)).await;
    let cluster = process.replicas.cluster();
    assert_ne!(cluster, before, "nothing tells that it is the same");
    let partition = process.replicas.partition(Level::Persisted, PartitionId(0));
    assert_eq!(get(&partition, "k").as_deref(), Some("1"));
    put(&partition, "k", "2").await.unwrap();
    drop(partition);
    nodes.kill(process, &disk);

    // It stays that cluster, and grows like any other.
    let process = founded(&nodes, &disk, few(1, Some(cluster))).await;
    let second = joined(&nodes, &SimDisk::new(2), 2, cluster).await;
    let voters = replica(&second).status().voters;
    assert_eq!((voters.len(), voters.get(&ReplicaId(1))), (2, Some(&NodeId(1))), "{voters:?}");
    assert_eq!(get(&at_primary(&[&process, &second], Level::Persisted, 0).await, "k").as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn a_volatile_set_goes_on_with_the_last_of_its_replicas() {
    let volatile = SetId { level: Level::Volatile, number: 0 };
    let nodes = Nodes::default();
    let disks = [SimDisk::new(1), SimDisk::new(2), SimDisk::new(3)];
    let a = founded(&nodes, &disks[0], few(1, None)).await;
    let cluster = a.replicas.cluster();
    let b = joined(&nodes, &disks[1], 2, cluster).await;
    let c = joined(&nodes, &disks[2], 3, cluster).await;
    put(&at_primary(&[&a, &b, &c], Level::Volatile, 0).await, "k", "1").await.unwrap();
    let epoch = a.replicas.replica(volatile).unwrap().role_state().epoch;
    let has = |process: &Process| process.replicas.replica(volatile).unwrap().status().applied_next;
    until(|| has(&a) == has(&b) && has(&a) == has(&c)).await;

    // Two restart before either has joined again: nothing is left of what they had in memory.
    nodes.kill(b, &disks[1]);
    nodes.kill(c, &disks[2]);
    let b = nodes.open(&disks[1], few(2, None)).await.unwrap();
    let c = nodes.open(&disks[2], few(3, None)).await.unwrap();
    let all = [1, 2, 3].map(NodeId);
    let joining = futures_util::future::join(b.replicas.join(&all), c.replicas.join(&all));
    let (joined_b, joined_c) = time::timeout(Duration::from_secs(120), joining).await.expect("both join");
    joined_b.unwrap();
    joined_c.unwrap();

    let partition = at_primary(&[&a, &b, &c], Level::Volatile, 0).await;
    assert_eq!(get(&partition, "k").as_deref(), Some("1"), "the last one had it");
    assert!(partition.check().unwrap() >= epoch, "epochs go on");
    put(&partition, "k", "2").await.unwrap();
    let voters = a.replicas.replica(volatile).unwrap().status().voters;
    assert_eq!(voters.into_values().collect::<BTreeSet<_>>(), all.into_iter().collect());
    // Any two of the three are a quorum again.
    nodes.kill(a, &disks[0]);
    let partition = at_primary(&[&b, &c], Level::Volatile, 0).await;
    assert_eq!(get(&partition, "k").as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn a_volatile_set_waits_as_long_as_a_second_voter_may_live() {
    let volatile = SetId { level: Level::Volatile, number: 0 };
    let nodes = Nodes::default();
    let disks = [SimDisk::new(1), SimDisk::new(2), SimDisk::new(3)];
    let a = founded(&nodes, &disks[0], few(1, None)).await;
    let cluster = a.replicas.cluster();
    let b = joined(&nodes, &disks[1], 2, cluster).await;
    let c = joined(&nodes, &disks[2], 3, cluster).await;
    put(&at_primary(&[&a, &b, &c], Level::Volatile, 0).await, "k", "1").await.unwrap();
    // The third is cut off with all that it has; the second has lost its memory.
    for node in [1, 2].map(NodeId) {
        nodes.network.cut(node, NodeId(3));
        nodes.network.cut(NodeId(3), node);
    }
    nodes.kill(b, &disks[1]);
    let b = nodes.open(&disks[1], few(2, None)).await.unwrap();
    let until = time::now() + Duration::from_secs(5);
    while time::now() < until {
        // Its lease runs out, and then there is nobody.
        time::sleep(Duration::from_millis(10)).await;
    }
    let until = time::now() + Duration::from_secs(60);
    while time::now() < until {
        for process in [&a, &b] {
            let role_state = process.replicas.replica(volatile).unwrap().role_state();
            assert_eq!(role_state.role, Role::Secondary, "the third may have more");
        }
        time::sleep(Duration::from_millis(10)).await;
    }
    nodes.network.heal();
    b.replicas.join(&[1, 3].map(NodeId)).await.unwrap();
    assert_eq!(get(&at_primary(&[&a, &b, &c], Level::Volatile, 0).await, "k").as_deref(), Some("1"));
}
