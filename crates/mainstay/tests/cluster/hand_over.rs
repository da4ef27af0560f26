//! A hand-over of the role: calls under way end, others are sent on, and no caller sees an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::join_all;
use mainstay::NodeId;
use mainstay::prelude::*;
use mainstay_core::time::{self, Duration};
use mainstay_replica::{Role, Troubles};
use mainstay_runtime::ServiceType;

use crate::harness::{Cluster, PATIENCE, Process};

/// How many write at the same time, of each kind.
const WRITERS: usize = 64;

/// How many actors they write to.
const ACTORS: usize = 8;

#[interface]
trait Sum {
    async fn add(&mut self, n: u64) -> Result<u64>;
    async fn add_by(&mut self, other: String) -> Result<u64>;
    async fn get(&self) -> Result<u64>;
    async fn get_after(&self, pause: Duration) -> Result<u64>;
}

#[derive(Actor)]
#[actor(implements(Sum), partitions = 1)]
struct SumActor {
    sum: State<u64>,
    context: Context,
}

impl Sum for SumActor {
    async fn add(&mut self, n: u64) -> Result<u64> {
        *self.sum += n;
        time::sleep(Duration::from_millis(1)).await;
        Ok(*self.sum)
    }

    async fn add_by(&mut self, other: String) -> Result<u64> {
        self.context.actor::<SumRef>(other)?.add(1).await?;
        *self.sum += 1;
        Ok(*self.sum)
    }

    async fn get(&self) -> Result<u64> {
        Ok(*self.sum)
    }

    async fn get_after(&self, pause: Duration) -> Result<u64> {
        time::sleep(pause).await;
        Ok(*self.sum)
    }
}

#[interface]
trait Ledger {
    async fn add(&self, key: u64) -> Result<u64>;
    async fn total(&self) -> Result<u64>;
}

#[derive(Service)]
#[service(implements(Ledger), partitions = singleton, run)]
struct LedgerService {
    sums: Dictionary<u64, u64>,
    state: StateManager,
}

impl LedgerService {
    async fn run(&self, context: ServiceContext) -> Result<()> {
        context.cancelled().await;
        Ok(())
    }
}

impl Ledger for LedgerService {
    async fn add(&self, key: u64) -> Result<u64> {
        self.state
            .transact(async |mut tx| {
                let sum = self.sums.get_for_update(&mut tx, &key).await?.map_or(0, |sum| *sum) + 1;
                self.sums.set(&mut tx, key, sum).await?;
                Ok(sum)
            })
            .await
    }

    async fn total(&self) -> Result<u64> {
        self.state
            .transact(async |mut tx| {
                let mut total = 0;
                for key in 0..WRITERS as u64 {
                    total += self.sums.get(&mut tx, &key).await?.map_or(0, |sum| *sum);
                }
                Ok(total)
            })
            .await
    }
}

fn types() -> Vec<ServiceType> {
    vec![ServiceType::of_actor::<SumActor>().unwrap(), ServiceType::of::<LedgerService>().unwrap()]
}

fn sum(process: &Process, id: &str) -> SumRef {
    process.services.actor(id).unwrap()
}

fn ledger(process: &Process) -> LedgerRef {
    process.services.service(()).unwrap()
}

/// Writers that follow the hints to the primary until they are told to stop.
#[derive(Default)]
struct Writers {
    is_over: AtomicBool,
    acknowledged: AtomicU64,
    redirected: AtomicU64,
}

impl Writers {
    /// Calls again and again. Any error but a redirection fails the test.
    async fn write<F: Future<Output = Result<u64>>>(
        self: &Arc<Self>,
        cluster: &Cluster,
        start: NodeId,
        call: impl Fn(&Process) -> F,
    ) {
        let mut node = start;
        while !self.is_over.load(Ordering::SeqCst) {
            match call(cluster.process(node)).await {
                Ok(_) => _ = self.acknowledged.fetch_add(1, Ordering::SeqCst),
                Err(error) => match error.kind() {
                    ErrorKind::NotPrimary { hint: Some(primary) } => {
                        self.redirected.fetch_add(1, Ordering::SeqCst);
                        node = primary;
                        time::sleep(Duration::from_millis(1)).await;
                    }
                    _ => panic!("a caller sees {error:?}"),
                },
            }
        }
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }
}

/// Hands the role round all nodes while others write, and then ends the writing.
async fn hand_round(cluster: &Cluster, writers: &Writers) {
    for _ in 0..3 {
        let before = writers.acknowledged();
        let from = cluster.primary().await;
        while writers.acknowledged() < before + 2 * WRITERS as u64 {
            time::sleep(Duration::from_millis(1)).await;
        }
        let to = NodeId(from.node.0 % 3 + 1);
        let replica = cluster.process(to).replica().identity().replica;
        time::timeout(PATIENCE, from.replica().hand_over(replica)).await.expect("in time").unwrap();
        assert_eq!(cluster.primary().await.node, to);
    }
    let before = writers.acknowledged();
    while writers.acknowledged() < before + 2 * WRITERS as u64 {
        time::sleep(Duration::from_millis(1)).await;
    }
    writers.is_over.store(true, Ordering::SeqCst);
}

async fn start() -> Cluster {
    let cluster = Cluster::start(3, types).await;
    let (delay_min, delay_max) = (Duration::from_millis(1), Duration::from_millis(5));
    cluster.network.set_troubles(Troubles { delay_min, delay_max, ..Troubles::default() });
    cluster
}

