//! How long the log waits for replicas that are behind, and what they get when it does not.

use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::task::{self, JoinHandle};
use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, NodeId, ReplicaId, SetId, random};
use mainstay_replica::{Answer, Replica, Traffic, Transport, Troubles};
use mainstay_store::log::MemoryLog;
use mainstay_store::state::MemoryStore;

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

/// Overwrites one key, again and again.
fn overwrite(primary: &Replica, bytes: usize, pause: Duration) -> JoinHandle<()> {
    let partition = partition(primary);
    task::spawn(async move {
        loop {
            let _ = put(&partition, "busy", &"y".repeat(bytes)).await;
            time::sleep(pause).await;
        }
    })
}

/// Waits until a primary has begun to send its state.
async fn copying(primary: &Replica) {
    let begun = async {
        while primary.activity().copied_bytes == 0 {
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(Duration::from_secs(60), begun).await.expect("the state is never sent");
}

#[tokio::test(start_paused = true)]
async fn replicas_that_need_the_whole_state_catch_up_while_commits_go_on() {
    let (mut cluster, primary) = alone_with_a_state().await;
    let (delay_min, delay_max) = (Duration::from_millis(50), Duration::from_millis(50));
    cluster.network.set_troubles(Troubles { delay_min, delay_max, ..Troubles::default() });
    let busy = overwrite(&primary, 100_000, Duration::from_millis(20));
    let held = primary.activity().held.bytes;
    for id in 2..=4 {
        cluster.start(NodeId(id), ReplicaId(id)).await;
    }
    tokio::join!(add(&primary, 2), add(&primary, 3), add(&primary, 4));
    busy.abort();
    cluster.converged().await;
    for id in 2..=4 {
        assert_eq!(contents(&cluster.replica(id)), contents(&primary));
    }
    let copied = primary.activity().copied_bytes;
    assert!(copied < 4 * held, "{copied} bytes were sent, and the state has {held}: each is to get it once");
}

#[tokio::test(start_paused = true)]
async fn the_log_does_not_wait_for_a_replica_that_dies_while_it_gets_the_state() {
    let (mut cluster, primary) = alone_with_a_state().await;
    cluster.network.set_troubles(Troubles { bytes_per_sec: 1_000_000, ..Troubles::default() });
    cluster.start(NodeId(2), ReplicaId(2)).await;
    let adding = primary.clone();
    let adding = task::spawn(async move { adding.add_member(ReplicaId(2), NodeId(2)).await });
    copying(&primary).await;
    cluster.kill(NodeId(2));
    let mut length = 0;
    // Far less than the state is large, and over a longer time than it may be silent.
    for _ in 0..20 {
        put(&partition(&primary), "busy", &"y".repeat(100_000)).await.unwrap();
        time::sleep(Duration::from_millis(500)).await;
        let status = primary.status();
        length = status.applied_next - status.log_first;
    }
    assert!(length < 15, "{length} entries are in the log");
    assert_eq!(adding.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn a_replica_catches_up_although_the_primary_changes_while_it_gets_the_state() {
    random::seed_thread(11);
    let mut cluster = Cluster::founded(2, small_checkpoints()).await;
    let old = cluster.primary().await;
    let transfer_target = ReplicaId(3 - old.status().identity.replica.0);
    for number in 0..60 {
        put(&partition(&old), &format!("k{number}"), &"x".repeat(50_000)).await.unwrap();
    }
    cluster.converged().await;
    for member in cluster.members.values() {
        member.replica.checkpoint().await.unwrap();
        log_cut(&member.replica).await;
    }
    cluster.network.set_troubles(Troubles { bytes_per_sec: 1_000_000, ..Troubles::default() });
    cluster.start(NodeId(3), ReplicaId(3)).await;
    let adding = old.clone();
    let adding = task::spawn(async move { adding.add_member(ReplicaId(3), NodeId(3)).await });
    copying(&old).await;
    old.hand_over(transfer_target).await.unwrap();
    let error = adding.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}");
    let copied = old.activity().copied_bytes;
    let new = cluster.primary_except(&[old.status().identity.node]).await;
    add(&new, 3).await;
    put(&partition(&new), "after", "the change").await.unwrap();
    cluster.converged().await;
    assert_eq!(contents(&cluster.replica(3)), contents(&new));
    assert_eq!(old.activity().copied_bytes, copied, "who is not primary any more stops sending");
}

/// Adds a member, and waits for its turn with that.
async fn add(primary: &Replica, id: u64) {
    let added = async {
        while let Err(error) = primary.add_member(ReplicaId(id), NodeId(id)).await {
            assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(Duration::from_secs(3_600), added).await.expect("it is never its turn");
}

/// A way on which all that is long goes slowly to one node.
#[derive(Debug)]
struct SlowTo {
    way: Arc<dyn Transport>,
    node: NodeId,
    bytes_per_sec: f64,
}

impl Transport for SlowTo {
    fn call(&self, to: NodeId, set: SetId, traffic: Traffic, request: Bytes) -> Answer {
        let length = request.len();
        let call = self.way.call(to, set, traffic, request);
        if to != self.node || length <= 1024 {
            return call;
        }
        let pause = Duration::from_secs_f64(length as f64 / self.bytes_per_sec);
        Box::pin(async move {
            time::sleep(pause).await;
            call.await
        })
    }
}

/// Three nodes, of which the third is reached slowly, and a primary on one of the others.
async fn with_a_slow_third() -> (Cluster, Replica) {
    random::seed_thread(11);
    let mut cluster = Cluster::new(small_checkpoints());
    for node in 1..=3 {
        let way = cluster.network.endpoint(NodeId(node));
        let way = Arc::new(SlowTo { way, node: NodeId(3), bytes_per_sec: 1_500_000.0 });
        let (log, store) = (Arc::new(MemoryLog::new()), Arc::new(MemoryStore::new()));
        cluster.start_by(NodeId(node), ReplicaId(node), log, store, way).await;
    }
    let first = (1..=3).map(|id| (ReplicaId(id), NodeId(id))).collect();
    cluster.replica(1).bootstrap(&first).await.unwrap();
    let mut primary = cluster.primary().await;
    if primary.status().identity.node == NodeId(3) {
        primary.hand_over(ReplicaId(1)).await.unwrap();
        primary = cluster.primary_except(&[NodeId(3)]).await;
    }
    (cluster, primary)
}

/// Overwrites one key with a megabyte each time, and returns how many entries were in the log at most in the second half.
async fn longest_log(primary: &Replica, commits: usize, pause: Duration) -> u64 {
    let mut longest = 0;
    for number in 0..commits {
        put(&partition(primary), "busy", &"y".repeat(1_000_000)).await.unwrap();
        time::sleep(pause).await;
        let status = primary.status();
        if number >= commits / 2 {
            longest = longest.max(status.applied_next - status.log_first);
        }
    }
    longest
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_falls_behind_more_and_more_gets_the_state_and_the_log_is_cut() {
    let (cluster, primary) = with_a_slow_third().await;
    // One entry is a megabyte, and so are the state and what a checkpoint is made after.
    let longest = longest_log(&primary, 200, Duration::from_millis(50)).await;
    assert!(longest < 25, "{longest} entries were in the log at once");
    cluster.converged().await;
    assert_eq!(contents(&cluster.replica(3)), contents(&primary));
    assert!(primary.activity().copied_bytes > 0, "it got the state instead");
}

#[tokio::test(start_paused = true)]
async fn the_log_is_cut_behind_a_replica_that_follows_at_a_distance() {
    let (cluster, primary) = with_a_slow_third().await;
    for number in 0..200 {
        put(&partition(&primary), &format!("k{number}"), &"x".repeat(50_000)).await.unwrap();
    }
    cluster.converged().await;
    longest_log(&primary, 4, Duration::ZERO).await;
    // Hardly more than it takes to get one there: by what it is behind now, it stays behind.
    let longest = longest_log(&primary, 60, Duration::from_millis(690)).await;
    assert!(longest < 15, "{longest} entries were in the log at once");
    cluster.converged().await;
    assert_eq!(contents(&cluster.replica(3)), contents(&primary));
    assert_eq!(primary.activity().copied_bytes, 0, "it was never so far behind that it got the state");
}

#[tokio::test(start_paused = true)]
async fn a_replica_on_the_verge_of_what_is_waited_for_does_not_keep_the_log_from_being_cut() {
    let (cluster, primary) = with_a_slow_third().await;
    // It stays behind by as much as the state is large.
    for number in 0..200 {
        put(&partition(&primary), &format!("k{number}"), &"x".repeat(50_000)).await.unwrap();
    }
    let longest = longest_log(&primary, 60, Duration::from_millis(690)).await;
    assert!(longest < 40, "{longest} entries were in the log at once");
    cluster.converged().await;
    assert_eq!(contents(&cluster.replica(3)), contents(&primary));
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
