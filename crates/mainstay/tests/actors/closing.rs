//! Actors of a partition that is closed: its node stops, or another one becomes its primary.

use std::path::Path;
use std::sync::Arc;

use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay::{NodeId, PartitionId, SetId};
use mainstay_core::ClusterId;
use mainstay_core::task::{self, Scope};
use mainstay_core::time::{self, Duration};
use mainstay_replica::{InProcessNetwork, Partition, Role, UniformSets, UniformSetsOptions};
use mainstay_runtime::{Directory, ServiceType, Services, Serving};
use mainstay_store::log::{Driver, SyncDelay};

use crate::lives::{Alive, Lives, lives};

const CLUSTER: ClusterId = ClusterId(1);
const SET: SetId = SetId { level: Level::Persisted, number: 0 };
const PARTITION: PartitionId = PartitionId(0);

#[interface]
trait Guest {
    async fn stay(&mut self, leaving_ms: u64) -> Result<u64>;
    async fn work(&mut self, ms: u64) -> Result<u64>;
}

#[derive(Actor)]
#[actor(implements(Guest), partitions = 1)]
struct GuestActor {
    calls: State<u64>,
    leaving_ms: u64,
    alive: Option<Alive>,
    ctx: Context,
}

impl Lifecycle for GuestActor {
    async fn activate(&mut self) -> Result<()> {
        self.alive = Some(Alive::new(self.ctx.id()));
        Ok(())
    }

    async fn deactivate(&mut self) {
        time::sleep(Duration::from_millis(self.leaving_ms)).await;
        if let Some(alive) = &self.alive {
            alive.deactivated();
        }
    }
}

impl Guest for GuestActor {
    async fn stay(&mut self, leaving_ms: u64) -> Result<u64> {
        self.leaving_ms = leaving_ms;
        *self.calls += 1;
        Ok(*self.calls)
    }

    async fn work(&mut self, ms: u64) -> Result<u64> {
        time::sleep(Duration::from_millis(ms)).await;
        *self.calls += 1;
        Ok(*self.calls)
    }
}

fn seen(id: &str) -> (u64, u64, u64) {
    let Lives { activated, deactivated, alive, .. } = lives(ActorId::from(id));
    (activated, deactivated, alive)
}

#[tokio::test]
async fn all_hooks_run_at_once_when_a_node_stops() {
    let node = TestNode::start(|node| node.actor::<GuestActor>()).await.unwrap();
    for guest in 0..200 {
        node.actor::<GuestRef>(format!("stops {guest}")).unwrap().stay(1000).await.unwrap();
    }
    let before = time::now();
    node.stop().await;
    assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
    for guest in 0..200 {
        assert_eq!(seen(&format!("stops {guest}")), (1, 1, 0));
    }
}

#[tokio::test]
async fn turns_end_before_their_actors_leave_and_what_takes_too_long_is_dropped() {
    let mut node = TestNode::start(|node| node.actor::<GuestActor>()).await.unwrap();
    let guest = |id: &str| node.actor::<GuestRef>(id).unwrap();
    let (quick, slow, hook) = (guest("quick"), guest("slow"), guest("hook"));
    hook.stay(60_000).await.unwrap();
    let spawn = |guest: &GuestRef, ms| {
        let guest = guest.clone();
        task::spawn(async move { guest.work(ms).await })
    };
    let (ends, waits, hangs) = (spawn(&quick, 2_000), spawn(&quick, 1), spawn(&slow, 60_000));
    time::sleep(Duration::from_millis(100)).await;
    let before = time::now();
    node.stop().await;
    assert_eq!(before.elapsed().as_secs(), 5, "the grace period");
    assert_eq!(ends.await.unwrap().unwrap(), 1);
    let refused = waits.await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotPrimary { hint: None }, "{refused}");
    assert_eq!(hangs.await.unwrap().unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!((seen("quick"), seen("slow"), seen("hook")), ((1, 1, 0), (1, 0, 0), (1, 0, 0)));
    let late = quick.stay(0).await.unwrap_err();
    assert!(late.to_string().contains("its node has stopped"), "{late}");
    node.restart().await.unwrap();
    assert_eq!(node.actor::<GuestRef>("quick").unwrap().stay(0).await.unwrap(), 2);
}

