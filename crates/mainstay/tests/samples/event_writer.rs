//! Events that any number of workers process and one owner writes.
//!
//! The original's pool of workers never existed, and its deliveries may come twice, so that rows do. Here a worker is local and
//! has no identity, the writer of a kind of events is one actor, and an event is written once for its id: the length of
//! the file is stored with the turn, and what stands behind it was never answered.

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay::worker::WorkerContext;

use crate::csv_file::{CsvFile, CustomEvent, rows, take_away};

#[interface]
trait EventProcessor {
    async fn process(&self, event: CustomEvent) -> Result<()>;
}

#[interface]
trait EventWriter {
    async fn write(&mut self, event: CustomEvent) -> Result<()>;
}

#[derive(Worker)]
#[worker(implements(EventProcessor), max = 4)]
struct EventProcessorWorker {
    ctx: WorkerContext,
}

impl EventProcessor for EventProcessorWorker {
    async fn process(&self, event: CustomEvent) -> Result<()> {
        // One writer for each kind of events: its id is the kind.
        let writer: EventWriterRef = self.ctx.actor(event.kind)?;
        writer.idempotent(event.id.to_string()).write(event).await
    }
}

#[derive(Actor)]
#[actor(implements(EventWriter))]
struct EventWriterActor {
    /// How much of the file is on record.
    length: State<u64>,
    file: Option<CsvFile>,
    ctx: Context,
}

impl Lifecycle for EventWriterActor {
    async fn activate(&mut self) -> Result<()> {
        self.file = Some(CsvFile::open(self.ctx.id(), self.ctx.epoch(), *self.length)?);
        Ok(())
    }

    async fn deactivate(&mut self) {
        self.file = None;
    }
}

impl EventWriter for EventWriterActor {
    async fn write(&mut self, event: CustomEvent) -> Result<()> {
        let file = self.file.as_mut().ok_or_else(|| Error::fatal("there is no file before activation"))?;
        *self.length = file.append(*self.length, &event.row())?;
        Ok(())
    }
}

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<EventWriterActor>().worker::<EventProcessorWorker>()).await.unwrap()
}

fn events(kind: i64, ids: std::ops::Range<u64>) -> Vec<CustomEvent> {
    ids.map(|id| CustomEvent::new(id, kind, "a,\"b\"")).collect()
}

fn expected(events: &[CustomEvent]) -> Vec<String> {
    events.iter().map(CustomEvent::row).collect()
}

#[tokio::test]
async fn kinds_have_files_of_their_own_and_a_repeated_event_has_one_row() {
    let node = start().await;
    let processor: EventProcessorRef = node.worker().unwrap();
    let (one, two) = (events(1, 0..5), events(2, 5..8));
    for event in one.iter().chain(&two).chain(&one) {
        processor.process(event.clone()).await.unwrap();
    }
    assert_eq!((rows(1), rows(2)), (expected(&one), expected(&two)));
}

#[tokio::test]
async fn whatever_fails_every_event_is_written_once() {
    const KIND: i64 = 3;
    let mut node = start().await;
    let all = events(KIND, 0..40);
    for round in 0..6_u32 {
        let processor: EventProcessorRef = node.worker().unwrap();
        let calls: Vec<_> = all
            .iter()
            .map(|event| {
                let (processor, event) = (processor.clone(), event.clone());
                tokio::spawn(async move { processor.process(event).await })
            })
            .collect();
        if round % 2 == 0 {
            node.fail_next_commit();
        }
        // Some have been answered, some have been written, some have not begun.
        for call in calls.into_iter().take(5 * (round as usize + 1)) {
            drop(call.await);
        }
        node.kill().await.unwrap();
    }
    let processor: EventProcessorRef = node.worker().unwrap();
    for event in &all {
        processor.process(event.clone()).await.unwrap();
    }
    let (mut written, mut wanted) = (rows(KIND), expected(&all));
    written.sort();
    wanted.sort();
    assert_eq!(written, wanted);
}

#[tokio::test]
async fn an_event_that_cannot_be_written_is_an_error_and_can_be_tried_again() {
    const KIND: i64 = 4;
    let node = start().await;
    let processor: EventProcessorRef = node.worker().unwrap();
    let all = events(KIND, 0..2);
    processor.process(all[0].clone()).await.unwrap();
    take_away(KIND, true);
    processor.process(all[1].clone()).await.unwrap_err();
    take_away(KIND, false);
    processor.process(all[1].clone()).await.unwrap();
    assert_eq!(rows(KIND), expected(&all));
}
