//! A cluster begins, and others join it.

use std::path::Path;

use mainstay_cluster::control::CONTROL_SET;
use mainstay_cluster::control::record::PEER_ADDRESS;
use mainstay_core::time::Duration;
use mainstay_core::{ErrorKind, NodeId};
use mainstay_replica::Disk as _;
use mainstay_wire::sim::SimLink;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_node_without_seeds_begins_a_cluster_of_one() {
    let machine = machines(1).remove(0);
    let process = machine.start(&[]).await.unwrap();
    process.announced().await.unwrap();
    let state = process.until_settled(1, 1).await;
    assert_eq!(state.sets.len(), 1 + usize::from(SETS));
    let node = &state.nodes[&NodeId(1)];
    assert_eq!((node.boot, node.addresses[PEER_ADDRESS].as_str()), (1, "n1:7400"));
    assert_eq!((state.cluster().unwrap().replicas_target, state.cluster().unwrap().replicas_min), (3, 2));
    until("all sets are led here", || (0..SETS).all(|number| process.is_primary(persisted(number)))).await;
    process.put(persisted(1), b"key", b"value").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_with_seeds_waits_for_them_and_never_begins_a_cluster() {
    let machines = machines(2);
    let mut options = machines[1].options(&["n1"]);
    options.join_time_limit = Duration::from_secs(5);
    let error = machines[1].start_with(&options).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert_eq!(machines[1].identity(), None);

    let first = machines[0].start(&[]).await.unwrap();
    let second = machines[1].start(&["n1"]).await.unwrap();
    second.announced().await.unwrap();
    assert_eq!(second.node.node(), NodeId(2));
    let state = second.until("it is up", |state| is_up(state, NodeId(2))).await;
    assert_eq!(state.cluster().unwrap().id, first.state().cluster().unwrap().id);
    // With two nodes each set stays at one voter, and the second learns.
    let state = second.until_settled(2, 1).await;
    assert!(state.sets.values().all(|set| set.confirmed.learners.values().eq([&NodeId(2)])));
    assert!(second.sets.replica(CONTROL_SET).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_join_that_was_interrupted_gets_the_same_node() {
    let machines = machines(2);
    let first = machines[0].start(&[]).await.unwrap();
    first.announced().await.unwrap();
    // The process ends at some point on the way, also after the cluster has taken it in and before it has heard so.
    let slow = SimLink { delay: Duration::from_millis(10), bytes_per_second: None };
    machines[0].network.set_link("n1", "n2", slow);
    let mut interrupted = 0;
    for after in (5..200).step_by(5) {
        interrupted += u32::from(machines[1].interrupted_join(&["n1"], Duration::from_millis(after)).await);
        if first.state().nodes.len() == 2 {
            break;
        }
    }
    assert!(interrupted > 2 && first.state().nodes.len() == 2, "{interrupted}");
    assert_eq!(machines[1].identity(), None);
    let second = machines[1].start(&["n1"]).await.unwrap();
    second.announced().await.unwrap();
    assert_eq!(second.node.node(), NodeId(2));
    let state = second.until_settled(2, 1).await;
    assert_eq!(state.nodes.len(), 2, "{:?}", state.nodes);
}

#[tokio::test(start_paused = true)]
async fn a_name_with_several_seeds_is_tried_until_one_answers() {
    let machines = machines(3);
    let first = machines[0].start(&[]).await.unwrap();
    first.announced().await.unwrap();
    machines[2].network.resolve("seeds.example", "n1");
    let third = machines[2].start(&["n2", "seeds.example"]).await.unwrap();
    third.announced().await.unwrap();
    assert_eq!(third.node.node(), NodeId(2));
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_has_run_alone_does_not_join_another_cluster() {
    let machines = machines(2);
    let first = machines[0].start(&[]).await.unwrap();
    first.announced().await.unwrap();
    let second = machines[1].start(&[]).await.unwrap();
    second.announced().await.unwrap();
    second.crash().await;
    // Its own peers file says whose it is, and the seeds are not asked.
    let second = machines[1].start(&["n1"]).await.unwrap();
    second.announced().await.unwrap();
    assert_ne!(second.state().cluster().unwrap().id, first.state().cluster().unwrap().id);
    assert_eq!(first.state().nodes.len(), 1);
    second.crash().await;
    // A folder from before the control set has no such file.
    let old = Machine { host: "n3".to_owned(), ..machines[1].copied() };
    old.disk.remove(Path::new("/data/peers")).unwrap();
    let error = old.start(&["n1"]).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("has run alone") && error.kind() == ErrorKind::Invalid, "{error}");
}
