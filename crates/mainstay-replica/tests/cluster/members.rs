use mainstay_core::{ErrorKind, NodeId, ReplicaId};
use mainstay_replica::ReplicaOptions;

use crate::harness::{Cluster, contents, partition, put};

#[tokio::test(start_paused = true)]
async fn a_set_grows_and_shrinks_while_it_works() {
    let mut cluster = Cluster::founded(1, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    put(&partition(&primary), "a", "1").await.unwrap();
    for node in 2..=5 {
        cluster.start(NodeId(node), ReplicaId(node)).await;
        primary.add_member(ReplicaId(node), NodeId(node)).await.unwrap();
        put(&partition(&primary), "a", &node.to_string()).await.unwrap();
    }
    cluster.converged().await;
    assert_eq!(primary.status().voters.len(), 5);
    for member in cluster.members.values() {
        assert_eq!(contents(&member.replica), contents(&primary));
    }
    for node in 3..=5 {
        primary.remove_member(ReplicaId(node)).await.unwrap();
        cluster.kill(NodeId(node));
    }
    assert_eq!(primary.status().voters.len(), 2);
    assert!(primary.status().learners.is_empty());
    put(&partition(&primary), "a", "end").await.unwrap();
    cluster.converged().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_primary_changes_members_and_the_last_one_stays() {
    let cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    put(&partition(&primary), "a", "1").await.unwrap();
    cluster.converged().await;
    let node = primary.status().identity.node;
    let secondary = cluster.members.values().find(|m| m.replica.status().identity.node != node).unwrap();
    let refused = secondary.replica.add_member(ReplicaId(9), NodeId(9)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotPrimary { hint: Some(node) });

    let alone = Cluster::founded(1, ReplicaOptions::default()).await;
    let refused = alone.primary().await.remove_member(ReplicaId(1)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_volatile_replica_that_restarts_rejoins_under_a_new_identity() {
    let mut cluster = Cluster::founded(3, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    put(&partition(&primary), "a", "1").await.unwrap();
    let node = cluster.members.keys().copied().find(|node| *node != primary.status().identity.node).unwrap();
    // Its memory is lost.
    drop(cluster.kill(node));
    put(&partition(&primary), "b", "2").await.unwrap();
    cluster.start(node, ReplicaId(1_000)).await;
    let others: Vec<NodeId> = cluster.members.keys().copied().collect();
    cluster.replica(node.0).join(&others).await.unwrap();
    let status = cluster.primary().await.status();
    assert_eq!(status.voters.len(), 3);
    assert_eq!(status.voters.get(&ReplicaId(1_000)), Some(&node));
    assert_eq!(status.voters.get(&ReplicaId(node.0)), None, "the old identity is gone");
    cluster.converged().await;
    assert_eq!(contents(&cluster.replica(node.0)), contents(&primary));
}

#[tokio::test(start_paused = true)]
async fn founding_again_does_nothing_and_founding_without_oneself_is_refused() {
    let cluster = Cluster::founded(1, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    put(&partition(&primary), "a", "1").await.unwrap();
    primary.found(&[(ReplicaId(1), NodeId(1))].into()).await.unwrap();
    assert_eq!(partition(&primary).get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    let refused = primary.found(&[(ReplicaId(2), NodeId(2))].into()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn whatever_a_peer_sends_is_answered() {
    let cluster = Cluster::founded(1, ReplicaOptions::default()).await;
    let primary = cluster.primary().await;
    for length in 0..64_u8 {
        for first in [0, 1, 2, 255] {
            let mut bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37)).collect();
            if let Some(version) = bytes.first_mut() {
                *version = first;
            }
            assert!(!primary.receive(bytes.into()).await.is_empty());
        }
    }
    put(&partition(&primary), "a", "1").await.unwrap();
}