/// A process with a directory of its own, as `mainstay-node` puts it together.
struct Process {
    replicas: UniformSets,
    directory: Arc<Directory>,
    services: Services,
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
        let service = ServiceType::of_actor::<GuestActor>().unwrap();
        let serving = vec![Serving { service, partitions: vec![replicas.partition(SET.level, PARTITION)] }];
        let directory = Arc::new(Directory::new(&serving).unwrap());
        directory.serve(node, serving, directory.clone());
        let services = Services::new(directory.clone());
        Self { replicas, directory, services }
    }

    fn partition(&self) -> Partition {
        self.replicas.partition(SET.level, PARTITION)
    }

    fn guest(&self, id: &str) -> GuestRef {
        self.services.actor(id).unwrap()
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
        self.replicas.replica(SET).unwrap().hand_over(replica).await.unwrap();
        to.is(Role::Primary).await;
        self.is(Role::Secondary).await;
    }
}

#[tokio::test(start_paused = true)]
async fn actors_leave_at_once_when_another_node_becomes_primary() {
    let network = InProcessNetwork::new();
    let one = Process::start(&network, 1).await;
    let two = Process::start(&network, 2).await;
    one.is(Role::Primary).await;

    for guest in 0..20 {
        assert_eq!(one.guest(&format!("moves {guest}")).stay(10).await.unwrap(), 1);
    }
    let (busy, waiting) = (one.guest("moves busy"), one.guest("moves busy"));
    let busy_call = task::spawn(async move { busy.work(60_000).await });
    time::sleep(Duration::from_millis(1)).await;
    let waiting = task::spawn(async move { waiting.stay(0).await });
    time::sleep(Duration::from_millis(1)).await;
    one.hand_over(&two).await;
    let before = time::now();
    while (0..20).any(|guest| seen(&format!("moves {guest}")).1 == 0) {
        // Far less than a scan for idle actors.
        let waited = before.elapsed();
        let guests: Vec<_> = (0..20).map(|guest| seen(&format!("moves {guest}"))).collect();
        assert!(waited < Duration::from_secs(1), "{guests:?}, {:?}", one.partition().watch().borrow());
        time::sleep(Duration::from_millis(1)).await;
    }
    let told = waiting.await.unwrap().unwrap_err();
    assert!(matches!(told.kind(), ErrorKind::NotPrimary { .. }), "{told}");
    let error = one.guest("moves 0").stay(10).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotPrimary { .. }), "{error}");
    assert_eq!(two.guest("moves 0").stay(10).await.unwrap(), 2);
    assert_eq!(busy_call.await.unwrap().unwrap_err().kind(), ErrorKind::OutcomeUnknown);

    // And back, while proxies of the first time are still there.
    let remembering: Vec<_> = (0..20).map(|guest| two.guest(&format!("moves {guest}"))).collect();
    two.hand_over(&one).await;
    assert_eq!(one.guest("moves 0").stay(10).await.unwrap(), 3);
    assert_eq!(one.guest("moves 1").stay(10).await.unwrap(), 2);
    drop(remembering);
    for process in [one, two] {
        process.directory.stop().await;
        process.replicas.stop().await;
    }
}

#[tokio::test]
async fn what_is_to_be_done_before_a_node_stops_is_done_while_it_can_be_called_and_not_at_a_kill() {
    let mut node = TestNode::start(|node| {
        let counts = |services: Services| async move {
            services.actor::<GuestRef>("guest").unwrap().stay(0).await.unwrap();
        };
        let fails = |_| async { panic!("what fails keeps nothing from stopping") };
        let fails_at_once = |_| -> std::future::Ready<()> { panic!("nor what fails before it has begun to wait") };
        let hangs = |_| std::future::pending();
        // The last is done first.
        node.actor::<GuestActor>().before_stop(hangs).before_stop(counts).before_stop(fails).before_stop(fails_at_once)
    })
    .await
    .unwrap();
    node.restart().await.unwrap();
    node.kill().await.unwrap();
    let guest: GuestRef = node.actor("guest").unwrap();
    assert_eq!(guest.stay(0).await.unwrap(), 2, "once by the stop, and now");
}
