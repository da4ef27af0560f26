//! Events from workers through one writer per type into CSV files. Defects of the writer and of the processor of the original
//! (reference 3.4 and 3.8) have their tests here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use mainstay_governance::batch::durable::{DurableBatch, DurableQueueRef, DurableSettings, DurableWriter, Numbered};
use mainstay_governance::owner::{Fence, Opening, OwnerRef, ResourceOwner};
use mainstay_governance::sink::csv::{CsvFolder, CsvMark, CsvRow, CsvSettings, CsvSink};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Event {
    id: u64,
    kind: String,
    payload: String,
}

impl Event {
    fn new(id: u64, kind: &str) -> Self {
        Self { id, kind: kind.into(), payload: format!("a,\"{id}\"\nb") }
    }
}

impl CsvRow for Event {
    const OWNER: &'static str = "event-files";
    const QUEUE: &'static str = "event-queues";
}

/// CSV files whose writes end when they have a permit, after the rows are in the file.
struct Slow {
    files: CsvFolder<Event>,
    permits: Arc<Semaphore>,
    /// How many writes have come so far that their rows are in the file.
    written: Arc<AtomicUsize>,
}

impl DurableWriter for Slow {
    const NAME: &'static str = "slow-queues";
    type Item = Event;
    type Handle = CsvSink<Event>;
    type Mark = CsvMark;

    async fn open(&self, opening: &Opening) -> Result<CsvSink<Event>> {
        DurableWriter::open(&self.files, opening).await
    }

    async fn begin(&self, sink: &mut CsvSink<Event>) -> Result<CsvMark> {
        self.files.begin(sink).await
    }

    async fn write(&self, sink: &mut CsvSink<Event>, mark: &CsvMark, items: &[Numbered<Event>]) -> Result<CsvMark> {
        let written = self.files.write(sink, mark, items).await?;
        self.written.fetch_add(1, Ordering::SeqCst);
        self.permits.acquire().await.unwrap().forget();
        Ok(written)
    }

    fn settings(&self) -> DurableSettings {
        DurableSettings { items_max: 8, ..DurableSettings::default() }
    }
}

#[interface]
trait EventProcessor {
    async fn process(&self, event: Event) -> Result<()>;
}

#[derive(Worker)]
#[worker(implements(EventProcessor), max = 4)]
struct EventProcessorWorker {
    ctx: WorkerContext,
}

impl EventProcessor for EventProcessorWorker {
    async fn process(&self, event: Event) -> Result<()> {
        let writer: DurableQueueRef<Slow> = self.ctx.actor(event.kind.as_str())?;
        writer.idempotent(event.id.to_string()).append(event).await.map(drop)
    }
}

struct Pipeline {
    node: TestNode,
    permits: Arc<Semaphore>,
    written: Arc<AtomicUsize>,
    folder: PathBuf,
}

impl Pipeline {
    async fn start(folder: &Path, permits: usize) -> Self {
        let (permits, written) = (Arc::new(Semaphore::new(permits)), Arc::new(AtomicUsize::new(0)));
        let (csv, gate, count) = (folder.to_owned(), permits.clone(), written.clone());
        let node = TestNode::start(move |node| {
            let files = CsvFolder::new(CsvSettings::in_folder(&csv));
            let slow = Slow { files, permits: gate.clone(), written: count.clone() };
            DurableBatch::serve(node, slow).worker::<EventProcessorWorker>()
        });
        Self { node: node.await.unwrap(), permits, written, folder: folder.to_owned() }
    }

    async fn process(&self, event: Event) -> Result<()> {
        self.node.worker::<EventProcessorRef>()?.process(event).await
    }

    async fn flush(&self, kind: &str) {
        self.node.actor::<DurableQueueRef<Slow>>(kind).unwrap().flush().await.unwrap();
    }

    fn rows(&self, kind: &str) -> Vec<Event> {
        rows(&self.folder, kind)
    }
}

fn rows(folder: &Path, kind: &str) -> Vec<Event> {
    let files = CsvFolder::<Event>::new(CsvSettings::in_folder(folder)).files(kind).unwrap();
    let mut readers = files.iter().map(|file| csv::Reader::from_path(file).unwrap());
    readers.by_ref().flat_map(|reader| reader.into_deserialize().map(Result::unwrap)).collect()
}

fn events(ids: std::ops::Range<u64>, kind: &str) -> Vec<Event> {
    ids.map(|id| Event::new(id, kind)).collect()
}

