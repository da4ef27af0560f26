//! Calls from other runtimes than that of the node, and from none: the work of a node stays on its own.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use mainstay::partition::{Driver, SimDisk, SyncDelay};
use mainstay::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::harness::on;

/// How long anything may take that is not to hang.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Event, Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Added {
    sum: u64,
}

#[interface]
trait Sum {
    async fn add(&mut self, n: u64) -> Result<u64>;
    /// Makes a copy of the sum.
    async fn copy(&mut self) -> Result<(u64, u64)>;
    async fn both(&self) -> Result<(u64, u64)>;
    /// Waits until it is let go on.
    async fn slow(&mut self) -> Result<()>;
    /// The same beside others.
    async fn look_slowly(&self) -> Result<()>;
    /// Adds one in a moment, by a timer, and again by what it has begun to wait for.
    async fn add_later(&mut self) -> Result<()>;
    /// The runtime that its code sees, and what that starts and sleeps on.
    async fn runtime(&mut self) -> Result<Vec<String>>;
}

#[derive(Actor)]
#[actor(implements(Sum), partitions = 1)]
struct SumActor {
    sum: State<u64>,
    copied: State<u64>,
    ctx: Context,
}

impl SumActor {
    async fn tick(&mut self) -> Result<()> {
        *self.sum += 1;
        Ok(())
    }
}

impl Sum for SumActor {
    async fn add(&mut self, n: u64) -> Result<u64> {
        *self.sum += n;
        self.ctx.publish(Added { sum: *self.sum })?;
        Ok(*self.sum)
    }

    async fn copy(&mut self) -> Result<(u64, u64)> {
        *self.copied = *self.sum;
        self.both().await
    }

    async fn both(&self) -> Result<(u64, u64)> {
        Ok((*self.sum, *self.copied))
    }

    async fn slow(&mut self) -> Result<()> {
        self.look_slowly().await
    }

    async fn look_slowly(&self) -> Result<()> {
        self.ctx.provided::<AtomicUsize>()?.fetch_add(1, Ordering::SeqCst);
        let released = self.ctx.provided::<Semaphore>()?;
        released.acquire().await.unwrap().forget();
        Ok(())
    }

    async fn add_later(&mut self) -> Result<()> {
        self.ctx.set_timer("add", Duration::from_millis(1), None, Self::tick)?;
        self.ctx.then(tokio::time::sleep(Duration::from_millis(1)), async |sum: &mut Self, ()| sum.tick().await)
    }

    async fn runtime(&mut self) -> Result<Vec<String>> {
        runtimes().await
    }
}

async fn runtimes() -> Result<Vec<String>> {
    let here = || Handle::current().id().to_string();
    let mut seen = vec![here()];
    let spawned = tokio::spawn(async move { here() });
    tokio::time::sleep(Duration::from_millis(1)).await;
    seen.extend([here(), spawned.await.unwrap()]);
    Ok(seen)
}

/// A service and a worker that say where they run. The service lends its collections.
#[interface]
trait Place {
    async fn place(&self) -> Result<Vec<String>>;
}

#[derive(Service)]
#[service(implements(Place), partitions = "singleton")]
struct PlaceService {
    numbers: Dictionary<u64, u64>,
    line: Queue<u64>,
    jobs: ConcurrentQueue<u64>,
    state: StateManager,
    ctx: ServiceContext,
}

/// What a service has lent.
#[derive(Clone)]
struct Lent {
    numbers: Dictionary<u64, u64>,
    line: Queue<u64>,
    jobs: ConcurrentQueue<u64>,
    state: StateManager,
}

impl Place for PlaceService {
    async fn place(&self) -> Result<Vec<String>> {
        let (numbers, line, jobs) = (self.numbers.clone(), self.line.clone(), self.jobs.clone());
        let lent = Lent { numbers, line, jobs, state: self.state.clone() };
        *self.ctx.provided::<Mutex<Option<Lent>>>()?.lock().unwrap() = Some(lent);
        runtimes().await
    }
}

#[derive(Worker)]
#[worker(implements(Place), max = 1)]
struct PlaceWorker;

impl Place for PlaceWorker {
    async fn place(&self) -> Result<Vec<String>> {
        runtimes().await
    }
}

/// A node with a runtime of its own.
struct Home {
    node: Node,
    runtime: Runtime,
    disk: SimDisk,
}

impl Home {
    fn start() -> Self {
        Self::start_with(SyncDelay::default())
    }

