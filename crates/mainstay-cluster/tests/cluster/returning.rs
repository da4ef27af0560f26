//! Nodes that start again, and some that may not.

use std::collections::BTreeMap;

use mainstay_cluster::message::ControlRequest;
use mainstay_core::{NodeId, PartitionId};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn all_nodes_start_again_without_seeds() {
    let machines = machines(3);
    let processes = three(&machines).await;
    let leader = primary(&processes.iter().collect::<Vec<_>>(), persisted(1)).await;
    leader.put(persisted(1), b"key", b"value").await.unwrap();
    for process in &processes {
        process.crash().await;
    }
    let mut again = Vec::new();
    for machine in &machines {
        again.push(machine.start(&[]).await.unwrap());
    }
    for process in &again {
        process.announced().await.unwrap();
    }
    let state = again[2].until_settled(3, 3).await;
    assert_eq!(state.nodes.values().map(|node| node.boot).collect::<Vec<_>>(), [2, 2, 2]);
    let leader = primary(&again.iter().collect::<Vec<_>>(), persisted(1)).await;
    let partition = leader.sets.partition(persisted(1), PartitionId(16)).unwrap();
    assert_eq!(partition.get(b"key").unwrap().unwrap(), &b"value"[..]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_moved_is_found_at_its_new_address() {
    let machines = machines(3);
    let processes = three(&machines).await;
    processes[2].crash().await;
    let elsewhere = Machine { host: "n9".to_owned(), ..machines[2].clone() };
    let moved = elsewhere.start(&[]).await.unwrap();
    moved.announced().await.unwrap();
    processes[0]
        .until("the address is known", |state| state.nodes[&NodeId(3)].addresses.values().any(|a| a == "n9:7400"))
        .await;
    // Another node goes, so that the one that has moved is needed for every commit.
    processes[1].crash().await;
    let rest = [&processes[0], &moved];
    let leader = primary(&rest, persisted(0)).await;
    leader.put(persisted(0), b"key", b"value").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_old_copy_of_a_folder_is_refused() {
    let machines = machines(3);
    let processes = three(&machines).await;
    processes[2].crash().await;
    let old = machines[2].copied();
    let latest = machines[2].start(&[]).await.unwrap();
    latest.announced().await.unwrap();
    processes[0].until("boot 2 is known", |state| state.nodes[&NodeId(3)].boot == 2).await;
    latest.crash().await;
    // The copy counts to 2 as well: it is another process with the same counter.
    let process = old.start(&[]).await.unwrap();
    assert_eq!(old.identity().unwrap().boot, 2);
    let error = process.announced().await.unwrap_err();
    assert!(error.to_string().contains("old copy") && error.to_string().contains("n3"), "{error}");
    process.crash().await;
    // The latest goes on.
    let latest = machines[2].start(&[]).await.unwrap();
    latest.announced().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_removed_node_is_refused_and_an_empty_folder_is_a_new_node() {
    let machines = machines(4);
    let processes = three(&machines[..3]).await;
    processes[2].crash().await;
    processes[1].request(ControlRequest::RemoveNode { node: NodeId(3), is_gone: true }).await.unwrap();
    processes[0].until("node 3 is removed", |state| state.removed().contains(&NodeId(3))).await;
    processes[1].until("node 3 is removed", |state| state.removed().contains(&NodeId(3))).await;
    let process = machines[2].start(&[]).await.unwrap();
    let error = process.announced().await.unwrap_err();
    assert!(error.to_string().contains("was removed"), "{error}");
    process.crash().await;

    let fresh = machines[3].start(&["n1"]).await.unwrap();
    fresh.announced().await.unwrap();
    assert_eq!(fresh.node.node(), NodeId(4));
    let state = fresh.until_settled(3, 3).await;
    for set in state.sets.values() {
        let nodes: BTreeMap<_, _> = set.confirmed.voters.values().map(|node| (*node, ())).collect();
        assert_eq!(nodes.into_keys().collect::<Vec<_>>(), [NodeId(1), NodeId(2), NodeId(4)]);
    }
}
