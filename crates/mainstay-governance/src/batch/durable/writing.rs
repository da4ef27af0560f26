//! A write, outside of the turns of its actor.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use mainstay::{Error, ErrorKind, Result};
use tokio::sync::Mutex;

use super::{DurableWriter, Numbered};
use crate::batch::write_time::in_time;
use crate::owner::Opening;

/// What is open, if it is, for whichever write is under way.
pub(super) type Desk<W> = Arc<Mutex<Option<<W as DurableWriter>::Handle>>>;

/// What is to be written, and where.
pub(super) struct Writing<W: DurableWriter> {
    pub(super) writer: Arc<W>,
    pub(super) desk: Desk<W>,
    pub(super) opening: Opening,
    /// `None` before the first write ever: then the first mark is asked for, and nothing is written.
    pub(super) mark: Option<W::Mark>,
    pub(super) items: Vec<Numbered<W::Item>>,
    pub(super) bytes: u64,
    /// How long it may take.
    pub(super) time_max: Duration,
    /// Says that a write is under way, for as long as it is there.
    pub(super) token: Arc<()>,
}

/// What came of it.
pub(super) struct WriteOutcome<W: DurableWriter> {
    pub(super) result: Result<W::Mark>,
    /// What was written; nothing if the first mark was asked for.
    pub(super) items: Vec<Numbered<W::Item>>,
    pub(super) bytes: u64,
    pub(super) token: Arc<()>,
}

impl<W: DurableWriter> Writing<W> {
    pub(super) async fn run(self) -> WriteOutcome<W> {
        let attempt = AssertUnwindSafe(in_time(self.time_max, writer_of::<W>, self.attempt())).catch_unwind();
        let result = match attempt.await {
            // What took too long has taken what was open along.
            Ok(result) => result,
            Err(_) => {
                // What it has open may be half of something.
                self.desk.lock().await.take();
                Err(Error::fatal(format!("the writer of {} panicked: see the log for where", W::NAME)))
            }
        };
        let Self { items, bytes, token, mark, .. } = self;
        let items = if mark.is_some() { items } else { Vec::new() };
        WriteOutcome { result, items, bytes, token }
    }

    async fn attempt(&self) -> Result<W::Mark> {
        let mut desk = self.desk.lock().await;
        let mut handle = match desk.take() {
            Some(handle) => handle,
            None => self.writer.open(&self.opening).await.map_err(|error| self.not_opened(error))?,
        };
        let result = match &self.mark {
            Some(mark) => self.writer.write(&mut handle, mark, &self.items).await,
            None => self.writer.begin(&mut handle).await,
        };
        match &result {
            Err(error) if !blames_items(error) => self.writer.close(handle).await,
            _ => *desk = Some(handle),
        }
        result
    }
}

impl<W: DurableWriter> Writing<W> {
    /// Whatever keeps it from being opened is no fault of the items, and must not lead to their being set aside.
    fn not_opened(&self, error: Error) -> Error {
        if !blames_items(&error) {
            return error;
        }
        let text = format!("{} of {} cannot be opened: it is tried again later", self.opening.key, W::NAME);
        Error::new(ErrorKind::Retry, text).with_source(error)
    }
}

/// What errors call a writer.
pub(super) fn writer_of<W: DurableWriter>() -> String {
    format!("the writer of {}", W::NAME)
}

/// True if an error is the reason to look for the item that cannot be written. What may pass by itself is not: a database
/// that is down for an hour must not lead to items being set aside.
pub(super) use crate::batch::retry::may_be_an_item as blames_items;