#[tokio::test(start_paused = true)]
async fn writers_to_actors_see_no_error_by_a_hand_over() {
    let cluster = start().await;
    let (writers, first) = (Arc::new(Writers::default()), cluster.primary().await.node);
    let writing = join_all((0..WRITERS).map(|n| {
        let (writers, cluster) = (writers.clone(), &cluster);
        async move {
            let id = (n % ACTORS).to_string();
            writers
                .write(cluster, first, |process| {
                    let sum = sum(process, &id);
                    async move { sum.add(1).await }
                })
                .await;
        }
    }));
    tokio::join!(writing, hand_round(&cluster, &writers));
    let primary = cluster.primary().await;
    let mut total = 0;
    for id in 0..ACTORS {
        total += sum(primary, &id.to_string()).get().await.unwrap();
    }
    assert_eq!(total, writers.acknowledged(), "each is there once");
    assert!(writers.redirected.load(Ordering::SeqCst) >= WRITERS as u64);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn turns_that_call_others_end_before_a_hand_over() {
    let cluster = start().await;
    let (writers, first) = (Arc::new(Writers::default()), cluster.primary().await.node);
    let writing = join_all((0..WRITERS).map(|n| {
        let (writers, cluster) = (writers.clone(), &cluster);
        async move {
            let (id, other) = (format!("caller-{n}"), format!("callee-{}", n % ACTORS));
            writers
                .write(cluster, first, |process| {
                    let (sum, other) = (sum(process, &id), other.clone());
                    async move { sum.add_by(other).await }
                })
                .await;
        }
    }));
    tokio::join!(writing, hand_round(&cluster, &writers));
    let primary = cluster.primary().await;
    let (mut made, mut received) = (0, 0);
    for n in 0..WRITERS {
        made += sum(primary, &format!("caller-{n}")).get().await.unwrap();
    }
    for n in 0..ACTORS {
        received += sum(primary, &format!("callee-{n}")).get().await.unwrap();
    }
    assert_eq!((made, received), (writers.acknowledged(), writers.acknowledged()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn writers_to_collections_see_no_error_by_a_hand_over() {
    let cluster = start().await;
    let (writers, first) = (Arc::new(Writers::default()), cluster.primary().await.node);
    let writing = join_all((0..WRITERS as u64).map(|key| {
        let (writers, cluster) = (writers.clone(), &cluster);
        async move {
            writers
                .write(cluster, first, |process| {
                    let ledger = ledger(process);
                    async move { ledger.add(key).await }
                })
                .await;
        }
    }));
    tokio::join!(writing, hand_round(&cluster, &writers));
    let total = ledger(cluster.primary().await).total().await.unwrap();
    assert_eq!(total, writers.acknowledged(), "each is there once");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn commits_to_a_partition_wait_and_are_sent_on() {
    let cluster = start().await;
    let (writers, first) = (Arc::new(Writers::default()), cluster.primary().await.node);
    let writing = join_all((0..WRITERS).map(|_| {
        let (writers, cluster) = (writers.clone(), &cluster);
        async move {
            writers
                .write(cluster, first, |process| {
                    let (partition, mut role) = (process.partition(), process.replica().watch());
                    async move {
                        // A replica that is about to become primary is waited for.
                        role.wait_for(|role| role.role == Role::Primary || role.primary.is_some()).await.unwrap();
                        let mut batch = partition.batch();
                        batch.add(b"sum", 1);
                        partition.commit(batch).await.map(|number| number.0)
                    }
                })
                .await;
        }
    }));
    tokio::join!(writing, hand_round(&cluster, &writers));
    let total = cluster.primary().await.partition().get(b"sum").unwrap().unwrap();
    assert_eq!(u64::from_le_bytes(total[..].try_into().unwrap()), writers.acknowledged(), "each is there once");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_that_fails_leaves_everything_as_it_was() {
    let cluster = start().await;
    let primary = cluster.primary().await;
    let (epoch, sum) = (primary.role_state().epoch, sum(primary, "a"));
    assert_eq!(sum.add(1).await.unwrap(), 1);
    let to = cluster.processes.values().find(|process| process.node != primary.node).unwrap();
    cluster.isolate(to.node);
    let replica = to.replica().identity().replica;
    let handing = async {
        let refused = primary.replica().hand_over(replica).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Timeout, "{refused}");
    };
    // It comes while calls are kept out, and is carried out when they are no longer.
    let calling = async {
        time::sleep(Duration::from_millis(100)).await;
        sum.add(1).await.unwrap()
    };
    let ((), added) = tokio::join!(handing, calling);
    assert_eq!(added, 2);
    assert_eq!((primary.role_state().role, primary.role_state().epoch), (Role::Primary, epoch));
    assert_eq!(ledger(primary).add(1).await.unwrap(), 1);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn callers_are_sent_on_while_the_old_primary_still_closes() {
    let cluster = start().await;
    let old = cluster.primary().await;
    let value = sum(old, "a");
    value.add(1).await.unwrap();
    // A turn that keeps the partition from closing for its grace period.
    let long = {
        let value = value.clone();
        mainstay_core::task::spawn(async move { value.get_after(Duration::from_secs(600)).await })
    };
    cluster.isolate(old.node);
    let new = cluster.primary_except(&[old.node]).await.node;
    let caller = value.clone();
    let waiting = mainstay_core::task::spawn(async move { caller.add(1).await });
    time::sleep(Duration::from_millis(1)).await;
    let healed = time::now();
    cluster.network.heal();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotPrimary { hint: Some(new) }, "{error}");
    assert!(healed.elapsed() < Duration::from_secs(1), "{:?}", healed.elapsed());
    assert!(!long.is_finished(), "the partition is still being closed");
    cluster.stop().await;
}