    fn start_with(sync_delay: SyncDelay) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let disk = SimDisk::new(1);
        let node = runtime.block_on(boot(&disk, sync_delay));
        Self { node, runtime, disk }
    }

    fn sum(&self, id: &str) -> SumRef {
        self.node.actor(id).unwrap()
    }

    /// Waits for something on the node's own runtime.
    fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(async { timeout(PATIENCE, future).await }).expect("this hangs")
    }

    fn release(&self, calls: usize) {
        self.node.services().provided::<Semaphore>().unwrap().add_permits(calls);
    }
}

async fn boot(disk: &SimDisk, sync_delay: SyncDelay) -> Node {
    let node = on(disk).host_options(move |options| options.log.driver = Driver::Task { sync_delay });
    let node = node.actor::<SumActor>().service::<PlaceService>().worker::<PlaceWorker>();
    node.provide(Semaphore::new(0))
        .provide(AtomicUsize::new(0))
        .provide(Mutex::new(None::<Lent>))
        .start()
        .await
        .unwrap()
}

/// A runtime of one thread, which runs only while somebody blocks on it.
fn other() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs a future without any runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    assert!(Handle::try_current().is_err());
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            return output;
        }
        thread::park_timeout(PATIENCE);
    }
}

#[test]
fn a_call_from_another_runtime_among_others_holds_nobody_up() {
    // A commit takes long enough for others to gather behind it.
    let sync = Duration::from_millis(20);
    let home = Home::start_with(SyncDelay { min: sync, max: sync });
    home.wait(home.sum("a").add(0)).unwrap();
    // Runtimes that are not driven any more, and are still there.
    let mut others = Vec::new();
    for _ in 0..5 {
        let behind: Vec<_> = (0..4)
            .map(|_| {
                let sum = home.sum("a");
                home.runtime.spawn(async move {
                    // When the one from elsewhere is being committed, most probably.
                    tokio::time::sleep(sync / 4).await;
                    sum.add(1).await
                })
            })
            .collect();
        let (other, sum) = (other(), home.sum("a"));
        other.block_on(async { timeout(PATIENCE, sum.add(1)).await }).expect("a call hangs").unwrap();
        others.push(other);
        for caller in behind {
            home.wait(caller).unwrap().unwrap();
        }
    }
    assert_eq!(home.wait(home.sum("a").add(0)).unwrap(), 25);
    drop(others);
    home.wait(home.node.stop());
}

#[test]
fn a_call_that_was_given_up_elsewhere_does_not_keep_the_node_from_stopping() {
    let home = Home::start();
    let others = [other(), other()];
    for (runtime, name) in others.iter().zip(["a", "b"]) {
        let sum = home.sum(name);
        let given_up = runtime.block_on(async {
            match name {
                "a" => timeout(Duration::from_millis(50), sum.slow()).await,
                _ => timeout(Duration::from_millis(50), sum.look_slowly()).await,
            }
        });
        assert!(given_up.is_err());
    }
    home.release(2);
    // It was carried out to its end.
    assert_eq!(home.wait(home.sum("a").add(1)).unwrap(), 1);
    home.wait(home.node.stop());
}

