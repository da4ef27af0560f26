use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, NodeId, ReplicaId};
use mainstay_replica::{ReplicaOptions, Role};

use crate::harness::{Cluster, partition, put};

#[tokio::test(start_paused = true)]
async fn a_primary_without_a_quorum_stops_serving_before_another_starts() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let old = cluster.primary().await;
    let node = old.status().identity.node;
    cluster.isolate(node);
    let mut served_until = time::now();
    loop {
        if partition(&old).read().is_ok() {
            served_until = time::now();
        }
        let another =
            cluster.members.iter().find(|(other, member)| **other != node && partition(&member.replica).read().is_ok());
        if another.is_some() {
            break;
        }
        time::sleep(Duration::from_millis(1)).await;
    }
    assert!(served_until < time::now(), "the old primary served reads when the new one did");
    assert!(matches!(partition(&old).read().unwrap_err().kind(), ErrorKind::NotPrimary { .. }));
    assert_eq!(old.standing().role, Role::Secondary, "who lost the lease has lost the role");
}

#[tokio::test(start_paused = true)]
async fn the_watch_tells_of_every_change_and_epochs_grow() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let first = cluster.primary().await;
    let mut watch = first.watch();
    let before = *watch.borrow_and_update();
    assert_eq!(before.role, Role::Primary);
    let to =
        cluster.members.values().map(|m| m.replica.status().identity).find(|id| id.node != before.primary.unwrap());
    let to = to.unwrap();
    first.hand_over(to.replica).await.unwrap();
    watch.wait_for(|standing| standing.primary == Some(to.node)).await.unwrap();
    let after = *watch.borrow();
    assert_eq!(after.role, Role::Secondary);
    assert!(after.epoch > before.epoch);
    let second = cluster.primary().await;
    assert_eq!(second.status().identity, to);
    put(&partition(&second), "a", "1").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lone_replica_keeps_its_lease_for_ever() {
    let cluster = Cluster::founded(1, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    let epoch = partition(&primary).check().unwrap();
    for _ in 0..10 {
        time::sleep(Duration::from_secs(20)).await;
        assert_eq!(partition(&primary).check().unwrap(), epoch);
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_restarts_gives_no_vote_while_a_lease_may_hold() {
    let options = ReplicaOptions::default();
    let lease = options.timing.lease();
    let mut cluster = Cluster::founded(3, options).await;
    let primary = cluster.primary().await;
    let node = primary.status().identity.node;
    put(&partition(&primary), "a", "1").await.unwrap();
    cluster.converged().await;
    // The two others restart at the very moment at which they acknowledged the primary for the last time.
    cluster.isolate(node);
    let acknowledged = time::now();
    let others: Vec<NodeId> = cluster.members.keys().copied().filter(|other| *other != node).collect();
    for other in &others {
        let member = cluster.kill(*other);
        cluster.start_on(*other, ReplicaId(other.0), member.log, member.store).await;
    }
    let new = cluster.primary_except(&[node]).await;
    assert!(time::now() - acknowledged > lease, "a new primary within the lease of the old one");
    assert_eq!(partition(&new).get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_that_fails_leaves_the_primary_in_office() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    let unknown = primary.hand_over(ReplicaId(99)).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    put(&partition(&primary), "a", "1").await.unwrap();
}
