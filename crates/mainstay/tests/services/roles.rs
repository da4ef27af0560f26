//! A partition that changes hands: its object follows the primary.

use std::path::Path;
use std::sync::{Arc, Mutex};

use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay::{NodeId, PartitionId, ReplicaId, SetId};
use mainstay_core::ClusterId;
use mainstay_core::task::Scope;
use mainstay_core::time::{self, Duration};
use mainstay_replica::{InProcessNetwork, Partition, Role, UniformSets, UniformSetsOptions};
use mainstay_runtime::{Directory, ServiceType, Services, Serving};
use mainstay_store::log::{Driver, SyncDelay};

const CLUSTER: ClusterId = ClusterId(1);
const SET: SetId = SetId { level: Level::Persisted, number: 0 };
const PARTITION: PartitionId = PartitionId(0);

#[interface]
trait Owner {
    async fn add(&self, n: u64) -> Result<u64>;
    async fn runs(&self) -> Result<(u64, u64)>;
    async fn hang(&self) -> Result<()>;
    async fn leave_behind(&self) -> Result<()>;
    async fn close_state(&self) -> Result<()>;
}

/// Handles that outlive their object, as in a task of somebody's own.
static LEFT_BEHIND: Mutex<Vec<Dictionary<String, u64>>> = Mutex::new(Vec::new());

#[derive(Service)]
#[service(implements(Owner), partitions = singleton, run)]
struct OwnerService {
    numbers: Dictionary<String, u64>,
    state: StateManager,
    context: ServiceContext,
}

impl OwnerService {
    async fn bump(&self, name: &str, n: u64) -> Result<u64> {
        self.state
            .transact(async |mut tx| {
                let sum = self.numbers.get_for_update(&mut tx, name).await?.map_or(0, |sum| *sum) + n;
                self.numbers.set(&mut tx, name.to_owned(), sum).await?;
                Ok(sum)
            })
            .await
    }

    async fn run(&self, ctx: ServiceContext) -> Result<()> {
        self.bump("runs", 1).await?;
        ctx.cancelled().await;
        Ok(())
    }
}

impl Owner for OwnerService {
    async fn add(&self, n: u64) -> Result<u64> {
        self.bump("sum", n).await
    }

    async fn runs(&self) -> Result<(u64, u64)> {
        Ok((self.context.epoch().0, self.bump("runs", 0).await?))
    }

    async fn hang(&self) -> Result<()> {
        std::future::pending().await
    }

    async fn leave_behind(&self) -> Result<()> {
        LEFT_BEHIND.lock().unwrap().push(self.numbers.clone());
        Ok(())
    }

    async fn close_state(&self) -> Result<()> {
        self.state.close().await;
        Ok(())
    }
}

/// A process with a directory of its own, as `mainstay-node` puts it together.
struct Process {
    replicas: UniformSets,
    directory: Arc<Directory>,
    owner: OwnerRef,
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
        let service = ServiceType::of::<OwnerService>().unwrap();
        let serving = vec![Serving { service, partitions: vec![replicas.partition(SET.level, PARTITION)] }];
        let directory = Arc::new(Directory::new(&serving).unwrap());
        directory.serve(node, serving, directory.clone());
        let owner = Services::new(directory.clone()).service(()).unwrap();
        Self { replicas, directory, owner }
    }

    fn partition(&self) -> Partition {
        self.replicas.partition(SET.level, PARTITION)
    }

    async fn is(&self, role: Role) {
        let settled = async {
            self.partition()
                .watch()
                .wait_for(|role_state| role_state.role == role && role_state.primary.is_some())
                .await
                .unwrap();
        };
        time::timeout(Duration::from_secs(60), settled).await.expect("a role within a minute");
    }

    async fn hand_over(&self, to: &Process) {
        let replica = to.replicas.replica(SET).unwrap().status().identity.replica;
        assert_ne!(replica, ReplicaId(0));
        self.replicas.replica(SET).unwrap().hand_over(replica).await.unwrap();
        to.is(Role::Primary).await;
        self.is(Role::Secondary).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_and_its_run_follow_the_primary() {
    let network = InProcessNetwork::new();
    let one = Process::start(&network, 1).await;
    let two = Process::start(&network, 2).await;
    let three = Process::start(&network, 3).await;
    one.is(Role::Primary).await;

    assert_eq!(one.owner.add(5).await.unwrap(), 5);
    let (first_epoch, runs) = one.owner.runs().await.unwrap();
    assert_eq!(runs, 1);
    for elsewhere in [&two, &three] {
        let error = elsewhere.owner.add(1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotPrimary { hint: Some(NodeId(1)) }, "{error}");
    }

    // A call that does not end is dropped with the object, and its caller hears of it.
    let hanging = one.owner.clone();
    let hanging = mainstay_core::task::spawn(async move { hanging.hang().await });
    one.hand_over(&two).await;
    assert_eq!(two.owner.add(5).await.unwrap(), 10);
    let (second_epoch, runs) = two.owner.runs().await.unwrap();
    assert!(second_epoch > first_epoch, "the fencing token grows");
    assert_eq!(runs, 2);
    let error = one.owner.add(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotPrimary { hint: Some(NodeId(2)) }, "{error}");
    assert_eq!(hanging.await.unwrap().unwrap_err().kind(), ErrorKind::OutcomeUnknown);

    // Back again: the state can be opened anew, because nothing of the first object is left.
    two.hand_over(&one).await;
    assert_eq!(one.owner.add(5).await.unwrap(), 15);
    let (third_epoch, runs) = one.owner.runs().await.unwrap();
    assert!(third_epoch > second_epoch);
    assert_eq!(runs, 3);

    for process in [one, two, three] {
        process.directory.stop().await;
        process.replicas.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_state_has_closed_is_opened_again() {
    let network = InProcessNetwork::new();
    let one = Process::start(&network, 1).await;
    one.is(Role::Primary).await;
    assert_eq!(one.owner.add(5).await.unwrap(), 5);
    // As it does itself when nobody knows what became of a commit. A handle that was left behind is in nobody's way.
    one.owner.leave_behind().await.unwrap();
    one.owner.close_state().await.unwrap();
    let again = async {
        loop {
            match one.owner.add(5).await {
                Ok(sum) => return sum,
                Err(error) => assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}"),
            }
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert_eq!(time::timeout(Duration::from_secs(60), again).await.expect("it is opened again"), 10);
    let (epoch, runs) = one.owner.runs().await.unwrap();
    assert_eq!((epoch, runs), (one.partition().check().unwrap().0, 2));
    one.directory.stop().await;
    one.replicas.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_an_object_is_not_in_the_way_of_the_next() {
    let network = InProcessNetwork::new();
    let one = Process::start(&network, 1).await;
    let two = Process::start(&network, 2).await;
    let three = Process::start(&network, 3).await;
    one.is(Role::Primary).await;
    assert_eq!(one.owner.add(5).await.unwrap(), 5);
    one.owner.leave_behind().await.unwrap();
    one.hand_over(&two).await;
    assert_eq!(two.owner.add(5).await.unwrap(), 10);
    two.hand_over(&one).await;
    assert_eq!(one.owner.add(5).await.unwrap(), 15);
    for process in [one, two, three] {
        process.directory.stop().await;
        process.replicas.stop().await;
    }
}
