use mainstay_store::disk::sim::DiskOp;

use super::*;
use crate::check;
use crate::scenario::Scenario;
use crate::trace::Trace;

/// A set of three that works, with somebody to trouble it.
async fn founded() -> Arc<Nemesis> {
    random::seed_thread(5);
    let scenario = Scenario { replicas: 3, ..Scenario::draw() };
    let cluster = Arc::new(Cluster::new(5, scenario, None, Trace::new(None)));
    cluster.bootstrap().await.unwrap();
    let elected = async {
        while cluster.primary().is_none() {
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(Duration::from_secs(60), elected).await.unwrap();
    Arc::new(Nemesis::new(cluster))
}

/// Longer than anything that is announced takes to come.
async fn all_that_was_announced() {
    time::sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn healing_disarms_what_was_announced() {
    let nemesis = founded().await;
    for node in [1, 2, 3].map(NodeId) {
        // Power that goes at the next checkpoint, say, which is in the midst of the judgement.
        nemesis.cluster.doom(node, 1_000_000);
    }
    nemesis.doom_one();
    nemesis.heal_everything().await;
    assert!(nemesis.cluster.ids().iter().all(|node| !nemesis.cluster.is_doomed(*node)));
    let watch = check::watch_roles(nemesis.cluster.clone());
    assert!(time::timeout(Duration::from_secs(5), watch).await.is_err(), "nothing is objected to");
    assert_eq!(nemesis.counts.lock().crashes, Tally::default(), "no node has crashed since");
    assert_eq!(nemesis.cluster.running().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_power_runs_again_after_healing() {
    let nemesis = founded().await;
    nemesis.cluster.doom(NodeId(2), 0);
    time::sleep(Duration::from_secs(1)).await;
    assert!(nemesis.cluster.is_without_power(NodeId(2)));
    nemesis.heal_everything().await;
    all_that_was_announced().await;
    assert!(!nemesis.cluster.is_without_power(NodeId(2)) && !nemesis.cluster.is_doomed(NodeId(2)));
    assert_eq!(nemesis.cluster.running().len(), 3);
    assert_eq!(nemesis.cluster.failure(), None);
}

#[tokio::test(start_paused = true)]
async fn every_operation_can_fail_once_while_a_process_starts_and_the_next_start_works() {
    let nemesis = founded().await;
    let node = NodeId(3);
    let mut failed = Vec::new();
    for op in DiskOp::ALL {
        nemesis.cluster.stop(node).await.unwrap();
        let before = nemesis.cluster.struck(node);
        nemesis.cluster.inject(node, op, 1);
        if nemesis.cluster.start(node).await.is_err() {
            assert!(nemesis.cluster.struck(node) > before, "{op:?}: it failed by itself");
            failed.push(op);
        } else {
            nemesis.cluster.end_process(node);
        }
        nemesis.cluster.mend_disk(node);
        nemesis.restart(node).await;
        assert_eq!(*nemesis.stuck.lock(), None);
        assert_eq!(nemesis.cluster.running().len(), 3, "{op:?}");
    }
    assert!(failed.contains(&DiskOp::Lock) && failed.contains(&DiskOp::Open), "{failed:?}");
}
