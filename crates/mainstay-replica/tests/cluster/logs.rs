use std::path::Path;
use std::sync::Arc;

use mainstay_core::{ErrorKind, NodeId, ReplicaId};
use mainstay_replica::{Identity, InProcessNetwork, Replica, ReplicaOptions};
use mainstay_store::disk::sim::SimDisk;
use mainstay_store::log::{Driver, GroupId, LogBatch, LogOptions, MemoryLog, NodeLog as _, SegmentLog, SyncDelay};
use mainstay_store::state::{MemoryStore, StateStore};

use crate::harness::{CLUSTER, Cluster, SET, contents, partition, put};

#[tokio::test(start_paused = true)]
async fn a_crowd_of_the_largest_commits_does_not_stop_the_replica() {
    let options = ReplicaOptions::default();
    let largest = options.commit.commit_bytes_max - 1_000;
    let mut cluster = Cluster::new(options);
    let log = LogOptions { driver: Driver::Task { sync_delay: SyncDelay::default() }, ..LogOptions::default() };
    let log = SegmentLog::open(Arc::new(SimDisk::new(1)), Path::new("/log"), log).unwrap();
    cluster.start_on(NodeId(1), ReplicaId(1), Arc::new(log), Arc::new(MemoryStore::new())).await;
    cluster.replica(1).bootstrap(&[(ReplicaId(1), NodeId(1))].into()).await.unwrap();
    let primary = cluster.primary().await;
    let value = vec![7; largest];
    let commits = (0..6_u8).map(|number| {
        let (partition, value) = (partition(&primary), &value);
        async move {
            let mut batch = partition.batch();
            batch.put(&[number], value);
            partition.commit(batch).await
        }
    });
    for outcome in futures_util::future::join_all(commits).await {
        if let Err(error) = outcome {
            assert_eq!(error.kind(), ErrorKind::Overloaded, "more than may wait at a time is refused, and only that");
        }
    }
    assert_eq!(primary.status().failure, None);
    assert!(contents(&primary).len() >= 3);
}

#[tokio::test(start_paused = true)]
async fn damage_that_keeps_a_replica_from_starting_is_named() {
    for (state, kind) in [(vec![1, 2, 3], ErrorKind::Corrupt), (vec![9; 18], ErrorKind::UnknownVersion)] {
        let log = MemoryLog::new();
        let mut batch = LogBatch::new();
        batch.hard_state(GroupId(u64::from(SET.number)), state.into());
        log.submit(batch, Box::new(drop)).unwrap();
        let identity = Identity { cluster: CLUSTER, set: SET, replica: ReplicaId(1), node: NodeId(1), data_loss: 0 };
        let network = InProcessNetwork::new().endpoint(NodeId(1));
        let options = ReplicaOptions::default();
        let started = Replica::start(identity, options, Arc::new(log), Arc::new(MemoryStore::new()), network).await;
        let error = started.expect_err("a hard state that cannot be read");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("hard state"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_and_a_log_that_do_not_join_are_refused() {
    let mut options = ReplicaOptions::default();
    options.checkpoint.log_keep_bytes = 0;
    let mut cluster = Cluster::founded(1, options.clone()).await;
    let primary = cluster.primary().await;
    for number in 0..10 {
        put(&partition(&primary), &number.to_string(), &"x".repeat(100_000)).await.unwrap();
    }
    primary.checkpoint().await.unwrap();
    let log = cluster.members[&NodeId(1)].log.clone();
    while log.group(GroupId(0)).first == 0 {
        mainstay_core::time::sleep(mainstay_core::time::Duration::from_millis(10)).await;
    }
    let member = cluster.kill(NodeId(1));

    let identity = Identity { cluster: CLUSTER, set: SET, replica: ReplicaId(1), node: NodeId(1), data_loss: 0 };
    let network = InProcessNetwork::new();
    let start = |log, store| Replica::start(identity, options.clone(), log, store, network.endpoint(NodeId(1)));
    let empty: Arc<dyn StateStore> = Arc::new(MemoryStore::new());
    let error = start(member.log.clone(), empty).await.expect_err("a gap between the state and the log");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("volatile-0"), "{error}");
    let error = start(Arc::new(MemoryLog::new()), member.store.clone()).await.expect_err("a state without its log");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("volatile-0"), "{error}");
    start(member.log, member.store).await.expect("what belongs together");
}
