use std::sync::Arc;

use mainstay_core::{NodeId, ReplicaId};
use mainstay_replica::{Replica, ReplicaOptions};
use mainstay_store::disk::RealDisk;
use mainstay_store::log::MemoryLog;
use mainstay_store::state::{DiskStore, DiskStoreOptions};

use crate::harness::{Cluster, contents, partition, put};

pub(crate) fn small_checkpoints() -> ReplicaOptions {
    let mut options = ReplicaOptions::default();
    options.checkpoint.bytes = 1 << 20;
    options.checkpoint.log_keep_bytes = 0;
    options
}

/// Waits until the log does not start at the beginning any more.
pub(crate) async fn log_cut(replica: &Replica) {
    let mut looks = 0;
    while replica.status().log_first == 0 {
        mainstay_core::time::sleep(mainstay_core::time::Duration::from_millis(10)).await;
        looks += 1;
        assert!(looks < 1_000, "the log was never cut: {:?}", replica.status());
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_is_cut_after_a_checkpoint() {
    let cluster = Cluster::founded(1, small_checkpoints()).await;
    let primary = cluster.primary().await;
    for number in 0..40 {
        put(&partition(&primary), &format!("k{number}"), &"x".repeat(100_000)).await.unwrap();
    }
    log_cut(&primary).await;
    let status = primary.status();
    assert!(status.log_first <= status.applied_next);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_missed_the_log_gets_the_whole_state_in_pieces() {
    let mut cluster = Cluster::founded(1, small_checkpoints()).await;
    let primary = cluster.primary().await;
    for number in 0..60 {
        put(&partition(&primary), &format!("k{number}"), &format!("{number}").repeat(50_000)).await.unwrap();
    }
    primary.checkpoint().await.unwrap();
    log_cut(&primary).await;
    let activity = primary.activity();
    assert!(activity.held.entries >= 60 && activity.checkpoint_bytes >= activity.held.bytes, "{activity:?}");
    assert!(activity.checkpoints.count() > 0 && activity.copied_bytes == 0, "{activity:?}");

    // One to memory, one to disk.
    cluster.start(NodeId(2), ReplicaId(2)).await;
    primary.add_member(ReplicaId(2), NodeId(2)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let store = DiskStore::open(Arc::new(RealDisk), &path, DiskStoreOptions::default()).unwrap();
    cluster.start_on(NodeId(3), ReplicaId(3), Arc::new(MemoryLog::new()), Arc::new(store)).await;
    primary.add_member(ReplicaId(3), NodeId(3)).await.unwrap();

    put(&partition(&primary), "after", "the snapshot").await.unwrap();
    cluster.converged().await;
    assert_eq!(contents(&cluster.replica(2)), contents(&primary));
    assert_eq!(contents(&cluster.replica(3)), contents(&primary));
    assert!(cluster.replica(2).status().log_first > 0, "it never had the entries before the snapshot");
    let copied = primary.activity().copied_bytes;
    assert!(copied >= 2 * activity.held.bytes, "{copied} bytes were sent to two replicas");
}
