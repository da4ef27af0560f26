//! A leader that is to be without a vote, or is: it hands over first, and never serves while another does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mainstay_core::time::{self, Duration};
use mainstay_core::{ErrorKind, Level, NodeId, PartitionId, ReplicaId, SetId, task};
use mainstay_store::log::MemoryLog;
use mainstay_store::state::MemoryStore;
use openraft::ChangeMembers;

use crate::in_process::InProcessNetwork;
use crate::options::ReplicaOptions;
use crate::partition::Partition;
use crate::replica::{Identity, Replica};
use crate::role_state::Role;
use crate::tests::CLUSTER;

const SET: SetId = SetId { level: Level::Volatile, number: 0 };

fn partition(replica: &Replica) -> Partition {
    replica.partition(PartitionId(1))
}

async fn put(replica: &Replica, value: &str) {
    let mut batch = partition(replica).batch();
    batch.put(b"key", value.as_bytes());
    partition(replica).commit(batch).await.unwrap();
}

/// Replicas 1 to `count` on nodes of the same numbers.
async fn founded(network: &InProcessNetwork, count: u64) -> Vec<Replica> {
    let mut replicas = Vec::new();
    for id in 1..=count {
        let identity = Identity { cluster: CLUSTER, set: SET, replica: ReplicaId(id), node: NodeId(id), data_loss: 0 };
        let (log, store) = (Arc::new(MemoryLog::new()), Arc::new(MemoryStore::new()));
        let transport = network.endpoint(NodeId(id));
        let replica = Replica::start(identity, ReplicaOptions::default(), log, store, transport).await.unwrap();
        let handler = replica.clone();
        network.attach(
            NodeId(id),
            task::Scope::new(),
            Arc::new(move |_, _, request| {
                let replica = handler.clone();
                Box::pin(async move { replica.receive_unchecked(request).await })
            }),
        );
        replicas.push(replica);
    }
    let members: BTreeMap<ReplicaId, NodeId> = (1..=count).map(|id| (ReplicaId(id), NodeId(id))).collect();
    replicas[0].bootstrap(&members).await.unwrap();
    replicas
}

/// The one that serves reads, when there is one. Looks at all of them at every millisecond: two never do.
async fn serving(replicas: &[Replica]) -> Replica {
    let found = async {
        loop {
            let mut serving = replicas.iter().filter(|replica| partition(replica).read().is_ok());
            if let Some(one) = serving.next() {
                let other = serving.next();
                assert!(other.is_none(), "{one:?} and {other:?} serve reads at the same moment");
                return one.clone();
            }
            time::sleep(Duration::from_millis(1)).await;
        }
    };
    time::timeout(Duration::from_secs(60), found).await.expect("a primary within a minute")
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_a_vote_serves_nothing_while_another_is_elected() {
    let network = InProcessNetwork::new();
    let replicas = founded(&network, 4).await;
    let old = serving(&replicas).await;
    put(&old, "old").await;
    let me = old.status().identity;
    // As openraft does it, with nothing of ours in between.
    let gone = BTreeSet::from([me.replica.0]);
    let raft = old.inner.raft.clone();
    let change = async move {
        raft.change_membership(ChangeMembers::RemoveVoters(gone), false).await.unwrap();
        Ok(())
    };
    old.change(change).await.unwrap();
    // It tells another to take over and hears nothing of what comes of it; by its lease it would serve for a second more.
    for node in (1..=4).map(NodeId).filter(|node| *node != me.node) {
        network.cut(node, me.node);
    }
    let new = loop {
        let one = serving(&replicas).await;
        if one.status().identity != me {
            break one;
        }
        time::sleep(Duration::from_millis(1)).await;
    };
    // It still leads as far as it knows, and sends nobody to itself.
    assert_eq!(partition(&old).read().unwrap_err().kind(), ErrorKind::NotPrimary { hint: None });
    assert_eq!(old.role_state().role, Role::Secondary);
    put(&new, "new").await;
    let until = time::now() + ReplicaOptions::default().timing.election_timeout_max * 2;
    while time::now() < until {
        serving(&replicas).await;
        time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_primary_hands_over_before_any_change_that_leaves_it_without_a_vote() {
    let network = InProcessNetwork::new();
    let replicas = founded(&network, 3).await;
    let old = serving(&replicas).await;
    put(&old, "old").await;
    let me = old.status().identity;
    let others: BTreeSet<u64> = (1..=3).filter(|id| *id != me.replica.0).collect();
    // As when a younger replica on the primary's node is taken in.
    let change = ChangeMembers::ReplaceAllVoters(others.clone());
    let told = old.change_members(change).await.unwrap_err();
    let ErrorKind::NotPrimary { hint: Some(transfer_target) } = told.kind() else { panic!("{told:?}") };
    assert!(others.contains(&transfer_target.0), "{transfer_target}");
    let new = serving(&replicas).await;
    assert_eq!(new.status().identity.node, transfer_target);
    assert_eq!(new.status().voters.len(), 3, "who hands over changes nothing");
    new.remove_member(me.replica).await.unwrap();
    put(&new, "new").await;
}

#[tokio::test(start_paused = true)]
async fn who_leads_and_is_not_primary_does_not_remove_itself() {
    let network = InProcessNetwork::new();
    let replicas = founded(&network, 3).await;
    let old = serving(&replicas).await;
    put(&old, "old").await;
    let me = old.status().identity;
    for node in (1..=3).map(NodeId).filter(|node| *node != me.node) {
        network.cut(node, me.node);
        network.cut(me.node, node);
    }
    // The lease is over: openraft still takes it for the leader.
    old.watch().wait_for(|role_state| role_state.role == Role::Secondary).await.unwrap();
    let told = old.remove_member(me.replica).await.unwrap_err();
    assert!(matches!(told.kind(), ErrorKind::NotPrimary { .. }), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn the_only_voter_is_not_replaced_by_another_on_its_node() {
    let network = InProcessNetwork::new();
    let replicas = founded(&network, 1).await;
    let alone = serving(&replicas).await;
    let told = alone.change_members(ChangeMembers::ReplaceAllVoters(BTreeSet::from([9]))).await.unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Invalid);
    assert!(told.to_string().contains("on another node first"), "{told}");
    put(&alone, "new").await;
}
