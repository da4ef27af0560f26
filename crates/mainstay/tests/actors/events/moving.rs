//! Events of an actor whose partition changes hands.

use std::path::Path;
use std::sync::Arc;

use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay::{NodeId, PartitionId, SetId};
use mainstay_core::ClusterId;
use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration};
use mainstay_replica::{InProcessNetwork, Role, UniformSets, UniformSetsOptions};
use mainstay_runtime::{Directory, ServiceType, Services, Serving};
use mainstay_store::log::{Driver, SyncDelay};

use super::{Said, SpeakerActor, SpeakerRef, heard};

const CLUSTER: ClusterId = ClusterId(1);
const SET: SetId = SetId { level: Level::Persisted, number: 0 };

/// A process with a directory of its own, as `mainstay-node` puts it together.
struct Process {
    replicas: UniformSets,
    directory: Arc<Directory>,
    alice: SpeakerRef,
}

impl Process {
    async fn start(network: &InProcessNetwork, number: u64) -> Self {
        let node = NodeId(number);
        let mut options =
            UniformSetsOptions { cluster: Some(CLUSTER), sets_per_level: 1, ..UniformSetsOptions::new(node) };
        options.log.segment_bytes = 256 << 10;
        options.log.driver = Driver::Task { sync_delay: SyncDelay::default() };
        options.store.cache_bytes_max = 8 << 20;
        let disk = Arc::new(SimDisk::new(number));
        let replicas = UniformSets::open(disk, Path::new("/data"), options, network.endpoint(node)).await.unwrap();
        let handler = replicas.clone();
        network.attach(
            node,
            Scope::new(),
            Arc::new(move |from, set, request| {
                let replicas = handler.clone();
                Box::pin(async move { replicas.receive(from, set, request).await })
            }),
        );
        let all: Vec<NodeId> = (1..=number).map(NodeId).collect();
        match number {
            1 => replicas.bootstrap().await.unwrap(),
            _ => replicas.join(&all).await.unwrap(),
        }
        let service = ServiceType::of_actor::<SpeakerActor>().unwrap();
        let partitions = (0..10).map(|id| replicas.partition(SET.level, PartitionId(id))).collect();
        let serving = vec![Serving { service, partitions }];
        let directory = Arc::new(Directory::new(&serving).unwrap());
        directory.serve(node, serving, directory.clone());
        let alice = Services::new(directory.clone()).actor("alice").unwrap();
        Self { replicas, directory, alice }
    }

    async fn is(&self, role: Role) {
        let mut role_state = self.replicas.partition(SET.level, PartitionId(0)).watch();
        let settled = role_state.wait_for(|role_state| role_state.role == role && role_state.primary.is_some());
        time::timeout(Duration::from_secs(60), settled).await.expect("a role within a minute").unwrap();
    }

    async fn hand_over(&self, to: &Process) {
        let replica = to.replicas.replica(SET).unwrap().status().identity.replica;
        self.replicas.replica(SET).unwrap().hand_over(replica).await.unwrap();
        to.is(Role::Primary).await;
        self.is(Role::Secondary).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_goes_on_when_the_partition_is_back_and_knows_what_it_missed() {
    let network = InProcessNetwork::new();
    let one = Process::start(&network, 1).await;
    // Before the partition is open anywhere.
    let mut on_one = one.alice.events::<Said>().unwrap();
    let two = Process::start(&network, 2).await;
    let three = Process::start(&network, 3).await;
    let mut on_two = two.alice.events::<Said>().unwrap();
    one.is(Role::Primary).await;
    one.alice.say(1).await.unwrap();
    one.alice.say_many(2).await.unwrap();
    assert_eq!(heard(&mut on_one), [(1, 1, 0), (2, 1, 0), (3, 2, 0)]);
    assert!(heard(&mut on_two).is_empty());

    one.hand_over(&two).await;
    two.alice.say_many(4).await.unwrap();
    assert_eq!(heard(&mut on_two).iter().map(|it| it.0).collect::<Vec<_>>(), [4, 5, 6, 7]);
    assert!(heard(&mut on_one).is_empty());

    two.hand_over(&one).await;
    // Whoever waits is reached as well.
    let waiting = mainstay_core::task::spawn(async move {
        let received = on_one.next().await.unwrap();
        (received.sequence, received.event.value, received.missed)
    });
    one.alice.say(9).await.unwrap();
    assert_eq!(waiting.await.unwrap(), (8, 9, 4));

    for process in [one, two, three] {
        process.directory.stop().await;
        process.replicas.stop().await;
    }
    assert_eq!(on_two.next().await.unwrap_err().kind(), ErrorKind::Fatal);
}
