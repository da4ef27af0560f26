//! Partitions that come and go, and services that are known by their records.

use std::sync::Arc;

use mainstay::PartitionId;
use mainstay::prelude::*;
use mainstay_core::time::Duration;
use mainstay_runtime::{Directory, ServiceType};

use crate::harness::{FIRST, TwoNodes};

#[interface]
trait Guest {
    async fn stay(&mut self) -> Result<u64>;
    async fn stays(&self) -> Result<u64>;
}

#[derive(Actor)]
#[actor(implements(Guest), partitions = 1)]
struct GuestActor {
    stays: State<u64>,
}

impl Guest for GuestActor {
    async fn stay(&mut self) -> Result<u64> {
        *self.stays += 1;
        Ok(*self.stays)
    }

    async fn stays(&self) -> Result<u64> {
        Ok(*self.stays)
    }
}

async fn cluster() -> TwoNodes {
    TwoNodes::start(vec![(ServiceType::of_actor::<GuestActor>().unwrap(), FIRST)]).await
}

#[tokio::test(start_paused = true)]
async fn calls_go_elsewhere_when_a_partition_is_detached_and_come_back_with_it() {
    let cluster = cluster().await;
    let (first, second) = (cluster.first(), cluster.second());
    let near: GuestRef = first.services.actor("alice").unwrap();
    assert_eq!(near.stay().await.unwrap(), 1);
    cluster.hand_over(FIRST, 0, 1).await;
    first.directory.detach("GuestActor", 0).await.unwrap();
    first.directory.detach("GuestActor", 0).await.unwrap();
    cluster.net.believe(PartitionId(0), Some(second.id));
    // The same proxy, whose route was cached.
    assert_eq!(near.stay().await.unwrap(), 2);
    assert!(cluster.net.requests() > 0);
    // A node without the partition says where it is.
    cluster.net.believe(PartitionId(0), Some(second.id));
    first.directory.attach("GuestActor", 0, first.partition(PartitionId(0))).unwrap();
    first.directory.attach("GuestActor", 0, first.partition(PartitionId(0))).unwrap();
    cluster.hand_over(FIRST, 1, 0).await;
    let before = cluster.net.requests();
    assert_eq!(near.stay().await.unwrap(), 3);
    assert_eq!(cluster.net.requests(), before);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_at_a_detached_partition_looks_elsewhere() {
    let cluster = cluster().await;
    let (first, second) = (cluster.first(), cluster.second());
    cluster.hand_over(FIRST, 0, 1).await;
    first.directory.detach("GuestActor", 0).await.unwrap();
    cluster.net.believe(PartitionId(0), None);
    let waiting: GuestRef = first.services.actor("alice").unwrap();
    let call = tokio::spawn(async move { waiting.stay().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    cluster.net.believe(PartitionId(0), Some(second.id));
    assert_eq!(call.await.unwrap().unwrap(), 1);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deleting_reaches_actors_elsewhere() {
    let cluster = cluster().await;
    let far: GuestRef = cluster.second().services.actor("alice").unwrap();
    assert_eq!((far.stay().await.unwrap(), far.stay().await.unwrap()), (1, 2));
    cluster.second().services.actors::<GuestActor>().unwrap().deactivate("alice").await.unwrap();
    assert_eq!(far.stays().await.unwrap(), 2);
    far.delete_actor().await.unwrap();
    assert_eq!(far.stays().await.unwrap(), 0);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn records_are_checked_when_they_are_learned() {
    let directory = Arc::new(Directory::empty());
    let known = ServiceType::of_actor::<GuestActor>().unwrap().known(vec![PartitionId(4)]);
    directory.learn(known.clone()).unwrap();
    directory.learn(known.clone()).unwrap();
    let mut moved = known.clone();
    moved.partitions = vec![PartitionId(5)];
    assert_eq!(directory.learn(moved).unwrap_err().kind(), ErrorKind::Conflict);
    let mut short = known;
    (short.name, short.partitions) = ("Other".to_owned(), Vec::new());
    assert_eq!(directory.learn(short).unwrap_err().kind(), ErrorKind::Invalid);
    directory.kill();
}