#[test]
fn a_runtime_that_is_dropped_during_a_commit_leaves_no_half_of_two_turns() {
    let mut home = Home::start();
    for round in 0..30_u32 {
        let (elsewhere, sum) = (other(), home.sum("a"));
        drop(elsewhere.spawn(async move { sum.add(1).await }));
        // Dropped at one of many moments of the call.
        elsewhere.block_on(async {
            for _ in 0..=round % 6 {
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(Duration::from_micros(u64::from(round) * 50)).await;
        });
        drop(elsewhere);
        let copied = home.wait(home.sum("a").copy());
        if round % 3 == 0 {
            let Home { node, runtime, disk } = home;
            runtime.block_on(async { timeout(PATIENCE, node.stop()).await }).expect("the node does not stop");
            let node = runtime.block_on(boot(&disk, SyncDelay::default()));
            home = Home { node, runtime, disk };
        }
        let (sum, copy) = home.wait(home.sum("a").both()).unwrap();
        assert!(copy <= sum, "a turn is stored without the one that it stands on: {sum} {copy}");
        if let Ok((_, acknowledged)) = copied {
            assert!(copy >= acknowledged, "{copy} was acknowledged as {acknowledged}");
        }
    }
    home.wait(home.node.stop());
}

#[test]
fn timers_and_continuations_set_from_elsewhere_run() {
    let home = Home::start();
    other().block_on(home.sum("a").add_later()).unwrap();
    block_on(home.sum("b").add_later()).unwrap();
    for name in ["a", "b"] {
        home.wait(async {
            while home.sum(name).both().await.unwrap().0 < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
    home.wait(home.node.stop());
}

#[test]
fn all_code_of_a_node_sees_its_runtime_from_wherever_it_is_called() {
    let home = Home::start();
    let expected = vec![home.runtime.handle().id().to_string(); 3];
    let (sum, service, worker) = (home.sum("a"), home.node.service::<PlaceRef>(()), home.node.worker::<PlaceRef>());
    let (service, worker) = (service.unwrap(), worker.unwrap());
    // Twice, because the second time the actor is where it was.
    for _ in 0..2 {
        assert_eq!(other().block_on(sum.runtime()).unwrap(), expected);
        assert_eq!(block_on(sum.runtime()).unwrap(), expected);
        assert_eq!(home.wait(sum.runtime()).unwrap(), expected);
        assert_eq!(other().block_on(service.place()).unwrap(), expected);
        assert_eq!(block_on(service.place()).unwrap(), expected);
        assert_eq!(other().block_on(worker.place()).unwrap(), expected);
        assert_eq!(block_on(worker.place()).unwrap(), expected);
    }
    home.wait(home.node.stop());
}

#[test]
fn calls_events_listings_and_deletion_work_without_a_runtime() {
    let home = Home::start();
    let sum = home.sum("a");
    let mut events = sum.events::<Added>().unwrap();
    assert_eq!(block_on(sum.add(2)).unwrap(), 2);
    assert_eq!(block_on(sum.idempotent("once").add(3)).unwrap(), 5);
    assert_eq!(block_on(sum.idempotent("once").add(3)).unwrap(), 5);
    assert_eq!(block_on(events.next()).unwrap().event, Added { sum: 2 });
    assert_eq!(block_on(events.next()).unwrap().event, Added { sum: 5 });
    // One that waits for its event, by a thread that is parked.
    let listening = thread::spawn(move || block_on(events.next()).unwrap().event);
    assert_eq!(block_on(sum.add(1)).unwrap(), 6);
    assert_eq!(listening.join().unwrap(), Added { sum: 6 });
    let actors = home.node.actors::<SumActor>().unwrap();
    assert_eq!(block_on(actors.all().collect()).unwrap().len(), 1);
    block_on(actors.deactivate("a")).unwrap();
    assert_eq!(block_on(sum.both()).unwrap(), (6, 0));
    // A time limit passes by the clock of the node.
    let late = block_on(sum.with_timeout(Duration::from_millis(20)).slow()).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::OutcomeUnknown, "{late}");
    let behind = block_on(sum.with_timeout(Duration::from_millis(20)).add(1)).unwrap_err();
    assert_eq!(behind.kind(), ErrorKind::Timeout, "{behind}");
    home.release(1);
    block_on(actors.delete("a")).unwrap();
    assert_eq!(block_on(actors.all().collect()).unwrap(), []);
    block_on(home.node.stop());
    assert_eq!(block_on(sum.add(1)).unwrap_err().kind(), ErrorKind::Fatal);
}

#[test]
fn collections_work_without_a_runtime_and_wait_by_the_clock_of_the_node() {
    let home = Home::start();
    block_on(home.node.service::<PlaceRef>(()).unwrap().place()).unwrap();
    let lent = home.node.services().provided::<Mutex<Option<Lent>>>().unwrap().lock().unwrap().clone().unwrap();
    let Lent { numbers, line, jobs, state } = &lent;
    block_on(state.transact(async |mut tx| {
        numbers.set(&mut tx, 1, 1).await?;
        line.enqueue(&mut tx, 1).await?;
        jobs.enqueue(&mut tx, 1).await
    }))
    .unwrap();
    // One has the key, another waits for it, is refused in time, or gets it.
    let mut holder = state.begin();
    block_on(numbers.set(&mut holder, 1, 2)).unwrap();
    let refused = block_on(numbers.get(state.begin().within(Duration::from_millis(20)), &1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Timeout, "{refused}");
    let waiting = {
        let lent = lent.clone();
        thread::spawn(move || block_on(lent.numbers.get(&mut lent.state.begin(), &1)))
    };
    block_on(holder.commit()).unwrap();
    assert_eq!(waiting.join().unwrap().unwrap().as_deref(), Some(&2));
    // Items that come, and one that does not.
    let first = block_on(state.transact(async |mut tx| jobs.dequeue(&mut tx).await)).unwrap();
    assert_eq!(*first, 1);
    let none = block_on(jobs.dequeue(state.begin().within(Duration::from_millis(20)))).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Timeout, "{none}");
    // A transaction that is tried again, with pauses.
    let mut holder = state.begin();
    block_on(numbers.set(&mut holder, 1, 3)).unwrap();
    let mut tries = 0;
    let tried = block_on(state.transact(|mut tx| {
        tries += 1;
        async move { numbers.get(tx.within(Duration::ZERO), &1).await }
    }));
    assert_eq!(tried.unwrap_err().kind(), ErrorKind::Timeout);
    assert!(tries > 1);
    // A commit that a runtime takes along when it is dropped happens or does not, and holds nobody up.
    let elsewhere = other();
    drop(elsewhere.spawn(async move { holder.commit().await }));
    elsewhere.block_on(tokio::task::yield_now());
    drop(elsewhere);
    let value = block_on(state.transact(async |mut tx| numbers.get(&mut tx, &1).await)).unwrap();
    assert!(matches!(value.as_deref(), Some(2 | 3)));
    let mut watched = block_on(numbers.watch()).unwrap();
    block_on(state.transact(async |mut tx| numbers.set(&mut tx, 7, 7).await)).unwrap();
    block_on(watched.next()).unwrap();
    block_on(home.node.stop());
}

#[test]
fn a_call_that_is_dropped_elsewhere_before_it_begins_leaves_nothing_behind() {
    let home = Home::start();
    let sum = home.sum("a");
    let slow = home.runtime.spawn({
        let sum = sum.clone();
        async move { sum.slow().await }
    });
    let begun = home.node.services().provided::<AtomicUsize>().unwrap();
    home.wait(async {
        while begun.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    });
    // In line behind a turn that waits.
    let elsewhere = other();
    assert!(elsewhere.block_on(async { timeout(Duration::from_millis(50), sum.add(1)).await }).is_err());
    drop(elsewhere);
    home.release(1);
    home.wait(slow).unwrap().unwrap();
    assert_eq!(home.wait(sum.both()).unwrap(), (0, 0));
    home.wait(home.node.stop());
}

/// On a runtime of one thread, whose order is known: the turn before the call ends first, and the task of the call is dropped
/// after it.
#[test]
fn a_call_that_is_dropped_elsewhere_does_not_begin_before_its_task_is_gone() {
    let (runtime, disk) = (other(), SimDisk::new(1));
    let node = runtime.block_on(boot(&disk, SyncDelay::default()));
    let sum: SumRef = node.actor("a").unwrap();
    let slow = runtime.spawn({
        let sum = sum.clone();
        async move { sum.slow().await }
    });
    let begun = node.services().provided::<AtomicUsize>().unwrap();
    runtime.block_on(async {
        while begun.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    });
    let mut call = Box::pin(sum.add(1));
    assert!(call.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    // Its task comes to where it waits in line.
    runtime.block_on(async {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    });
    node.services().provided::<Semaphore>().unwrap().add_permits(1);
    drop(call);
    runtime.block_on(slow).unwrap().unwrap();
    assert_eq!(runtime.block_on(sum.both()).unwrap(), (0, 0));
    runtime.block_on(node.stop());
}

#[test]
fn a_node_whose_runtime_has_ended_says_so_to_who_calls() {
    let Home { node, runtime, disk: _disk } = Home::start();
    let sum: SumRef = node.actor("a").unwrap();
    runtime.block_on(sum.add(1)).unwrap();
    let mut sums = sum.events::<Added>().unwrap();
    drop(runtime);
    for error in [block_on(sum.add(1)).unwrap_err(), other().block_on(sum.add(1)).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Fatal, "{error}");
        assert!(error.to_string().contains("runtime"), "{error}");
    }
    // Nor does who listens wait for ever.
    let end = other().block_on(async { timeout(PATIENCE, sums.next()).await });
    assert_eq!(end.expect("it is told").unwrap_err().kind(), ErrorKind::Fatal);
    block_on(node.stop());
}

#[test]
fn a_node_cannot_be_started_without_a_runtime() {
    let error = block_on(on(&SimDisk::new(1)).actor::<SumActor>().start()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("tokio runtime"), "{error}");
}

#[test]
fn a_runtime_without_its_drivers_is_refused_with_a_remedy() {
    let start = |runtime: &mut Builder, address: Option<&str>| {
        let node = on(&SimDisk::new(1)).actor::<SumActor>();
        let node = match address {
            Some(address) => node.admin_address(address.parse().unwrap()),
            None => node,
        };
        runtime.build().unwrap().block_on(node.start()).unwrap_err()
    };
    for (error, remedy) in [
        (start(&mut Builder::new_multi_thread(), None), "`enable_time`"),
        (start(&mut Builder::new_current_thread(), None), "`enable_time`"),
        (start(Builder::new_multi_thread().enable_time(), Some("127.0.0.1:0")), "`enable_io`"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(remedy), "{error}");
    }
}
