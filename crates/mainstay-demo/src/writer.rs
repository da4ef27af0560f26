//! The writer of one type of events on one resource: an actor whose buffer is durable, and whose file nobody else writes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mainstay::governance::batch::durable::{DurableBatch, DurableQueueRef, DurableSettings, DurableWriter, Numbered};
use mainstay::governance::owner::Opening;
use mainstay::governance::sink::csv::{CsvFolder, CsvMark, CsvRotation, CsvRow, CsvSettings, CsvSink};
use mainstay::prelude::*;

use crate::event::{Event, KINDS, RESOURCES};

/// The actor: its id is the resource and the type, such as `east/click`.
pub type EventWriter = DurableBatch<EventFiles>;

/// How it is called.
pub type EventWriterRef = DurableQueueRef<EventFiles>;

/// How long an event may wait for others before it is written.
const LINGER: Duration = Duration::from_millis(20);

/// How many events may wait for a file. Then callers wait too, so that one who looks at the display sees it.
const WAITING_MAX: u64 = 2048;

/// How large a file may grow before the next one begins.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl CsvRow for Event {
    const OWNER: &'static str = "event-files";
    const QUEUE: &'static str = "event-queues";
}

/// The CSV files, with a folder for each resource.
#[derive(Debug)]
pub struct EventFiles {
    folders: Vec<(&'static str, CsvFolder<Event>)>,
}

impl EventFiles {
    /// Files below this folder.
    pub fn below(folder: &Path) -> Self {
        let rotation = CsvRotation { bytes_max: FILE_BYTES_MAX, ..CsvRotation::default() };
        let folders = RESOURCES.map(|resource| {
            let settings = CsvSettings::in_folder(folder.join(resource)).with_rotation(rotation.clone());
            (resource, CsvFolder::new(settings))
        });
        Self { folders: folders.into() }
    }

    /// The files of a type of events on a resource, in their order.
    ///
    /// # Errors
    /// What keeps the folder from being read.
    pub fn of(&self, resource: &str, kind: &str) -> Result<Vec<PathBuf>> {
        self.folder(resource)?.files(kind)
    }

    fn folder(&self, resource: &str) -> Result<&CsvFolder<Event>> {
        let found = self.folders.iter().find(|(name, _)| *name == resource);
        found
            .map(|(_, folder)| folder)
            .ok_or_else(|| Error::invalid(format!("{resource:?} is no resource: use one of {RESOURCES:?}")))
    }
}

impl DurableWriter for EventFiles {
    const NAME: &'static str = "event-writer";
    type Item = Event;
    type Handle = CsvSink<Event>;
    type Mark = CsvMark;

    async fn open(&self, opening: &Opening) -> Result<CsvSink<Event>> {
        let (resource, kind) = opening
            .key
            .split_once('/')
            .ok_or_else(|| Error::invalid(format!("{:?} is no writer: use \"resource/type\"", opening.key)))?;
        DurableWriter::open(self.folder(resource)?, &opening.for_key(kind)).await
    }

    async fn begin(&self, sink: &mut CsvSink<Event>) -> Result<CsvMark> {
        sink.end().await
    }

    async fn write(&self, sink: &mut CsvSink<Event>, mark: &CsvMark, items: &[Numbered<Event>]) -> Result<CsvMark> {
        let rows: Vec<Event> = items.iter().map(|numbered| Event::clone(&numbered.item)).collect();
        sink.append_after(*mark, &rows).await
    }

    fn settings(&self) -> DurableSettings {
        DurableSettings { linger: LINGER, waiting_items_max: WAITING_MAX, ..DurableSettings::default() }
    }
}

/// The id of the writer of a type of events on a resource.
pub fn writer_id(resource: &str, kind: &str) -> String {
    format!("{resource}/{kind}")
}

/// All writers that there are, with their ids.
///
/// # Errors
/// As [`Node::actor`].
pub fn writers(node: &Node) -> Result<Vec<(String, EventWriterRef)>> {
    let ids = RESOURCES.iter().flat_map(|resource| KINDS.map(|kind| writer_id(resource, kind)));
    ids.map(|id| Ok((id.clone(), node.actor(id)?))).collect()
}
