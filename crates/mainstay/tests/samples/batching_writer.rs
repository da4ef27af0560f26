//! Callers that wait until their event was written, together with those of others.
//!
//! The original cannot work: a caller that waits keeps its turn, so that the timer never gets one. Beyond that it completes the
//! wrong batch, leaves callers waiting for ever when there is nothing to write, and tells nobody when writing fails. Here a
//! caller's turn ends at once, its answer is deferred, and event and answer belong together.

use std::time::Duration;

use mainstay::actor::deferred;
use mainstay::prelude::*;
use mainstay::testkit::TestNode;

use crate::csv_file::{CsvFile, CustomEvent, rows, take_away};

/// How long an event waits for others.
const BATCH_WAIT: Duration = Duration::from_secs(5);

/// How many events are written together; then nobody waits any longer.
const BATCH_MAX: usize = 16;

#[interface]
trait BatchingWriter {
    /// Answered when the event is written.
    async fn write(&mut self, event: CustomEvent) -> Result<Deferred<()>>;
}

#[derive(Actor)]
#[actor(implements(BatchingWriter))]
struct BatchingWriterActor {
    length: State<u64>,
    file: Option<CsvFile>,
    waiting: Vec<(CustomEvent, Responder<()>)>,
    ctx: Context,
}

impl Lifecycle for BatchingWriterActor {
    async fn activate(&mut self) -> Result<()> {
        self.file = Some(CsvFile::open(self.ctx.id(), self.ctx.epoch(), *self.length)?);
        Ok(())
    }
}

impl BatchingWriter for BatchingWriterActor {
    async fn write(&mut self, event: CustomEvent) -> Result<Deferred<()>> {
        let (answer, responder) = deferred();
        self.waiting.push((event, responder));
        match self.waiting.len() {
            1 => drop(self.ctx.set_timer("flush", BATCH_WAIT, None, Self::flush)?),
            BATCH_MAX.. => self.flush().await?,
            _ => {}
        }
        Ok(answer)
    }
}

impl BatchingWriterActor {
    /// Writes what waits, and tells those who wait for it what came of it.
    async fn flush(&mut self) -> Result<()> {
        self.ctx.cancel_timer("flush");
        let (events, responders): (Vec<_>, Vec<_>) = self.waiting.drain(..).unzip();
        let rows: String = events.iter().map(CustomEvent::row).collect();
        let written = match &mut self.file {
            Some(file) => file.append(*self.length, &rows),
            None => Err(Error::fatal("there is no file before activation")),
        };
        if let Ok(length) = written {
            *self.length = length;
        }
        for responder in responders {
            // They leave when the new length is durable.
            responder.respond(match &written {
                Ok(_) => Ok(()),
                Err(error) => Err(Error::new(error.kind(), error.to_string())),
            });
        }
        Ok(())
    }
}

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<BatchingWriterActor>()).await.unwrap()
}

type Call = tokio::task::JoinHandle<Result<()>>;

/// Calls that have been made, and of which none has been answered.
async fn submit(node: &TestNode, kind: i64, ids: std::ops::Range<u64>) -> Vec<Call> {
    let writer: BatchingWriterRef = node.actor(kind).unwrap();
    let calls: Vec<_> = ids
        .map(|id| {
            let writer = writer.clone();
            tokio::spawn(async move { writer.write(CustomEvent::new(id, kind, "x")).await })
        })
        .collect();
    node.advance(BATCH_WAIT / 2).await;
    calls
}

#[tokio::test]
async fn callers_are_answered_together_when_their_events_are_written() {
    const KIND: i64 = 21;
    let node = start().await;
    let calls = submit(&node, KIND, 0..5).await;
    assert!(calls.iter().all(|call| !call.is_finished()));
    assert_eq!(rows(KIND).len(), 0);
    node.advance(BATCH_WAIT).await;
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(rows(KIND).len(), 5);
}

#[tokio::test]
async fn nobody_waits_longer_than_for_a_full_batch() {
    const KIND: i64 = 22;
    let node = start().await;
    let calls = submit(&node, KIND, 0..BATCH_MAX as u64 + 1).await;
    assert_eq!(calls.iter().filter(|call| call.is_finished()).count(), BATCH_MAX);
    node.advance(BATCH_WAIT).await;
    assert_eq!(rows(KIND).len(), BATCH_MAX + 1, "the timer was set anew for the one that is left");
}

#[tokio::test]
async fn all_are_told_when_writing_fails_and_later_ones_are_not_concerned() {
    const KIND: i64 = 23;
    let node = start().await;
    let failing = submit(&node, KIND, 0..3).await;
    take_away(KIND, true);
    node.advance(BATCH_WAIT).await;
    take_away(KIND, false);
    for call in failing {
        assert!(call.await.unwrap().unwrap_err().to_string().contains("epoch"));
    }
    let calls = submit(&node, KIND, 3..5).await;
    node.advance(BATCH_WAIT).await;
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(rows(KIND).len(), 2);
}

#[tokio::test]
async fn nobody_is_told_of_a_batch_that_was_not_committed() {
    const KIND: i64 = 24;
    let node = start().await;
    let calls = submit(&node, KIND, 0..3).await;
    node.fail_next_commit();
    node.advance(BATCH_WAIT).await;
    for call in calls {
        call.await.unwrap().unwrap_err();
    }
    let calls = submit(&node, KIND, 3..4).await;
    node.advance(BATCH_WAIT).await;
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(rows(KIND), [CustomEvent::new(3, KIND, "x").row()], "and its rows are gone");
}

#[tokio::test]
async fn who_waits_is_told_when_the_node_stops() {
    const KIND: i64 = 25;
    let node = start().await;
    let calls = submit(&node, KIND, 0..3).await;
    node.stop().await;
    for call in calls {
        call.await.unwrap().unwrap_err();
    }
}
