//! Level none has one owner in the cluster, which moves with the role of a set, and its memory goes with the role.

use mainstay::prelude::*;
use mainstay::{NodeId, PartitionId};
use mainstay_core::time::{self, Duration};
use mainstay_replica::{Partition, Role};
use mainstay_runtime::ServiceType;

use crate::harness::{Cluster, PATIENCE, Process};

#[interface]
trait Scratch {
    async fn add(&mut self, n: u64) -> Result<u64>;
    async fn get(&self) -> Result<u64>;
    async fn epoch(&self) -> Result<u64>;
}

#[derive(Actor)]
#[actor(implements(Scratch), partitions = 1, persistence = "none")]
struct ScratchActor {
    sum: State<u64>,
    context: Context,
}

impl Scratch for ScratchActor {
    async fn add(&mut self, n: u64) -> Result<u64> {
        *self.sum += n;
        Ok(*self.sum)
    }

    async fn get(&self) -> Result<u64> {
        Ok(*self.sum)
    }

    async fn epoch(&self) -> Result<u64> {
        Ok(self.context.epoch().0)
    }
}

fn types() -> Vec<ServiceType> {
    vec![ServiceType::of_actor::<ScratchActor>().unwrap()]
}

fn scratch(process: &Process) -> ScratchRef {
    process.services.actor("a").unwrap()
}

fn memory(process: &Process) -> Partition {
    process.replicas.partition(Level::None, PartitionId(1000))
}

/// Waits until the memory of a node follows the role of its set.
async fn settled(process: &Process) {
    let (wanted, mut watch) = (process.role_state(), memory(process).watch());
    let same = watch.wait_for(|role_state| (role_state.role, role_state.epoch) == (wanted.role, wanted.epoch));
    time::timeout(PATIENCE, same).await.expect("in time").unwrap();
}

fn put(partition: &Partition, value: &[u8]) -> Result<()> {
    let mut batch = partition.batch();
    batch.put(b"key", value);
    partition.commit_at_once(batch).map(drop)
}

#[tokio::test(start_paused = true)]
async fn one_node_owns_it_with_the_epoch_of_the_set() {
    let cluster = Cluster::start(3, types).await;
    let primary = cluster.primary().await;
    for process in cluster.processes.values() {
        settled(process).await;
        assert_eq!(memory(process).role_state().role == Role::Primary, process.node == primary.node);
    }
    assert_eq!(scratch(primary).add(5).await.unwrap(), 5);
    assert_eq!(scratch(primary).epoch().await.unwrap(), primary.role_state().epoch.0);
    assert_eq!(memory(primary).check().unwrap(), primary.role_state().epoch);
    for other in cluster.processes.values().filter(|process| process.node != primary.node) {
        let elsewhere = ErrorKind::NotPrimary { hint: Some(primary.node) };
        assert_eq!(scratch(other).add(1).await.unwrap_err().kind(), elsewhere);
        assert_eq!(put(&memory(other), b"1").unwrap_err().kind(), elsewhere);
        assert_eq!(memory(other).get(b"key").unwrap_err().kind(), elsewhere);
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn its_memory_goes_with_the_role_and_does_not_come_back() {
    let cluster = Cluster::start(3, types).await;
    let first = cluster.primary().await;
    settled(first).await;
    assert_eq!(scratch(first).add(5).await.unwrap(), 5);
    put(&memory(first), b"1").unwrap();
    // What an earlier owner has left open is in nobody's way.
    let _claim = memory(first).claim().unwrap();
    let old_epoch = first.role_state().epoch;
    let second = NodeId(first.node.0 % 3 + 1);
    for (from, to) in [(first.node, second), (second, first.node)] {
        let replica = cluster.process(to).replica().identity().replica;
        cluster.process(from).replica().hand_over(replica).await.unwrap();
        let owner = cluster.primary().await;
        assert_eq!(owner.node, to);
        settled(owner).await;
        assert_eq!(memory(owner).get(b"key").unwrap(), None, "an owner begins with nothing");
        assert_eq!(scratch(owner).get().await.unwrap(), 0);
        assert_eq!(scratch(owner).add(1).await.unwrap(), 1);
        put(&memory(owner), b"2").unwrap();
    }
    // A commit of the epoch before finds another memory.
    let mut late = memory(first).batch();
    late.put(b"key", b"late").in_epoch(old_epoch);
    assert!(matches!(memory(first).commit_at_once(late).unwrap_err().kind(), ErrorKind::NotPrimary { .. }));
    assert_eq!(memory(first).get(b"key").unwrap().as_deref(), Some(&b"2"[..]));
    memory(first).claim().unwrap();
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_suspended_neither_reads_nor_commits() {
    let cluster = Cluster::start(3, types).await;
    let primary = cluster.primary().await;
    settled(primary).await;
    scratch(primary).add(5).await.unwrap();
    put(&memory(primary), b"1").unwrap();
    time::suspend_thread(Duration::from_secs(60));
    let refused = [
        scratch(primary).get().await.map(drop),
        scratch(primary).add(1).await.map(drop),
        put(&memory(primary), b"2"),
        memory(primary).get(b"key").map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}");
    }
    cluster.stop().await;
}
