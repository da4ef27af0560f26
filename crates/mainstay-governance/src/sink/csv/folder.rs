use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::OnceLock;

use mainstay::Result;
use mainstay::node::{NodeBuilder, Settings};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::series::{CsvMark, files};
use super::settings::CsvSettings;
use super::sink::CsvSink;
use crate::batch::durable::{DurableSettings, DurableWriter, Numbered};
use crate::owner::{Opening, Reset, Resource};
use crate::settings::CSV;

/// A type of rows that actors own files of.
pub trait CsvRow: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// The name of the service of the owners of its files, which is recorded with their data: see
    /// [`Resource::NAME`].
    const OWNER: &'static str;

    /// The name of the service of the queues before its files: see [`DurableWriter::NAME`].
    const QUEUE: &'static str;
}

/// A folder of CSV files with rows of one type, opened by key: as a [`Resource`] whose jobs are batches of rows, and as a
/// [`DurableWriter`]. Operators can set folder, rotation and time limit in `[governance.csv.NAME]`, by [`CsvRow::OWNER`]. The files of a key are those of the first to open them, an owner or a queue; the other is refused.
///
/// ```
/// use mainstay::prelude::*;
/// use mainstay::governance::owner::{OwnerRef, ResourceOwner};
/// use mainstay::governance::sink::csv::{CsvFolder, CsvRow, CsvSettings};
///
/// #[derive(Clone, serde::Serialize, serde::Deserialize)]
/// struct Visit {
///     page: String,
/// }
///
/// impl CsvRow for Visit {
///     const OWNER: &'static str = "visit-files";
///     const QUEUE: &'static str = "visit-queues";
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let files = CsvFolder::<Visit>::new(CsvSettings::in_folder(folder.join("csv")));
/// let node = ResourceOwner::serve(Node::builder().data_dir(folder.join("data")), files).start().await?;
/// let owner: OwnerRef<CsvFolder<Visit>> = node.actor("visits")?;
/// owner.run(vec![Visit { page: "home".into() }]).await?;
/// assert_eq!(std::fs::read_to_string(folder.join("csv/visits-000001.csv"))?, "page\nhome\n");
/// node.stop().await;
/// # Ok(())
/// # }
/// ```
pub struct CsvFolder<T> {
    /// What the code says.
    code: CsvSettings,
    /// What is in force, once a node has said it.
    in_force: OnceLock<CsvSettings>,
    durable: DurableSettings,
    rows: PhantomData<fn(T)>,
}

impl<T> fmt::Debug for CsvFolder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsvFolder").field("folder", &self.effective().folder).finish_non_exhaustive()
    }
}

impl<T> CsvFolder<T> {
    /// A folder of files, with these settings for each.
    pub fn new(settings: CsvSettings) -> Self {
        Self { code: settings, in_force: OnceLock::new(), durable: DurableSettings::default(), rows: PhantomData }
    }

    /// The same, with other settings for the queues before its files.
    #[must_use]
    pub fn with_queues(mut self, durable: DurableSettings) -> Self {
        self.durable = durable;
        self
    }

    /// The files of a key, in their order.
    ///
    /// # Errors
    /// What keeps the folder from being read.
    pub fn files(&self, key: &str) -> Result<Vec<PathBuf>> {
        files(self.effective(), key)
    }

    /// How its files are: what the code says, and over it what operators have set.
    fn effective(&self) -> &CsvSettings {
        self.in_force.get().unwrap_or(&self.code)
    }
}

impl<T: CsvRow> CsvFolder<T> {
    fn describe(&self, node: NodeBuilder) -> NodeBuilder {
        node.section_named(CSV, T::OWNER, self.code.tuning())
    }

    fn take(&self, settings: &Settings) -> Result<()> {
        let tuning = settings.section_named(CSV, T::OWNER, self.code.tuning())?;
        self.in_force.get_or_init(|| self.code.tuned(tuning));
        Ok(())
    }
}

impl<T: CsvRow> Resource for CsvFolder<T> {
    const NAME: &'static str = T::OWNER;
    type Handle = CsvSink<T>;
    type Job = Vec<T>;
    type Reply = Vec<()>;

    async fn open(&self, opening: &Opening) -> Result<CsvSink<T>> {
        CsvSink::open_for(self.effective().clone(), opening.clone()).await
    }

    async fn run(&self, sink: &mut CsvSink<T>, rows: Vec<T>) -> Result<Vec<()>> {
        sink.append(&rows).await?;
        Ok(vec![(); rows.len()])
    }

    async fn check(&self, sink: &mut CsvSink<T>) -> Result<()> {
        sink.end().await.map(drop)
    }

    fn sections(&self, node: NodeBuilder) -> NodeBuilder {
        self.describe(node)
    }

    fn configure(&self, settings: &Settings) -> Result<()> {
        self.take(settings)
    }

    /// A batch leaves nothing behind but its rows.
    async fn reset(&self, _: &mut CsvSink<T>) -> Result<Reset> {
        Ok(Reset::Clean)
    }
}

impl<T: CsvRow> DurableWriter for CsvFolder<T> {
    const NAME: &'static str = T::QUEUE;
    type Item = T;
    type Handle = CsvSink<T>;
    type Mark = CsvMark;

    async fn open(&self, opening: &Opening) -> Result<CsvSink<T>> {
        CsvSink::open_for(self.effective().clone(), opening.clone()).await
    }

    async fn begin(&self, sink: &mut CsvSink<T>) -> Result<CsvMark> {
        sink.end().await
    }

    async fn write(&self, sink: &mut CsvSink<T>, mark: &CsvMark, items: &[Numbered<T>]) -> Result<CsvMark> {
        let rows: Vec<&T> = items.iter().map(|numbered| &*numbered.item).collect();
        sink.write_rows(&rows, Some(*mark)).await
    }

    fn sections(&self, node: NodeBuilder) -> NodeBuilder {
        self.describe(node)
    }

    fn configure(&self, settings: &Settings) -> Result<()> {
        self.take(settings)
    }

    fn settings(&self) -> DurableSettings {
        self.durable.clone()
    }
}
