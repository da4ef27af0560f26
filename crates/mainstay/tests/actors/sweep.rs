//! The answers that are kept for idempotency keys: gone when they have expired, whether or not anybody calls again.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use mainstay::partition::{
    Driver, InProcessNetwork, KeyRange, Order, Role, SimDisk, SyncDelay, UniformSets, UniformSetsOptions,
};
use mainstay::prelude::*;
use mainstay::{NodeId, PartitionId};
use mainstay_core::task;
use mainstay_core::time::{self, Duration};
use mainstay_runtime::{Directory, ServiceType, Services, Serving};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const RETENTION: Duration = Duration::from_secs(10 * 60);
const PARTITION: PartitionId = PartitionId(0);

/// The first bytes of the keys of answers, and of their places in the order of expiry.
const ANSWERS: [u8; 2] = [0x44, 0x46];

thread_local! {
    static ACTIVATED: Cell<u32> = const { Cell::new(0) };
}

#[interface]
trait Booth {
    async fn sell(&mut self, seconds: u64) -> Result<u32>;
}

#[derive(Actor)]
#[actor(implements(Booth), partitions = 1)]
struct BoothActor {
    sold: State<u32>,
}

impl Lifecycle for BoothActor {
    async fn activate(&mut self) -> Result<()> {
        ACTIVATED.set(ACTIVATED.get() + 1);
        Ok(())
    }
}

impl Booth for BoothActor {
    async fn sell(&mut self, seconds: u64) -> Result<u32> {
        time::sleep(SECOND * seconds as u32).await;
        *self.sold += 1;
        Ok(*self.sold)
    }
}

/// A process as `mainstay-node` puts it together, with its partition at hand.
struct Process {
    replicas: UniformSets,
    directory: Arc<Directory>,
    services: Services,
}

impl Process {
    async fn start(disk: &SimDisk, is_first: bool) -> Self {
        let node = NodeId(1);
        let mut options = UniformSetsOptions { sets_per_level: 1, ..UniformSetsOptions::new(node) };
        options.log.segment_bytes = 256 << 10;
        options.log.driver = Driver::Task { sync_delay: SyncDelay::default() };
        options.store.cache_bytes_max = 8 << 20;
        let transport = InProcessNetwork::new().endpoint(node);
        let replicas = UniformSets::open(Arc::new(disk.clone()), Path::new("/data"), options, transport).await.unwrap();
        if is_first {
            replicas.bootstrap().await.unwrap();
        }
        let partition = replicas.partition(Level::Persisted, PARTITION);
        partition.watch().wait_for(|role_state| role_state.role == Role::Primary).await.unwrap();
        let mut service = ServiceType::of_actor::<BoothActor>().unwrap();
        let settings = service.actor_settings_mut();
        settings.idempotency_retention = RETENTION;
        (settings.idle_timeout, settings.idle_scan) = (MINUTE, 10 * SECOND);
        let serving = vec![Serving { service, partitions: vec![partition] }];
        let directory = Arc::new(Directory::new(&serving).unwrap());
        directory.serve(node, serving, directory.clone());
        let services = Services::new(directory.clone());
        Self { replicas, directory, services }
    }

    fn booth(&self, id: i64) -> BoothRef {
        self.services.actor::<BoothRef>(id).unwrap().with_timeout(100 * MINUTE)
    }

    /// How many answers are stored, and how many places of answers.
    fn stored(&self) -> [usize; 2] {
        let state = self.replicas.partition(Level::Persisted, PARTITION).read().unwrap();
        ANSWERS.map(|first| state.scan(KeyRange::prefix(&[first]), Order::Ascending).unwrap().count())
    }

    async fn stop(self) {
        self.directory.stop().await;
        self.replicas.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_is_removed_and_nobody_is_activated_for_it() {
    let disk = SimDisk::new(1);
    let process = Process::start(&disk, true).await;
    for booth in 0..300 {
        for key in ["a", "b"] {
            process.booth(booth).idempotent(key).sell(0).await.unwrap();
        }
    }
    // One with more than are removed at a time.
    for key in 0..300 {
        process.booth(1000).idempotent(format!("key {key}")).sell(0).await.unwrap();
    }
    time::sleep(RETENTION - MINUTE).await;
    assert_eq!(process.stored(), [900, 900], "not before its time");
    assert_eq!(ACTIVATED.get(), 301);
    time::sleep(3 * MINUTE).await;
    assert_eq!(process.stored(), [0, 0]);
    assert_eq!(ACTIVATED.get(), 301);
    // One that comes after a long silence is seen to as well.
    time::sleep(5 * RETENTION).await;
    assert_eq!(process.booth(7).idempotent("a").sell(0).await.unwrap(), 3);
    assert_eq!(process.stored(), [1, 1]);
    time::sleep(RETENTION + 2 * MINUTE).await;
    assert_eq!(process.stored(), [0, 0]);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn also_what_has_expired_while_the_node_was_down() {
    let disk = SimDisk::new(1);
    let process = Process::start(&disk, true).await;
    process.booth(1).idempotent("a").sell(0).await.unwrap();
    process.stop().await;
    time::sleep(RETENTION / 2).await;
    let process = Process::start(&disk, false).await;
    process.booth(2).idempotent("a").sell(0).await.unwrap();
    process.stop().await;
    time::sleep(RETENTION / 2 + SECOND).await;
    let process = Process::start(&disk, false).await;
    // Nobody calls.
    time::sleep(2 * MINUTE).await;
    assert_eq!((process.stored(), ACTIVATED.get()), ([1, 1], 2), "the one that has not expired is there");
    time::sleep(RETENTION).await;
    assert_eq!((process.stored(), ACTIVATED.get()), ([0, 0], 2));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_written_again_meanwhile_stays_and_a_busy_actor_keeps_none_of_the_others() {
    let disk = SimDisk::new(1);
    let process = Process::start(&disk, true).await;
    let busy = process.booth(1).idempotent("again");
    for booth in 1..=100 {
        process.booth(booth).idempotent("again").sell(0).await.unwrap();
        process.booth(booth).idempotent("other").sell(0).await.unwrap();
    }
    // Begins when the first answer is about to be removed, and ends long after.
    time::sleep(RETENTION - 10 * SECOND).await;
    let holding = task::spawn({
        let booth = process.booth(1);
        async move { booth.sell(11).await }
    });
    time::sleep(SECOND).await;
    let again = task::spawn({
        let busy = busy.clone();
        async move { busy.sell(30 * 60).await }
    });
    holding.await.unwrap().unwrap();
    time::sleep(5 * MINUTE).await;
    assert_eq!(process.stored(), [2, 2], "all but those of the actor that has no time");
    assert_eq!(again.await.unwrap().unwrap(), 4, "the first answer had expired");
    time::sleep(2 * MINUTE).await;
    assert_eq!(process.stored(), [1, 1], "what was kept of that call");
    assert_eq!(busy.sell(30 * 60).await.unwrap(), 4);
    process.stop().await;
}
