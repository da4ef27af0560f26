use std::path::Path;
use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{Epoch, ErrorKind, NodeId, PartitionId, ReplicaId};
use mainstay_replica::{ReplicaOptions, Troubles};
use mainstay_store::disk::sim::{DiskOp, Fault, SimDisk};
use mainstay_store::log::MemoryLog;
use mainstay_store::state::{DiskStore, DiskStoreOptions};

use crate::harness::{Cluster, contents, partition, put};

#[tokio::test(start_paused = true)]
async fn a_commit_reaches_all_replicas_in_the_same_order() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = partition(&cluster.primary().await);
    let first = put(&primary, "a", "1").await.unwrap();
    let second = put(&primary, "a", "2").await.unwrap();
    assert!(first < second);
    cluster.converged().await;
    for member in cluster.members.values() {
        assert_eq!(partition(&member.replica).snapshot().unwrap().get(b"a").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(contents(&member.replica), contents(&cluster.replica(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_acknowledged_can_be_read_at_once() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = partition(&cluster.primary().await);
    for number in 0..20 {
        let value = number.to_string();
        put(&primary, "key", &value).await.unwrap();
        assert_eq!(primary.get(b"key").unwrap().as_deref(), Some(value.as_bytes()));
        assert_eq!(primary.read().unwrap().get(b"key").unwrap().as_deref(), Some(value.as_bytes()));
    }
}

#[tokio::test(start_paused = true)]
async fn many_callers_share_log_entries() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    let before = primary.status().log_next;
    let commits = (0..1_000).map(|number| {
        let partition = partition(&primary);
        mainstay_core::task::spawn(async move { put(&partition, &format!("k{number}"), "v").await })
    });
    let mut sequence_numbers = Vec::new();
    for commit in commits.collect::<Vec<_>>() {
        sequence_numbers.push(commit.await.unwrap().unwrap());
    }
    sequence_numbers.sort_unstable();
    sequence_numbers.dedup();
    assert_eq!(sequence_numbers.len(), 1_000, "every commit has a number of its own");
    let entries = primary.status().log_next - before;
    assert!(entries < 100, "1,000 commits took {entries} log entries");
    assert_eq!(contents(&primary).len(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_commit_gets_through_a_narrow_network_however_large_it_is() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    // Ten seconds for what has to be answered within one heartbeat otherwise.
    cluster.network.set_troubles(Troubles { bytes_per_sec: 1_500_000, ..Troubles::default() });
    let large = "x".repeat(15_000_000);
    let partition = partition(&primary);
    let committed = time::timeout(Duration::from_secs(60), put(&partition, "large", &large)).await;
    committed.expect("it gets through").unwrap();
    cluster.converged().await;
    assert_eq!(primary.role_state().epoch, cluster.primary().await.role_state().epoch, "heartbeats are not held up");
}

#[tokio::test(start_paused = true)]
async fn a_secondary_whose_disk_is_behind_takes_in_no_more_than_its_limit() {
    let mut options = ReplicaOptions::default();
    options.checkpoint.bytes = 20_000;
    options.checkpoint.unsaved_bytes_max = 100_000;
    let mut cluster = Cluster::new(options);
    let disks: Vec<SimDisk> = (1..=3).map(SimDisk::new).collect();
    for (node, disk) in (1..).zip(&disks) {
        let store = DiskStore::open(Arc::new(disk.clone()), Path::new("/state"), DiskStoreOptions::default()).unwrap();
        cluster.start_on(NodeId(node), ReplicaId(node), Arc::new(MemoryLog::new()), Arc::new(store)).await;
    }
    let first = (1..=3).map(|id| (ReplicaId(id), NodeId(id))).collect();
    cluster.replica(1).bootstrap(&first).await.unwrap();
    let primary = cluster.primary().await;
    let epoch = primary.role_state().epoch;
    let slow = (1..=3).find(|node| NodeId(*node) != primary.status().identity.node).unwrap();
    disks[slow as usize - 1].inject(Fault::on(DiskOp::Write).times(u64::MAX));
    let mut most = 0;
    for number in 0..100 {
        put(&partition(&primary), &number.to_string(), &"x".repeat(10_000)).await.unwrap();
        most = most.max(cluster.replica(slow).activity().unsaved_bytes);
    }
    assert!((100_000..200_000).contains(&most), "{most}");
    assert_eq!(primary.role_state().epoch, epoch, "heartbeats pass");
    disks[slow as usize - 1].heal();
    cluster.converged().await;
    assert_eq!(contents(&cluster.replica(slow)), contents(&primary));
}

#[tokio::test(start_paused = true)]
async fn a_secondary_refuses_and_names_the_primary() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    put(&partition(&primary), "a", "1").await.unwrap();
    cluster.converged().await;
    let node = primary.status().identity.node;
    let secondary = cluster.members.values().find(|member| member.replica.status().identity.node != node).unwrap();
    let secondary = partition(&secondary.replica);
    let refused = put(&secondary, "a", "2").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotPrimary { hint: Some(node) });
    assert_eq!(secondary.read().unwrap_err().kind(), ErrorKind::NotPrimary { hint: Some(node) });
    assert_eq!(secondary.get(b"a").unwrap_err().kind(), ErrorKind::NotPrimary { hint: Some(node) });
}

#[tokio::test(start_paused = true)]
async fn limits_are_named_and_change_nothing() {
    let mut options = ReplicaOptions::default();
    options.commit.commit_bytes_max = 1_000;
    options.commit.waiting_max = 4;
    options.commit.entries_in_flight_max = 1;
    // One replica alone would be done with each commit before the next one comes.
    let cluster = Cluster::founded(3, options).await;
    let replica = cluster.primary().await;
    let partition = partition(&replica);

    let too_large = put(&partition, "a", &"x".repeat(2_000)).await.unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::TooLarge);
    assert!(too_large.to_string().contains("commit_bytes_max of 1000"), "{too_large}");

    let commits: Vec<_> = (0..50).map(|number| (partition.clone(), format!("k{number}"))).collect();
    let commits = commits.iter().map(|(partition, key)| put(partition, key, "v"));
    let outcomes = futures_util::future::join_all(commits).await;
    let refused = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    assert!(refused > 0, "50 callers at once are more than may wait");
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert_eq!(error.kind(), ErrorKind::Overloaded, "{error}");
        assert!(error.is_retryable());
    }
    assert_eq!(contents(&replica).len(), 50 - refused);
}

#[tokio::test(start_paused = true)]
async fn several_partitions_commit_as_one() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    let (one, two) = (primary.partition(PartitionId(1)), primary.partition(PartitionId(u64::MAX)));
    put(&one, "x", "old").await.unwrap();
    let (mut first, mut second) = (one.batch(), two.batch());
    first.put(b"x", b"new");
    second.put(b"y", b"new");
    one.commit_together(vec![first, second]).await.unwrap();
    assert_eq!(one.get(b"x").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(one.get(b"y").unwrap(), None, "partitions do not see each other's keys");
    assert_eq!(two.get(b"y").unwrap().as_deref(), Some(&b"new"[..]));

    let mut everything = one.batch();
    everything.delete_range(b"", None);
    one.commit(everything).await.unwrap();
    assert_eq!(one.get(b"x").unwrap(), None);
    assert!(two.get(b"y").unwrap().is_some(), "a range ends where the partition does");

    let wrong = two.commit(one.batch()).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Invalid);
    assert_eq!(one.commit_together(Vec::new()).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_scan_stays_within_its_partition() {
    use mainstay_store::state::{KeyRange, Order};
    let cluster = Cluster::founded(1, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    for id in [0, 1, 2, u64::MAX - 1, u64::MAX] {
        let partition = primary.partition(PartitionId(id));
        put(&partition, "a", &id.to_string()).await.unwrap();
        put(&partition, "b", &id.to_string()).await.unwrap();
    }
    for id in [0, 1, u64::MAX] {
        let snapshot = primary.partition(PartitionId(id)).read().unwrap();
        for order in [Order::Ascending, Order::Descending] {
            let mut entries: Vec<_> = snapshot.scan(KeyRange::all(), order).unwrap().map(Result::unwrap).collect();
            if order == Order::Descending {
                entries.reverse();
            }
            let keys: Vec<_> = entries.iter().map(|(key, _)| key.as_ref()).collect();
            assert_eq!(keys, [b"a", b"b"]);
            assert!(entries.iter().all(|(_, value)| value == id.to_string().as_bytes()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_an_older_epoch_is_refused() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let first = cluster.primary().await;
    let old_epoch = partition(&first).check().unwrap();
    let other = cluster.members.keys().find(|node| **node != first.status().identity.node).unwrap();
    let other = cluster.members[other].replica.status().identity;
    first.hand_over(other.replica).await.unwrap();
    let second = cluster.primary().await;
    let partition = partition(&second);
    assert!(partition.check().unwrap() > old_epoch);

    let mut stale = partition.batch();
    stale.put(b"a", b"stale").in_epoch(old_epoch);
    let refused = partition.commit(stale).await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::NotPrimary { .. }), "{refused:?}");
    assert_eq!(partition.get(b"a").unwrap(), None);

    let mut current = partition.batch();
    current.put(b"a", b"current").in_epoch(partition.check().unwrap());
    partition.commit(current).await.unwrap();
    let mut future = partition.batch();
    future.put(b"a", b"future").in_epoch(Epoch(u64::MAX));
    assert!(partition.commit(future).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_commit_in_flight_at_the_loss_of_the_role_has_an_unknown_outcome() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let old = cluster.primary().await;
    let node = old.status().identity.node;
    put(&partition(&old), "a", "1").await.unwrap();
    cluster.isolate(node);
    let refused = put(&partition(&old), "a", "2").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown, "{refused:?}");
    let later = put(&partition(&old), "a", "3").await.unwrap_err();
    assert!(matches!(later.kind(), ErrorKind::NotPrimary { .. }), "{later:?}");

    let new = cluster.primary_except(&[node]).await;
    put(&partition(&new), "a", "4").await.unwrap();
    cluster.network.heal();
    cluster.converged().await;
    for member in cluster.members.values() {
        assert_eq!(contents(&member.replica), contents(&new));
    }
    assert_eq!(partition(&new).get(b"a").unwrap().as_deref(), Some(&b"4"[..]));
    let _: NodeId = node;
}
