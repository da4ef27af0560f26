//! From one node to three, and where replicas are then.

use std::collections::BTreeSet;

use mainstay_cluster::NodeSets as _;
use mainstay_cluster::control::CONTROL_SET;
use mainstay_cluster::message::ControlRequest;
use mainstay_core::{ErrorKind, NodeId, PartitionId};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn one_node_grows_to_three_with_its_data() {
    let machines = machines(3);
    let first = machines[0].start(&[]).await.unwrap();
    first.until_settled(1, 1).await;
    until("the set is led", || first.is_primary(persisted(0))).await;
    first.put(persisted(0), b"key", b"before").await.unwrap();
    let second = machines[1].start(&["n1"]).await.unwrap();
    second.until_settled(2, 1).await;
    let third = machines[2].start(&["n2"]).await.unwrap();
    for process in [&first, &second, &third] {
        let state = process.until_settled(3, 3).await;
        for set in state.sets.values() {
            let nodes: BTreeSet<NodeId> = set.confirmed.voters.values().copied().collect();
            assert_eq!(nodes.len(), 3, "{set:?}");
        }
        let partition = process.sets.partition(persisted(0), PartitionId(16)).unwrap();
        until("the data is there", || partition.snapshot().unwrap().get(b"key").unwrap().is_some()).await;
    }
    // Ids are from the counter, and none is used twice.
    let state = first.state();
    let all: Vec<_> = state.sets.values().flat_map(|set| set.confirmed.all()).map(|(id, _)| id).collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    assert!(all.iter().all(|id| id.0 < state.cluster().unwrap().next_replica));

    first.crash().await;
    let rest = [&second, &third];
    let primary = primary(&rest, persisted(0)).await;
    primary.put(persisted(0), b"key", b"after").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fourth_node_gets_its_share_and_a_fifth_makes_five_control_voters() {
    let machines = machines(5);
    let mut processes = three(&machines[..3]).await;
    let fourth = machines[3].start(&["n3"]).await.unwrap();
    let state = fourth
        .until("four nodes have settled", |state| {
            state.up().count() == 4 && state.sets.values().all(|set| set.wanted == set.confirmed)
        })
        .await;
    let control = &state.sets[&CONTROL_SET].confirmed;
    assert_eq!((control.voters.len(), control.learners.len()), (3, 1));
    let load = |node: u64| {
        let data = state.sets.values().filter(|set| set.id != CONTROL_SET);
        data.filter(|set| set.confirmed.on(NodeId(node)).is_some()).count()
    };
    let loads = [1, 2, 3, 4].map(load);
    assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{loads:?}");
    assert_eq!(loads.iter().sum::<usize>(), 3 * usize::from(SETS));
    // The node that a replica has moved away from has dropped it.
    processes.push(fourth);
    for process in &processes {
        let node = process.node.node();
        let wanted: BTreeSet<_> =
            state.sets.values().filter(|set| set.wanted.on(node).is_some()).map(|set| set.id).collect();
        until("what is not wanted is dropped", || {
            process.sets.held().iter().map(|held| held.set).collect::<BTreeSet<_>>() == wanted
        })
        .await;
    }
    let fifth = machines[4].start(&["n1"]).await.unwrap();
    let is_five = |state: &mainstay_cluster::control::ControlState| {
        state.sets.get(&CONTROL_SET).is_some_and(|control| control.confirmed.voters.len() == 5)
    };
    fifth.until("the control set has five voters", is_five).await;
}

#[tokio::test(start_paused = true)]
async fn the_target_changes_while_running_and_a_node_leaves() {
    let machines = machines(3);
    let processes = three(&machines).await;
    let error = processes[2].request(ControlRequest::RemoveNode { node: NodeId(3), is_gone: false }).await.unwrap_err();
    assert!(error.to_string().contains("add a node first"), "{error}");
    for wrong in [(2, 2), (0, 0), (3, 1), (3, 4), (10, 6)] {
        let refused = processes[1].request(ControlRequest::SetReplicas { target: wrong.0, min: wrong.1 }).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid, "{wrong:?}");
    }
    processes[1].request(ControlRequest::SetReplicas { target: 1, min: 1 }).await.unwrap();
    processes[1]
        .until("sets have one voter", |state| {
            let mut data = state.sets.values().filter(|set| set.id != CONTROL_SET);
            data.all(|set| set.confirmed == set.wanted && set.confirmed.voters.len() == 1)
        })
        .await;
    processes[0].request(ControlRequest::RemoveNode { node: NodeId(3), is_gone: false }).await.unwrap();
    let state = processes[0].until("node 3 is removed", |state| state.removed().contains(&NodeId(3))).await;
    assert!(state.operations.is_empty());
    assert!(state.sets.values().all(|set| set.confirmed.on(NodeId(3)).is_none()));
}
