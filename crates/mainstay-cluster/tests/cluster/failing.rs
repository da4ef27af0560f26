//! What goes on while something is down.

use mainstay_cluster::control::CONTROL_SET;
use mainstay_cluster::message::ControlRequest;
use mainstay_core::{Level, SetId};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn data_sets_fail_over_and_are_found_while_the_control_set_is_down() {
    let machines = machines(3);
    let processes = three(&machines).await;
    for process in &processes {
        process.kill_replica(CONTROL_SET);
    }
    let all: Vec<&Process> = processes.iter().collect();
    let leader = primary(&all, persisted(0)).await;
    leader.put(persisted(0), b"key", b"before").await.unwrap();
    leader.crash().await;
    let rest: Vec<&Process> = all.iter().copied().filter(|process| process.node.node() != leader.node.node()).collect();
    let next = primary(&rest, persisted(0)).await;
    next.put(persisted(0), b"key", b"after").await.unwrap();
    // Also those of level none, which are where the persisted set of their number is.
    for process in &rest {
        for set in [persisted(0), SetId { level: Level::None, number: 0 }] {
            until("the route leads there", || process.node.routes().route(set).node == Some(next.node.node())).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_control_set_goes_on_without_its_first_primary() {
    let machines = machines(3);
    let processes = three(&machines).await;
    let all: Vec<&Process> = processes.iter().collect();
    let leader = primary(&all, CONTROL_SET).await;
    leader.crash().await;
    let rest: Vec<&Process> = all.iter().copied().filter(|process| process.node.node() != leader.node.node()).collect();
    for (number, process) in rest.iter().enumerate() {
        let service = registration(&format!("Service{number}"), Level::None);
        process.request(ControlRequest::Register(vec![service])).await.unwrap();
    }
    for process in &rest {
        process.until("both are known", |state| state.services.len() == 2).await;
    }
}
