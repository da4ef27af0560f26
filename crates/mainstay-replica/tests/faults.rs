//! A disk that refuses under a running replica: errors are clear, and nothing that was acknowledged is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{ClusterId, Error, ErrorKind, Level, NodeId, PartitionId, ReplicaId, Result, SetId};
use mainstay_replica::{Identity, InProcessNetwork, Replica, ReplicaOptions, Role};
use mainstay_store::disk::sim::{DiskOp, Fault, SimDisk};
use mainstay_store::log::{Driver, LogOptions, SegmentLog, SyncDelay};
use mainstay_store::state::{DiskStore, DiskStoreOptions, FaultyStore, MemoryStore, StateStore, StoreCall};

fn log_options() -> LogOptions {
    LogOptions {
        segment_bytes: 64 << 10,
        driver: Driver::Task { sync_delay: SyncDelay::default() },
        ..LogOptions::default()
    }
}

async fn open(disk: &SimDisk, log: LogOptions) -> Replica {
    let disk = Arc::new(disk.clone());
    let store = DiskStore::open(disk.clone(), Path::new("/state"), DiskStoreOptions::default()).unwrap();
    open_with(disk, log, Arc::new(store)).await
}

async fn open_with(disk: Arc<SimDisk>, log: LogOptions, store: Arc<dyn StateStore>) -> Replica {
    let log = Arc::new(SegmentLog::open(disk, Path::new("/log"), log).unwrap());
    let set = SetId { level: Level::Persisted, number: 0 };
    let identity = Identity { cluster: ClusterId(1), set, replica: ReplicaId(1), node: NodeId(1), data_loss: 0 };
    let transport = InProcessNetwork::new().endpoint(NodeId(1));
    let replica = Replica::start(identity, ReplicaOptions::default(), log, store, transport).await.unwrap();
    replica.bootstrap(&BTreeMap::from([(ReplicaId(1), NodeId(1))])).await.unwrap();
    replica.watch().wait_for(|role_state| role_state.role == Role::Primary).await.unwrap();
    replica
}

async fn put(replica: &Replica, number: u32, bytes: usize) -> Result<()> {
    let partition = replica.partition(PartitionId(1));
    let mut batch = partition.batch();
    batch.put(&number.to_be_bytes(), &vec![7; bytes]);
    partition.commit(batch).await.map(drop)
}

