//! Events that are answered when they are safe, and written later.
//!
//! The original empties the stored buffer at every activation, takes an event out before it is written, and relies on a timer,
//! which neither keeps the actor in memory nor survives it: acknowledged events are lost, or lie there for ever. The
//! buffer has no bound, and is stored as a whole for each event. Here each event is an entry of its own, a reminder is set
//! in the same commit as the first of them, and a buffer that is full is written at once.

use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;

use crate::csv_file::{CsvFile, CustomEvent, rows, take_away};

/// How long an event may lie in the buffer.
const FLUSH_AFTER: Duration = Duration::from_secs(5);

/// How many events may lie in the buffer.
const BUFFER_MAX: u64 = 16;

#[interface]
trait BufferedWriter {
    /// Answered when the event is stored; it is written within a while.
    async fn write(&mut self, event: CustomEvent) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(BufferedWriter))]
struct BufferedWriterActor {
    /// The numbers of the first event in the buffer and of the next one that comes.
    first: State<u64>,
    next: State<u64>,
    length: State<u64>,
    file: Option<CsvFile>,
    ctx: Context,
}

impl Lifecycle for BufferedWriterActor {
    async fn activate(&mut self) -> Result<()> {
        self.file = Some(CsvFile::open(self.ctx.id(), self.ctx.epoch(), *self.length)?);
        Ok(())
    }
}

impl BufferedWriter for BufferedWriterActor {
    async fn write(&mut self, event: CustomEvent) -> Result<()> {
        if *self.first == *self.next {
            self.ctx.remind("flush").after(FLUSH_AFTER).set()?;
        }
        self.ctx.state_mut().add(&entry(*self.next), event)?;
        *self.next += 1;
        if *self.next - *self.first >= BUFFER_MAX {
            self.flush()?;
        }
        Ok(())
    }
}

impl Remindable for BufferedWriterActor {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        self.flush()
    }
}

impl BufferedWriterActor {
    /// Writes what is in the buffer. Buffer, length and reminder change in one commit, or not at all.
    fn flush(&mut self) -> Result<()> {
        let mut rows = String::new();
        for number in *self.first..*self.next {
            rows += &self.ctx.state().get::<CustomEvent>(&entry(number))?.row();
            self.ctx.state_mut().remove(&entry(number))?;
        }
        let file = self.file.as_mut().ok_or_else(|| Error::fatal("there is no file before activation"))?;
        *self.length = file.append(*self.length, &rows)?;
        *self.first = *self.next;
        self.ctx.cancel_reminder("flush")?;
        Ok(())
    }
}

fn entry(number: u64) -> String {
    format!("event {number}")
}

async fn start() -> TestNode {
    TestNode::start(|node| node.actor::<BufferedWriterActor>()).await.unwrap()
}

async fn write(node: &TestNode, kind: i64, ids: std::ops::Range<u64>) -> Vec<String> {
    let writer: BufferedWriterRef = node.actor(kind).unwrap();
    let mut written = Vec::new();
    for event in ids.map(|id| CustomEvent::new(id, kind, "x")) {
        written.push(event.row());
        writer.idempotent(event.id.to_string()).write(event).await.unwrap();
    }
    written
}

#[tokio::test]
async fn events_are_written_after_a_while_or_when_the_buffer_is_full() {
    const KIND: i64 = 11;
    let node = start().await;
    let first = write(&node, KIND, 0..BUFFER_MAX).await;
    assert_eq!(rows(KIND), first, "a full buffer is written at once");
    let second = write(&node, KIND, BUFFER_MAX..BUFFER_MAX + 3).await;
    assert_eq!(rows(KIND).len(), first.len());
    node.advance(2 * FLUSH_AFTER).await;
    assert_eq!(rows(KIND), [first, second].concat());
}

#[tokio::test]
async fn what_was_acknowledged_is_written_once_after_a_kill_and_without_any_call() {
    const KIND: i64 = 12;
    let mut node = start().await;
    let written = write(&node, KIND, 0..5).await;
    node.kill().await.unwrap();
    assert_eq!(rows(KIND).len(), 0);
    node.advance(2 * FLUSH_AFTER).await;
    assert_eq!(rows(KIND), written);
    // A caller that has not got its answer tries again.
    write(&node, KIND, 0..5).await;
    node.advance(2 * FLUSH_AFTER).await;
    assert_eq!(rows(KIND), written);
}

#[tokio::test]
async fn an_event_stays_in_the_buffer_until_it_is_written() {
    const KIND: i64 = 13;
    let node = start().await;
    let written = write(&node, KIND, 0..3).await;
    take_away(KIND, true);
    node.advance(2 * FLUSH_AFTER).await;
    assert_eq!(rows(KIND).len(), 0);
    take_away(KIND, false);
    // The reminder has failed, and comes again by itself.
    node.advance(Duration::from_secs(60)).await;
    assert_eq!(rows(KIND), written);
}

#[tokio::test]
async fn a_flush_that_is_not_committed_is_done_again_and_leaves_nothing_twice() {
    const KIND: i64 = 14;
    let node = start().await;
    let written = write(&node, KIND, 0..3).await;
    node.fail_next_commit();
    node.advance(Duration::from_secs(60)).await;
    assert_eq!(rows(KIND), written);
}
