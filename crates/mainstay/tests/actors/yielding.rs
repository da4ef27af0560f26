//! What is ready at once lets others of the runtime run all the same.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::harness::on;

/// How long something goes on that never ends by itself.
const WHILE: Duration = Duration::from_millis(20);

/// After which a test that hangs has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs something again and again, until it is time to stop. If it never yields, that time never comes.
macro_rules! for_a_while {
    ($work:expr) => {{
        let for_ever = async {
            loop {
                _ = $work;
            }
        };
        assert!(timeout(WHILE, for_ever).await.is_err());
    }};
}

#[derive(Event, Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Counted;

#[interface]
trait Count {
    async fn look(&self) -> Result<u64>;
    async fn count(&mut self) -> Result<u64>;
    /// Goes on for a while, in a turn: with calls to another, and with saves.
    async fn go_on(&mut self) -> Result<()>;
    /// Publishes so many events.
    async fn publish(&mut self, events: u32) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Count), partitions = 1, persistence = "none")]
struct CountActor {
    count: State<u64>,
    ctx: Context,
}

impl Count for CountActor {
    async fn look(&self) -> Result<u64> {
        Ok(*self.count)
    }

    async fn count(&mut self) -> Result<u64> {
        *self.count += 1;
        Ok(*self.count)
    }

    async fn go_on(&mut self) -> Result<()> {
        let other: CountRef = self.ctx.actor("other")?;
        for_a_while!(other.look().await.unwrap());
        for_a_while!(self.save().await.unwrap());
        Ok(())
    }

    async fn publish(&mut self, events: u32) -> Result<()> {
        (0..events).try_for_each(|_| self.ctx.publish(Counted))
    }
}

#[interface]
trait Collect {
    async fn quick(&self) -> Result<()>;
    /// Goes on for a while with each operation of its collections.
    async fn go_on(&self) -> Result<()>;
}

#[derive(Service)]
#[service(implements(Collect), partitions = "singleton", persistence = "none")]
struct CollectService {
    numbers: Dictionary<u64, u64>,
    line: Queue<u64>,
    jobs: ConcurrentQueue<u64>,
    state: StateManager,
}

impl Collect for CollectService {
    async fn quick(&self) -> Result<()> {
        Ok(())
    }

    async fn go_on(&self) -> Result<()> {
        let Self { numbers, line, jobs, state } = self;
        let mut tx = state.begin();
        numbers.set(&mut tx, 1, 1).await?;
        line.enqueue(&mut tx, 1).await?;
        jobs.enqueue(&mut tx, 1).await?;
        tx.commit().await?;
        let mut tx = state.begin();
        for_a_while!(numbers.get(&mut tx, &1).await.unwrap());
        for_a_while!(numbers.contains(&mut tx, &1).await.unwrap());
        for_a_while!(numbers.len(&mut tx).await.unwrap());
        for_a_while!(numbers.multi_get(&mut tx, [&1, &2]).await.unwrap());
        for_a_while!(numbers.set(&mut tx, 1, 1).await.unwrap());
        for_a_while!({
            let mut entries = numbers.range::<u64>(..).entries(&mut tx).await.unwrap();
            drop(entries.next().await.unwrap());
        });
        for_a_while!(line.peek(&mut tx).await.unwrap());
        for_a_while!(line.entries(&mut tx).await.unwrap().collect::<Vec<_>>().await.unwrap());
        for_a_while!(jobs.len(&mut tx).await.unwrap());
        for_a_while!(jobs.try_dequeue(&mut tx).await.unwrap());
        drop(tx);
        for_a_while!({
            let mut tx = state.begin();
            drop(jobs.dequeue(&mut tx).await.unwrap());
        });
        for_a_while!(state.begin().commit().await.unwrap());
        for_a_while!(state.transact(async |_tx| Ok(())).await.unwrap());
        Ok(())
    }
}

#[derive(Worker)]
#[worker(implements(Collect), max = 1)]
struct CollectWorker;

impl Collect for CollectWorker {
    async fn quick(&self) -> Result<()> {
        Ok(())
    }

    async fn go_on(&self) -> Result<()> {
        Ok(())
    }
}

/// Runs a test on a runtime of one thread and on one of several. One that hangs does not hang the others.
fn on_every_runtime<F: Future<Output = ()> + 'static>(test: impl Fn(Node) -> F + Send + Copy + 'static) {
    for runtime in [Builder::new_current_thread, Builder::new_multi_thread] as [fn() -> Builder; 2] {
        let (done, is_done) = mpsc::sync_channel(1);
        let running = thread::spawn(move || {
            runtime().worker_threads(1).enable_all().build().unwrap().block_on(async move {
                let node = on(&SimDisk::new(1)).actor::<CountActor>();
                let node = node.service::<CollectService>().worker::<CollectWorker>().start().await.unwrap();
                test(node.clone()).await;
                node.stop().await;
            });
            done.send(()).unwrap();
        });
        match is_done.recv_timeout(PATIENCE) {
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("something that is ready at once never yields"),
            _ => running.join().unwrap(),
        }
    }
}

#[test]
fn calls_of_actors_that_are_answered_at_once_yield() {
    on_every_runtime(async |node| {
        let counter: CountRef = node.actor("a").unwrap();
        for_a_while!(counter.look().await.unwrap());
        for_a_while!(counter.count().await.unwrap());
        let keyed = counter.idempotent("once");
        for_a_while!(keyed.count().await.unwrap());
        counter.go_on().await.unwrap();
    });
}

#[test]
fn calls_of_services_and_workers_that_are_answered_at_once_yield() {
    on_every_runtime(async |node| {
        let service: CollectRef = node.service(()).unwrap();
        for_a_while!(service.quick().await.unwrap());
        let worker: CollectRef = node.worker().unwrap();
        for_a_while!(worker.quick().await.unwrap());
    });
}

#[test]
fn operations_of_collections_that_wait_for_nobody_yield() {
    on_every_runtime(async |node| node.service::<CollectRef>(()).unwrap().go_on().await.unwrap());
}

#[test]
fn listings_and_events_yield() {
    on_every_runtime(async |node| {
        let counter: CountRef = node.actor("a").unwrap();
        let mut events = counter.events::<Counted>().unwrap();
        counter.publish(1000).await.unwrap();
        let actors = node.actors::<CountActor>().unwrap();
        for_a_while!(actors.all().collect().await.unwrap());
        // In one poll of a task not all of them can be taken, although all are there.
        let mut taken = 0;
        poll_fn(|cx| {
            while taken < 1000 && pin!(events.next()).poll(cx).map(Result::unwrap).is_ready() {
                taken += 1;
            }
            Poll::Ready(())
        })
        .await;
        assert!(taken < 1000, "{taken}");
        for _ in taken..1000 {
            events.next().await.unwrap();
        }
    });
}
