//! Replicas that are behind, and what becomes of them.

use mainstay_core::{NodeId, ReplicaId, random};
use mainstay_replica::{Replica, Troubles};

use crate::harness::{Cluster, contents, partition, put};
use crate::snapshots::{log_cut, small_checkpoints};

/// A primary that is alone, with a state of some megabytes and a log that does not start at the beginning any more.
async fn alone_with_a_state() -> (Cluster, Replica) {
    random::seed_thread(11);
    let cluster = Cluster::founded(1, small_checkpoints()).await;
    let primary = cluster.primary().await;
    for number in 0..60 {
        put(&partition(&primary), &format!("k{number}"), &"x".repeat(50_000)).await.unwrap();
    }
    primary.checkpoint().await.unwrap();
    log_cut(&primary).await;
    (cluster, primary)
}

#[tokio::test(start_paused = true)]
async fn a_replica_gets_the_whole_state_although_messages_are_lost() {
    let (mut cluster, primary) = alone_with_a_state().await;
    cluster.network.set_troubles(Troubles { loss: 0.2, ..Troubles::default() });
    cluster.start(NodeId(2), ReplicaId(2)).await;
    primary.add_member(ReplicaId(2), NodeId(2)).await.unwrap();
    cluster.network.set_troubles(Troubles::default());
    cluster.converged().await;
    assert_eq!(contents(&cluster.replica(2)), contents(&primary));
}
