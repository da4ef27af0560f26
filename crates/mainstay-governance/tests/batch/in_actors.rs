//! An executor as a field of an actor: callers wait for their batch beside each other. Defects of the batching writer of the
//! original (reference 3.6 and 3.7) have their tests here.

use std::sync::Arc;
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::batch::{BatchExecutor, BatchSettings, BatchWriter};
use parking_lot::Mutex;

const LINGER: Duration = Duration::from_secs(5);

/// Batches that were written, and whether writing fails.
#[derive(Clone, Default)]
struct Outside(Arc<Mutex<Written>>);

#[derive(Default)]
struct Written {
    batches: Vec<Vec<u64>>,
    fails: Option<ErrorKind>,
}

impl Outside {
    /// Everything that was written. Calls that were made at once reach an actor in any order.
    fn written(&self) -> Vec<u64> {
        let mut written = self.0.lock().batches.concat();
        written.sort_unstable();
        written
    }
}

impl BatchWriter<u64, u64> for Outside {
    async fn write(&self, items: &[u64]) -> Result<Vec<u64>> {
        let mut outside = self.0.lock();
        if let Some(kind) = outside.fails {
            return Err(Error::new(kind, "the disk is away"));
        }
        outside.batches.push(items.to_vec());
        Ok(items.iter().map(|item| item + 1000).collect())
    }
}

#[interface]
trait EventWriter {
    /// Answered when the event is written.
    async fn write(&self, event: u64) -> Result<u64>;
    /// Something that has the actor to itself.
    async fn touch(&mut self) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(EventWriter))]
struct EventWriterActor {
    outside: Provided<Outside>,
    batch: Option<BatchExecutor<u64, u64>>,
    ctx: Context,
}

impl Lifecycle for EventWriterActor {
    async fn activate(&mut self) -> Result<()> {
        let settings = BatchSettings { linger: LINGER, items_max: 4, ..BatchSettings::default() };
        let name = self.ctx.id().to_string();
        self.batch = Some(BatchExecutor::start(name, self.outside.share(), settings)?);
        Ok(())
    }

    async fn deactivate(&mut self) {
        if let Some(batch) = &self.batch {
            batch.close().await;
        }
    }
}

impl EventWriter for EventWriterActor {
    async fn write(&self, event: u64) -> Result<u64> {
        match &self.batch {
            Some(batch) => batch.submit(event).await,
            None => Err(Error::fatal("there is no executor before activation")),
        }
    }

    async fn touch(&mut self) -> Result<()> {
        Ok(())
    }
}

async fn start(outside: &Outside) -> TestNode {
    let outside = outside.clone();
    TestNode::start(move |node| node.provide(outside.clone()).actor::<EventWriterActor>()).await.unwrap()
}

type Call = tokio::task::JoinHandle<Result<u64>>;

async fn submit(node: &TestNode, events: std::ops::Range<u64>) -> Vec<Call> {
    let writer: EventWriterRef = node.actor("clicks").unwrap();
    let calls: Vec<_> = events
        .map(|event| {
            let writer = writer.clone();
            tokio::spawn(async move { writer.write(event).await })
        })
        .collect();
    node.advance(Duration::from_millis(10)).await;
    calls
}

/// Reference 3.7: in the original a caller that waits keeps the turn that the flush would need.
#[tokio::test]
async fn defect_3_7_callers_that_wait_do_not_keep_the_flush_from_running() {
    let outside = Outside::default();
    let node = start(&outside).await;
    let calls = submit(&node, 0..3).await;
    assert!(calls.iter().all(|call| !call.is_finished()));
    node.advance(LINGER).await;
    for (event, call) in (0..).zip(calls) {
        assert_eq!(call.await.unwrap().unwrap(), event + 1000, "each has its own answer");
    }
    assert_eq!(outside.0.lock().batches.len(), 1, "in one batch");
    assert_eq!(outside.written(), [0, 1, 2]);
}

/// Reference 3.7: and what waits must have an end when the actor has.
#[tokio::test]
async fn defect_3_7_who_waits_is_answered_when_the_node_stops_and_nobody_waits_for_ever() {
    let outside = Outside::default();
    let node = start(&outside).await;
    let calls = submit(&node, 0..3).await;
    node.stop().await;
    for call in calls {
        // Written, or an error: it depends on how far it came. What matters is that there is an answer, and a true one.
        let answer = call.await.unwrap();
        let is_written = outside.0.lock().batches.concat().len() == 3;
        assert!(answer.is_err() || is_written);
    }
}

/// Reference 3.6: the original completes the callers of the new batch when it has written the old one.
#[tokio::test]
async fn defect_3_6_callers_are_answered_for_their_own_batch_and_not_before() {
    let outside = Outside::default();
    let node = start(&outside).await;
    let calls = submit(&node, 0..6).await;
    let written = outside.0.lock().batches.concat();
    assert_eq!(written.len(), 4, "full by count");
    for (event, call) in (0..).zip(&calls) {
        assert_eq!(call.is_finished(), written.contains(&event));
    }
    node.advance(LINGER).await;
    assert!(calls.iter().all(Call::is_finished));
    assert_eq!(outside.written(), [0, 1, 2, 3, 4, 5]);
}

/// Reference 3.6: when the original fails to write, nobody is told.
#[tokio::test]
async fn defect_3_6_all_of_a_failed_batch_are_told_and_later_ones_are_not_concerned() {
    let outside = Outside::default();
    let node = start(&outside).await;
    outside.0.lock().fails = Some(ErrorKind::StorageFull);
    let failing = submit(&node, 0..4).await;
    for call in failing {
        assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::StorageFull);
    }
    outside.0.lock().fails = None;
    for call in submit(&node, 4..8).await {
        call.await.unwrap().unwrap();
    }
    assert_eq!(outside.written(), [4, 5, 6, 7]);
}

/// Reference 3.6: the original returns early when its buffer is empty, and drops those who wait.
#[tokio::test]
async fn defect_3_6_a_flush_with_nothing_to_write_answers_at_once_and_drops_nobody() {
    let outside = Outside::default();
    let batch = BatchExecutor::start("x", outside.clone(), BatchSettings::default()).unwrap();
    batch.flush().await;
    assert_eq!(batch.submit(1).await.unwrap(), 1001);
    batch.flush().await;
    batch.close().await;
    assert_eq!(outside.0.lock().batches, [[1]]);
}

#[tokio::test]
async fn a_caller_of_an_actor_that_goes_away_takes_nobody_with_it() {
    let outside = Outside::default();
    let node = start(&outside).await;
    let mut calls = submit(&node, 0..3).await;
    calls.remove(1).abort();
    node.advance(LINGER).await;
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(outside.written(), [0, 1, 2]);
    node.actor::<EventWriterRef>("clicks").unwrap().touch().await.unwrap();
}