fn expect(replica: &Replica, acknowledged: u32) {
    for number in 0..acknowledged {
        let found = replica.partition(PartitionId(1)).get(&number.to_be_bytes()).unwrap();
        assert!(found.is_some(), "{number} of {acknowledged} is lost");
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_cannot_be_written_stops_the_replica_with_its_reason() {
    for (op, crash) in [(DiskOp::Write, false), (DiskOp::Write, true), (DiskOp::Sync, false), (DiskOp::Sync, true)] {
        let disk = SimDisk::new(7);
        let replica = open(&disk, log_options()).await;
        for number in 0..20 {
            put(&replica, number, 100).await.unwrap();
        }
        disk.inject(Fault::on(op).path(".segment"));
        let failed = put(&replica, 20, 100).await.unwrap_err();
        assert!(matches!(failed.kind(), ErrorKind::OutcomeUnknown | ErrorKind::Fatal), "{op:?}: {failed:?}");
        let stopped = async {
            while replica.status().failure.is_none() || replica.role_state().role == Role::Primary {
                time::sleep(Duration::from_millis(1)).await;
            }
        };
        time::timeout(Duration::from_secs(10), stopped).await.expect("the replica stops");
        let why = replica.status().failure.unwrap();
        assert!(why.contains("injected fault"), "{op:?}: {why}");
        let refused = put(&replica, 21, 100).await.unwrap_err();
        assert!(refused.kind() == ErrorKind::Fatal && refused.to_string().contains("injected fault"), "{refused}");
        replica.stop().await;
        drop(replica);
        if crash {
            disk.crash();
        }
        let replica = open(&disk, log_options()).await;
        expect(&replica, 20);
        put(&replica, 30, 100).await.unwrap();
    }
}

/// Commits until one fails; how many were acknowledged, and the failure.
async fn fill(replica: &Replica, mut acknowledged: u32) -> (u32, Error) {
    loop {
        match put(replica, acknowledged, 1000).await {
            Ok(()) => acknowledged += 1,
            Err(error) => return (acknowledged, error),
        }
        assert!(acknowledged < 10_000, "a full disk takes everything");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_without_a_reserve_stops_commits_and_loses_nothing() {
    let disk = SimDisk::new(7);
    let replica = open(&disk, LogOptions { reserve_bytes: 0, ..log_options() }).await;
    put(&replica, 0, 1000).await.unwrap();
    disk.set_capacity(Some(disk.used_bytes()));
    let (acknowledged, failed) = fill(&replica, 1).await;
    assert!(
        matches!(failed.kind(), ErrorKind::OutcomeUnknown | ErrorKind::Fatal | ErrorKind::StorageFull),
        "{failed:?}"
    );
    time::sleep(Duration::from_secs(1)).await;
    assert!(replica.failure().unwrap().contains("the disk is full"), "{:?}", replica.failure());
    replica.stop().await;
    drop(replica);
    disk.set_capacity(None);
    let replica = open(&disk, log_options()).await;
    expect(&replica, acknowledged);
    put(&replica, acknowledged, 1000).await.unwrap();
    assert_eq!(replica.failure(), None);
    replica.stop().await;
    assert_eq!(replica.failure(), None, "who was told to stop has not failed");
}

#[tokio::test(start_paused = true)]
async fn low_space_refuses_commits_before_the_log_has_to() {
    let disk = SimDisk::new(7);
    let replica = open(&disk, log_options()).await;
    put(&replica, 0, 1000).await.unwrap();
    // Room for a few segments, of which a part is kept back.
    disk.set_capacity(Some(disk.used_bytes() + (1 << 20)));
    let mut acknowledged = 1;
    for round in 0..3 {
        let (more, refused) = fill(&replica, acknowledged).await;
        acknowledged = more;
        assert_eq!(refused.kind(), ErrorKind::Overloaded, "round {round}: {refused:?}");
        let text = refused.to_string();
        assert!(text.contains("free or add room") && text.contains("log.reserve_bytes"), "{text}");
        expect(&replica, acknowledged);
        assert_eq!((replica.failure(), replica.role_state().role), (None, Role::Primary));
        assert!(replica.activity().throttled > round, "refusals are counted");
        // Nobody has to do anything but to make room.
        disk.set_capacity(Some(disk.used_bytes() + (1 << 20)));
        let taken = async {
            while put(&replica, acknowledged, 1000).await.is_err() {
                time::sleep(Duration::from_millis(100)).await;
            }
        };
        time::timeout(Duration::from_secs(10), taken).await.expect("commits are taken again");
        acknowledged += 1;
    }
    replica.stop().await;
    drop(replica);
    disk.crash();
    disk.set_capacity(None);
    expect(&open(&disk, log_options()).await, acknowledged);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_fails_is_made_later() {
    let disk = Arc::new(SimDisk::new(7));
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
    let replica = open_with(disk, log_options(), store.clone()).await;
    put(&replica, 0, 100).await.unwrap();
    store.fail(StoreCall::Checkpoint, 1, ErrorKind::StorageFull);
    let failed = replica.checkpoint().await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::StorageFull);
    put(&replica, 1, 100).await.unwrap();
    assert_eq!(replica.status().failure, None);
    replica.checkpoint().await.unwrap();
    assert_eq!(replica.store().checkpointed(), replica.store().mark());
}

#[tokio::test(start_paused = true)]
async fn a_log_whose_queue_is_full_slows_down_and_stops_nobody() {
    let disk = SimDisk::new(7);
    let log = LogOptions { segment_bytes: 1 << 20, queue_bytes_max: 64 << 10, ..log_options() };
    let replica = open(&disk, log).await;
    let commits = (0..64).map(|number| put(&replica, number, 300 << 10));
    for committed in futures_util::future::join_all(commits).await {
        committed.unwrap();
    }
    assert_eq!(replica.status().failure, None);
    expect(&replica, 64);
}
