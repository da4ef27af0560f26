//! What a partition does by itself.

use std::sync::Arc;

use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay_core::time::{self, Duration, Instant};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::harness::on;

/// What happened in `run`, for the test that started it. Tests run in threads of their own, and so does everything that
/// they start.
#[derive(Debug, PartialEq)]
enum Event {
    Begun(Instant),
    Cancelled,
    Dropped,
}

thread_local! {
    static SCRIPT: Script = Script::default();
}

#[derive(Clone)]
struct Script {
    events: Sender<Event>,
    heard: Arc<Mutex<Receiver<Event>>>,
    /// What the next runs do, the last one first.
    runs: Arc<std::sync::Mutex<Vec<Run>>>,
}

#[derive(Debug, Clone, Copy)]
enum Run {
    Fail,
    Panic,
    End,
    WaitAndEnd,
    WaitAndFail,
    FailAfter(Duration),
    Ignore,
}

impl Default for Script {
    fn default() -> Self {
        let (events, heard) = channel(100);
        Self { events, heard: Arc::new(Mutex::new(heard)), runs: Arc::default() }
    }
}

impl Script {
    fn of_this_test() -> Self {
        SCRIPT.with(Clone::clone)
    }

    fn play(runs: &[Run]) -> Self {
        let script = Self::of_this_test();
        *script.runs.lock().unwrap() = runs.iter().rev().copied().collect();
        script
    }

    async fn next(&self) -> Event {
        self.heard.lock().await.recv().await.unwrap()
    }

    async fn begun(&self) -> Instant {
        match self.next().await {
            Event::Begun(at) => at,
            other => panic!("{other:?}"),
        }
    }

    async fn is_quiet(&self) -> bool {
        self.heard.lock().await.try_recv().is_err()
    }
}

struct SaysWhenDropped(Sender<Event>);

impl Drop for SaysWhenDropped {
    fn drop(&mut self) {
        let _ = self.0.try_send(Event::Dropped);
    }
}

#[interface]
trait Runner {
    async fn is_there(&self) -> Result<bool>;
}

#[derive(Service)]
#[service(implements(Runner), partitions = singleton, run)]
struct RunnerService {}

impl Runner for RunnerService {
    async fn is_there(&self) -> Result<bool> {
        Ok(true)
    }
}

impl RunnerService {
    async fn run(&self, ctx: ServiceContext) -> Result<()> {
        let script = Script::of_this_test();
        script.events.send(Event::Begun(time::now())).await.unwrap();
        let run = script.runs.lock().unwrap().pop().expect("no more runs than the test knows of");
        match run {
            Run::Fail => return Err(Error::fatal("as the test wants")),
            Run::Panic => panic!("as the test wants"),
            Run::End => return Ok(()),
            Run::FailAfter(time) => {
                time::sleep(time).await;
                return Err(Error::fatal("late"));
            }
            Run::WaitAndEnd | Run::WaitAndFail => {
                assert!(!ctx.is_cancelled());
                ctx.cancelled().await;
                assert!(ctx.is_cancelled());
                script.events.send(Event::Cancelled).await.unwrap();
                if matches!(run, Run::WaitAndFail) {
                    return Err(Error::fatal("it was taken away"));
                }
            }
            Run::Ignore => {
                let _guard = SaysWhenDropped(script.events.clone());
                std::future::pending::<()>().await;
            }
        }
        Ok(())
    }
}

async fn started() -> Node {
    on(&SimDisk::new(1)).service::<RunnerService>().start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn run_starts_with_the_partition_and_is_cancelled_when_the_node_stops() {
    for end in [Run::WaitAndEnd, Run::WaitAndFail] {
        let script = Script::play(&[end]);
        let node = started().await;
        script.begun().await;
        assert!(script.is_quiet().await);
        let before = time::now();
        node.stop().await;
        assert_eq!(script.next().await, Event::Cancelled);
        assert!(before.elapsed() < Duration::from_secs(1), "nobody waits for longer than it takes");
        assert!(script.is_quiet().await, "what fails when it is cancelled is not started again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_returned_is_not_started_again() {
    let script = Script::play(&[Run::End]);
    let node = started().await;
    script.begun().await;
    time::sleep(Duration::from_secs(3600)).await;
    assert!(script.is_quiet().await);
    assert!(node.service::<RunnerRef>(()).unwrap().is_there().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_or_panics_is_started_again_after_growing_pauses() {
    const FAILURES: usize = 14;
    let mut runs = [Run::Fail, Run::Panic].repeat(FAILURES / 2);
    runs.push(Run::WaitAndEnd);
    let script = Script::play(&runs);
    let node = started().await;
    let mut last = script.begun().await;
    let mut longest = Duration::from_millis(100);
    for failure in 1..=FAILURES {
        let now = script.begun().await;
        let pause = now - last;
        // The clock ticks in milliseconds.
        let tick = Duration::from_millis(1);
        assert!(pause + tick >= longest / 2 && pause <= longest + tick, "failure {failure}: {pause:?} of {longest:?}");
        longest = (longest * 2).min(Duration::from_secs(30));
        last = now;
    }
    assert_eq!(longest, Duration::from_secs(30));
    assert!(node.service::<RunnerRef>(()).unwrap().is_there().await.unwrap(), "calls go on beside it");
    node.stop().await;
    assert_eq!(script.next().await, Event::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_well_for_a_while_starts_over_with_short_pauses() {
    let script = Script::play(&[
        Run::Fail,
        Run::Fail,
        Run::Fail,
        Run::Fail,
        Run::FailAfter(Duration::from_secs(60)),
        Run::WaitAndEnd,
    ]);
    let _node = started().await;
    let mut last = script.begun().await;
    for _ in 0..4 {
        last = script.begun().await;
    }
    let pause = script.begun().await - last - Duration::from_secs(60);
    assert!(pause <= Duration::from_millis(101), "{pause:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_end_is_dropped_after_the_grace_period() {
    let script = Script::play(&[Run::Ignore]);
    let node = started().await;
    script.begun().await;
    let before = time::now();
    node.stop().await;
    assert_eq!(script.next().await, Event::Dropped);
    assert_eq!(before.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_at_once_with_a_node_that_is_dropped() {
    let script = Script::play(&[Run::Ignore]);
    let node = started().await;
    script.begun().await;
    let before = time::now();
    drop(node);
    assert_eq!(script.next().await, Event::Dropped);
    assert!(before.elapsed() < Duration::from_secs(1));
}
