use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use mainstay::{Error, Result};
use serde::Serialize;
use tokio::sync::Mutex;

use super::encode::{encode, header};
use super::file_system::OsFileSystem;
use super::series::{CsvMark, Rows, Series, interrupted};
use super::settings::CsvSettings;
use crate::batch::{BatchWriter, in_place};
use crate::owner::{Fence, Opening};

/// The open CSV files of one key, written by this one writer: see the [module](super).
pub struct CsvSink<T> {
    series: Arc<Mutex<Series>>,
    has_header: bool,
    /// The line of column names, once a row has told them.
    header: OnceLock<Vec<u8>>,
    rows: PhantomData<fn(T)>,
}

impl<T> fmt::Debug for CsvSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsvSink").finish_non_exhaustive()
    }
}

impl<T: Serialize + Send + Sync + 'static> CsvSink<T> {
    /// Opens the files of a key for a program that is the only one to do so, and becomes the one that writes them. Others with
    /// a smaller token cannot any more. An actor opens them by [`open_for`](CsvSink::open_for).
    ///
    /// # Errors
    /// `NotPrimary` if they were opened with a larger token; `Fatal` if they are those of an actor; `Invalid` if a setting
    /// cannot be; `Corrupt` if the last file is damaged, or shorter than what was acknowledged, with the place and what to do; what
    /// keeps files from being opened.
    pub async fn open(settings: CsvSettings, key: impl Into<String>, fence: Fence) -> Result<Self> {
        Self::open_for(settings, Opening::new(key, fence)).await
    }

    /// Opens the files of the key of an opening for its holder, and for nobody else.
    ///
    /// # Errors
    /// As [`open`](CsvSink::open); `Fatal` if they were opened by another holder, naming both.
    pub async fn open_for(settings: CsvSettings, opening: Opening) -> Result<Self> {
        let has_header = settings.has_header;
        let series = blocking(move || Series::open(OsFileSystem, settings, &opening)).await?;
        let series = Arc::new(Mutex::new(series));
        Ok(Self { series, has_header, header: OnceLock::new(), rows: PhantomData })
    }

    /// Where the next row goes.
    ///
    /// # Errors
    /// `NotPrimary` if another has opened the files since; what keeps them from being read.
    pub async fn end(&self) -> Result<CsvMark> {
        let mut series = self.series.clone().lock_owned().await;
        blocking(move || series.end()).await
    }

    /// Appends rows, durably and together. Returns where the next row goes.
    ///
    /// # Errors
    /// `NotPrimary` if another has opened the files since; `Invalid` for rows that are none; `Corrupt` as for
    /// [`open`](CsvSink::open); what keeps them from being written. After an error nothing of it is written.
    pub async fn append(&self, rows: &[T]) -> Result<CsvMark> {
        self.write_rows(rows, None).await
    }

    /// [Appends](CsvSink::append) rows behind a place that [`end`](CsvSink::end) or an earlier call has returned. What is
    /// behind it is removed first, unless it was there before the [lineage](crate::owner::FenceLineage) of this holder began.
    ///
    /// A caller that keeps the place where it keeps what is to be written, and changes both in one commit, writes everything
    /// once: rows that a call has written whose outcome was not committed are removed when they are written again.
    ///
    /// # Errors
    /// As [`append`](CsvSink::append); `Corrupt` if the files do not reach so far.
    pub async fn append_after(&self, place: CsvMark, rows: &[T]) -> Result<CsvMark> {
        self.write_rows(rows, Some(place)).await
    }

    pub(super) async fn write_rows<S: Serialize>(&self, rows: &[S], after: Option<CsvMark>) -> Result<CsvMark> {
        let header = match rows.first() {
            Some(row) if self.has_header => self.header(row)?.to_vec(),
            _ => Vec::new(),
        };
        let rows = Rows { bytes: encode(rows)?, count: rows.len() as u64, header };
        // Before it begins: of those who wait while the disk hangs and are given up, none writes later or keeps a thread.
        let mut series = self.series.clone().lock_owned().await;
        // The file lock is taken there, so that what was begun ends even if the caller goes away.
        blocking(move || series.append(&rows, after)).await
    }

    fn header<S: Serialize>(&self, row: &S) -> Result<&[u8]> {
        if self.header.get().is_none() {
            let line = header(row)?;
            return Ok(self.header.get_or_init(|| line));
        }
        Ok(self.header.get().map_or(&[], Vec::as_slice))
    }
}

impl<T: Serialize + Send + Sync + 'static> BatchWriter<T> for CsvSink<T> {
    async fn write(&self, items: &[T]) -> Result<Vec<()>> {
        self.append(items).await?;
        Ok(vec![(); items.len()])
    }
}

/// Runs what blocks where it may.
async fn blocking<O: Send + 'static>(work: impl FnOnce() -> Result<O> + Send + 'static) -> Result<O> {
    if in_place::may_block() {
        return in_place::block(work);
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => Err(Error::fatal("writing a CSV file panicked").with_source(error)),
        Err(_) => Err(interrupted()),
    }
}
