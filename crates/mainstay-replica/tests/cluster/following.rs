//! Following commits on several replicas of a set.

use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, NodeId, SequenceNumber};
use mainstay_replica::{Changes, Operation, Partition, Replica, ReplicaOptions};

use crate::harness::{Cluster, partition, put};

/// The values of the next commits, up to and with one.
async fn values_until(changes: &mut Changes, last: &str) -> Vec<String> {
    let mut values = Vec::new();
    while values.last().is_none_or(|value| value != last) {
        let next = time::timeout(Duration::from_secs(600), changes.next()).await;
        let committed = next.expect("another commit").unwrap();
        for operation in committed.operations() {
            let Operation::Put { value, .. } = operation else { panic!("{operation:?}") };
            values.push(String::from_utf8(value.to_vec()).unwrap());
        }
    }
    values
}

fn on(cluster: &Cluster, node: NodeId) -> Partition {
    partition(&cluster.members[&node].replica)
}

fn node_of(replica: &Replica) -> NodeId {
    replica.status().identity.node
}

#[tokio::test(start_paused = true)]
async fn all_replicas_can_be_followed_through_a_change_of_primary() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let first = cluster.primary().await;
    let mut followers: Vec<Changes> =
        cluster.members.keys().map(|node| on(&cluster, *node).changes(SequenceNumber(0)).unwrap()).collect();
    let mut expected = Vec::new();
    for number in 0..20 {
        expected.push(number.to_string());
        put(&partition(&first), "key", &number.to_string()).await.unwrap();
    }
    let other = cluster.members.values().find(|member| node_of(&member.replica) != node_of(&first)).unwrap();
    first.hand_over(other.replica.status().identity.replica).await.unwrap();
    let second = cluster.primary().await;
    expected.push("end".to_owned());
    put(&partition(&second), "key", "end").await.unwrap();
    for changes in &mut followers {
        assert_eq!(values_until(changes, "end").await, expected);
    }
    // A number that was heard on one replica is good on another.
    let position = followers[0].position();
    put(&partition(&second), "key", "after").await.unwrap();
    for node in cluster.members.keys() {
        let mut changes = on(&cluster, *node).changes(position).unwrap();
        assert_eq!(values_until(&mut changes, "after").await, ["after"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_committed_is_never_seen() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let old = cluster.primary().await;
    let node = node_of(&old);
    let mut changes = partition(&old).changes(SequenceNumber(0)).unwrap();
    put(&partition(&old), "key", "1").await.unwrap();
    cluster.isolate(node);
    let lost = put(&partition(&old), "key", "lost").await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::OutcomeUnknown);
    let new = cluster.primary_except(&[node]).await;
    put(&partition(&new), "key", "2").await.unwrap();
    cluster.network.heal();
    assert_eq!(values_until(&mut changes, "2").await, ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_from_the_primary_leaves_a_gap_that_is_told() {
    let mut options = ReplicaOptions::default();
    options.checkpoint.log_keep_bytes = 0;
    let cluster = Cluster::founded(3, options).await;
    let old = cluster.primary().await;
    let node = node_of(&old);
    let mut changes = partition(&old).changes(SequenceNumber(0)).unwrap();
    put(&partition(&old), "key", "1").await.unwrap();
    assert_eq!(values_until(&mut changes, "1").await, ["1"]);
    let before = changes.position();
    cluster.isolate(node);
    // It stays in the log of this replica until the snapshot comes, which is at the same index and beyond.
    put(&partition(&old), "key", "lost").await.unwrap_err();

    let new = cluster.primary_except(&[node]).await;
    for _ in 0..8 {
        put(&partition(&new), "key", &"x".repeat(100 << 10)).await.unwrap();
    }
    new.checkpoint().await.unwrap();
    let cut = async {
        while new.status().log_first < 6 {
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(Duration::from_secs(60), cut).await.expect("the log is cut within a minute");
    cluster.network.heal();
    let error = changes.next().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooOld, "{error}");
    cluster.converged().await;
    assert_eq!(partition(&old).changes(before).unwrap_err().kind(), ErrorKind::TooOld);
    let snapshot = partition(&old).snapshot().unwrap();
    let mut changes = partition(&old).changes(snapshot.sequence_number()).unwrap();
    put(&partition(&new), "key", "end").await.unwrap();
    assert_eq!(values_until(&mut changes, "end").await, ["end"]);
}