/// Reference 3.8: the original's processor goes around the buffer, and an event that is delivered twice has two rows.
#[tokio::test]
async fn defect_3_8_events_go_through_the_buffer_and_one_that_comes_twice_has_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let pipeline = Pipeline::start(folder.path(), Semaphore::MAX_PERMITS).await;
    let (clicks, views) = (events(0..20, "clicks"), events(20..25, "views"));
    for event in clicks.iter().chain(&views).chain(&clicks) {
        pipeline.process(event.clone()).await.unwrap();
    }
    pipeline.flush("clicks").await;
    pipeline.flush("views").await;
    assert_eq!((pipeline.rows("clicks"), pipeline.rows("views")), (clicks, views));
    let status = pipeline.node.actor::<DurableQueueRef<Slow>>("clicks").unwrap().status().await.unwrap();
    assert_eq!(status.next, 20);
}

/// Reference 3.4: the original truncates the file at every activation. Here it is killed in the middle of writing, again and
/// again.
#[tokio::test]
async fn defect_3_4_rows_are_there_once_after_kills_in_the_middle_of_a_flush() {
    let folder = tempfile::tempdir().unwrap();
    let mut pipeline = Pipeline::start(folder.path(), 0).await;
    let all = events(0..30, "clicks");
    for (round, part) in all.chunks(5).enumerate() {
        for event in part {
            pipeline.process(event.clone()).await.unwrap();
        }
        // Now and then the line hears of it that rows are in the file. Then it is killed while it does not.
        if round % 3 == 2 {
            pipeline.permits.add_permits(1);
        }
        for _ in 0..10_000 {
            if pipeline.written.load(Ordering::SeqCst) > 0 {
                break;
            }
            pipeline.node.advance(Duration::from_millis(10)).await;
        }
        assert!(pipeline.written.swap(0, Ordering::SeqCst) > 0, "nothing was written");
        pipeline.node.kill().await.unwrap();
        pipeline.node.advance(Duration::from_millis(1)).await;
    }
    pipeline.permits.add_permits(1000);
    pipeline.flush("clicks").await;
    assert_eq!(pipeline.rows("clicks"), all);
    // An owner of the past is refused: every opening has had a token of its own.
    let files = CsvFolder::<Event>::new(CsvSettings::in_folder(folder.path()));
    let old = Opening::new("clicks", Fence::new(1)).held_by("slow-queues(\"clicks\")");
    assert!(matches!(DurableWriter::open(&files, &old).await.unwrap_err().kind(), ErrorKind::NotPrimary { .. }));
}

/// Reference 3.4: raw ids in paths, no quoting, and a file that is truncated by whoever opens it next.
#[tokio::test]
async fn defect_3_4_an_owner_appends_across_restarts_to_a_file_with_a_safe_name() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("csv");
    let kind = "../Clicks, \"quoted\"";
    let set_up = {
        let csv = csv.clone();
        move |node| ResourceOwner::serve(node, CsvFolder::<Event>::new(CsvSettings::in_folder(&csv)))
    };
    let mut node = TestNode::start(set_up).await.unwrap();
    let all = events(0..6, kind);
    for (round, part) in all.chunks(2).enumerate() {
        let owner: OwnerRef<CsvFolder<Event>> = node.actor(kind).unwrap();
        owner.run(part.to_vec()).await.unwrap();
        match round {
            0 => node.restart().await.unwrap(),
            1 => node.kill().await.unwrap(),
            _ => node.deactivate_actor::<ResourceOwner<CsvFolder<Event>>>(kind).await.unwrap(),
        }
    }
    assert_eq!(rows(&csv, kind), all);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing outside of the folder");
}

/// Reference 3.4: deactivation of the original fails if its activation did.
#[tokio::test]
async fn defect_3_4_a_file_that_cannot_be_opened_is_an_error_and_is_opened_when_it_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("csv");
    std::fs::write(&csv, "a file where a folder should be").unwrap();
    let pipeline = Pipeline::start(&csv, Semaphore::MAX_PERMITS).await;
    let all = events(0..3, "clicks");
    for event in &all {
        pipeline.process(event.clone()).await.unwrap();
    }
    pipeline.node.advance(Duration::from_secs(5)).await;
    pipeline.node.deactivate_actor::<DurableBatch<Slow>>("clicks").await.unwrap();
    std::fs::remove_file(&csv).unwrap();
    pipeline.flush("clicks").await;
    assert_eq!(pipeline.rows("clicks"), all);
}
