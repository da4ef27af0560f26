//! Services are registered from anywhere, and volatile sets follow from them.

use mainstay_cluster::control::record::PlacedPartition;
use mainstay_cluster::message::{ControlAnswer, ControlRequest};
use mainstay_core::partitioning::Partitioning;
use mainstay_core::{ErrorKind, Level, NodeId, PartitionId, SetId};

use crate::support::*;

fn volatile(number: u16) -> SetId {
    SetId { level: Level::Volatile, number }
}

#[tokio::test(start_paused = true)]
async fn a_service_is_registered_from_a_node_that_is_not_the_control_primary() {
    let machines = machines(3);
    let processes = three(&machines).await;
    let all: Vec<&Process> = processes.iter().collect();
    let controlling = primary(&all, mainstay_cluster::control::CONTROL_SET).await.node.node();
    let other = all.iter().find(|process| process.node.node() != controlling).unwrap();
    let mut registered = Vec::new();
    for _ in 0..2 {
        let request = ControlRequest::Register(vec![registration("Counter", Level::Persisted)]);
        let ControlAnswer::Registered(services) = other.request(request).await.unwrap() else { panic!("registered") };
        registered.push(services);
    }
    assert_eq!(registered[0], registered[1], "the second time it is looked up");
    let placed: Vec<PlacedPartition> = (16..20)
        .map(|id| PlacedPartition { id: PartitionId(id), set: persisted((id % u64::from(SETS)) as u16) })
        .collect();
    assert_eq!(registered[0][0].partitions, placed);

    let otherwise = [
        ("has data in partitions uniform(4)", {
            let mut wrong = registration("Counter", Level::Persisted);
            wrong.partitioning = Partitioning::uniform(5);
            wrong
        }),
        ("the level cannot be changed, because", registration("Counter", Level::None)),
    ];
    for (why, wrong) in otherwise {
        let error = other.request(ControlRequest::Register(vec![wrong])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(why) && error.to_string().contains("service Counter"), "{error}");
    }
    other.until("the service is known here", |state| state.services.contains_key("Counter")).await;
}

#[tokio::test(start_paused = true)]
async fn volatile_sets_exist_from_the_first_volatile_service_on_and_survive_a_restart_of_one() {
    let machines = machines(3);
    let processes = three(&machines).await;
    assert!(processes[0].state().sets.keys().all(|set| set.level == Level::Persisted));
    processes[2].request(ControlRequest::Register(vec![registration("Cache", Level::Volatile)])).await.unwrap();
    let is_there = |state: &mainstay_cluster::control::ControlState| {
        (0..SETS).all(|number| {
            let set = state.sets.get(&volatile(number));
            set.is_some_and(|set| set.confirmed == set.wanted && set.confirmed.voters.len() == 3)
        })
    };
    for process in &processes {
        process.until("volatile sets are there", is_there).await;
    }
    let all: Vec<&Process> = processes.iter().collect();
    primary(&all, volatile(0)).await.put(volatile(0), b"key", b"value").await.unwrap();
    let before = processes[0].state().sets[&volatile(0)].clone();

    processes[2].crash().await;
    let third = machines[2].start(&[]).await.unwrap();
    third.announced().await.unwrap();
    let state = third
        .until("the new replica is a member", |state| {
            is_there(state) && state.sets[&volatile(0)].confirmed != before.confirmed
        })
        .await;
    let set = &state.sets[&volatile(0)];
    assert_ne!(set.confirmed.on(NodeId(3)), before.confirmed.on(NodeId(3)), "a new id, because its memory is gone");
    assert_eq!((set.data_loss, set.confirmed.on(NodeId(1))), (0, before.confirmed.on(NodeId(1))));
    let partition = third.sets.partition(volatile(0), PartitionId(16)).unwrap();
    until("the value is there", || partition.snapshot().unwrap().get(b"key").unwrap().is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_volatile_set_that_has_lost_its_quorum_begins_again_with_a_higher_data_loss_number() {
    let machines = machines(3);
    let processes = three(&machines).await;
    processes[0].request(ControlRequest::Register(vec![registration("Cache", Level::Volatile)])).await.unwrap();
    let is_there = |state: &mainstay_cluster::control::ControlState, data_loss: u32| {
        (0..SETS).all(|number| {
            let set = state.sets.get(&volatile(number));
            set.is_some_and(|set| {
                set.data_loss == data_loss && set.confirmed == set.wanted && set.confirmed.voters.len() == 3
            })
        })
    };
    for process in &processes {
        process.until("volatile sets are there", |state| is_there(state, 0)).await;
    }
    for process in &processes {
        process.crash().await;
    }
    let mut again = Vec::new();
    for machine in &machines {
        again.push(machine.start(&[]).await.unwrap());
    }
    for process in &again {
        process.until("volatile sets have begun again", |state| is_there(state, 1)).await;
    }
    let all: Vec<&Process> = again.iter().collect();
    primary(&all, volatile(1)).await.put(volatile(1), b"key", b"value").await.unwrap();
}
