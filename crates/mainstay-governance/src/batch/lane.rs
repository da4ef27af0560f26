//! One batch after another, written.

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use mainstay::{Error, ErrorKind, Result};
use tokio::time::Instant;

use super::BatchWriter;
use super::cell::Cell;
use super::executor::ExecutorCore;
use super::failure::shared as shared_error;
use super::in_place::watched;
use super::queue::Batch;
use super::write_time::in_time;

/// What the lanes of an executor hold together. When the last one is dropped, nobody writes any more: their runtime ends.
pub(super) struct Crew<T, R>(Arc<ExecutorCore<T, R>>);

impl<T, R> Crew<T, R> {
    pub(super) fn new(shared: &Arc<ExecutorCore<T, R>>) -> Arc<Self> {
        Arc::new(Self(shared.clone()))
    }

    pub(super) fn shared(&self) -> &Arc<ExecutorCore<T, R>> {
        &self.0
    }
}

impl<T, R> Drop for Crew<T, R> {
    fn drop(&mut self) {
        let name = &self.0.name;
        self.0.abandon(format!("the batch executor {name:?} has ended with its runtime: the item was not written"));
        self.0.dismiss();
    }
}

/// Writes batches until there are to be no more, or another has taken its place.
pub(super) async fn run<T, R, W>(shared: Arc<ExecutorCore<T, R>>, writer: Arc<W>, _crew: Arc<Crew<T, R>>)
where
    T: Send + Sync + 'static,
    R: Send + 'static,
    W: BatchWriter<T, R>,
{
    while let Some(Batch { number, items, cell, .. }) = shared.next().await {
        let in_progress = BatchInProgress { shared: &shared, number, items: items.len(), cell: Some(cell) };
        let writing = Writing { shared: &shared, writer: &*writer, number };
        let results = match shared.settings.writes_once() {
            true => writing.once(items).await,
            false => writing.run(&items).await,
        };
        let Some(results) = results else { return };
        in_progress.land(results);
    }
}

/// A batch that is being written. If that is cut short, nobody knows how far it came.
struct BatchInProgress<'a, T, R> {
    shared: &'a ExecutorCore<T, R>,
    number: u64,
    items: usize,
    /// `None` once everybody is told.
    cell: Option<Arc<Cell<R>>>,
}

/// What became of each item; `None` if the writer was given up, and others have been told.
type Results<R> = Option<Vec<Option<Result<R>>>>;

impl<T, R> BatchInProgress<'_, T, R> {
    fn land(mut self, results: Vec<Option<Result<R>>>) {
        let failed = results.iter().filter(|result| matches!(result, Some(Err(_)))).count();
        self.shared.counters.batch(results.len() - failed, failed);
        if let Some(cell) = self.cell.take() {
            self.shared.answers(results.len());
            cell.complete(results);
        }
    }
}

impl<T, R> Drop for BatchInProgress<'_, T, R> {
    fn drop(&mut self) {
        if let Some(cell) = &self.cell {
            let text = format!(
                "the batch executor {:?} ended with its runtime while the item was being written: look before you write it \
                 again",
                self.shared.name
            );
            cell.fail(self.items, Error::new(ErrorKind::OutcomeUnknown, text));
        }
        self.shared.ended(self.number);
    }
}

/// What it takes to write a batch.
struct Writing<'a, T, R, W> {
    shared: &'a ExecutorCore<T, R>,
    writer: &'a W,
    number: u64,
}

impl<T, R, W> Writing<'_, T, R, W>
where
    T: Send + Sync + 'static,
    R: Send + 'static,
    W: BatchWriter<T, R>,
{
    /// Writes a batch that is not written again: the writer may keep it.
    async fn once(&self, items: Vec<T>) -> Results<R> {
        let count = items.len();
        match self.attempt(count, self.writer.write_once(items)).await? {
            Ok(results) => Some(results.into_iter().map(|result| Some(Ok(result))).collect()),
            Err(error) => {
                let error = Arc::new(error);
                Some((0..count).map(|_| Some(Err(shared_error(&error)))).collect())
            }
        }
    }

    /// Writes a batch, as often as it takes.
    async fn run(&self, items: &[T]) -> Results<R> {
        let (settings, all) = (&self.shared.settings, 0..items.len());
        let mut failed = 0;
        let error = loop {
            let error = match self.attempt(items.len(), self.writer.write(items)).await? {
                Ok(results) => return Some(results.into_iter().map(|result| Some(Ok(result))).collect()),
                Err(error) => error,
            };
            failed += 1;
            let Some(wait) = settings.retry.wait(failed, &error) else { break error };
            self.shared.counters.write_again();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.shared.given_up() => break error,
            }
        };
        let mut results = Vec::new();
        results.resize_with(items.len(), || None);
        self.split(items, all, error, &mut results).await?;
        Some(results)
    }

    /// Writes a batch that failed in halves, and those again, in order. `None` if the writer was given up.
    async fn split(
        &self,
        items: &[T],
        all: Range<usize>,
        error: Error,
        results: &mut [Option<Result<R>>],
    ) -> Option<()> {
        let policy = &self.shared.settings.split;
        let mut writes = 0;
        // Parts that have failed are at the end, with their error; parts that have not been written alone wait before them.
        let mut parts = vec![(all, Arc::new(error), Tried::Yes)];
        while let Some((part, error, tried)) = parts.pop() {
            let goes_on = writes < policy.writes_max && (policy.splits)(&error);
            match tried {
                Tried::Yes if goes_on && part.len() > 1 => {
                    let middle = part.start + part.len() / 2;
                    parts.push((middle..part.end, error.clone(), Tried::No));
                    parts.push((part.start..middle, error, Tried::No));
                }
                Tried::No if goes_on => {
                    writes += 1;
                    self.shared.counters.write_again();
                    match self.attempt(part.len(), self.writer.write(&items[part.clone()])).await? {
                        Ok(written) => {
                            results[part].iter_mut().zip(written).for_each(|(result, one)| *result = Some(Ok(one)));
                        }
                        Err(error) => parts.push((part, Arc::new(error), Tried::Yes)),
                    }
                }
                _ => results[part].iter_mut().for_each(|result| *result = Some(Err(shared_error(&error)))),
            }
        }
        Some(())
    }

    /// Writes so many items once. `None` if the writer was given up meanwhile.
    async fn attempt(
        &self,
        items: usize,
        write: impl Future<Output = Result<Vec<R>>> + Send,
    ) -> Option<Result<Vec<R>>> {
        self.shared.try_begins(self.number);
        let begun = Instant::now();
        let written = self.in_time(items, watched(self.shared.is_watched(), write)).await;
        self.shared.counters.metrics.write.record(begun.elapsed().as_secs_f64());
        self.shared.try_ends(self.number).then_some(written)
    }

    async fn in_time(&self, items: usize, write: impl Future<Output = Result<Vec<R>>> + Send) -> Result<Vec<R>> {
        let name = &self.shared.name;
        let writing = AssertUnwindSafe(write).catch_unwind().map(Ok);
        let limit = self.shared.settings.write_time_max;
        let results = match in_time(limit, || format!("the writer of the batch executor {name:?}"), writing).await? {
            Ok(results) => results?,
            Err(panic) => {
                let panic = text_of(&*panic);
                tracing::error!(executor = name, panic, "the writer of a batch panicked");
                let text = format!("the writer of the batch executor {name:?} panicked: {panic}");
                return Err(Error::new(ErrorKind::OutcomeUnknown, text));
            }
        };
        if results.len() != items {
            let got = results.len();
            let text = format!("the writer of the batch executor {name:?} gave {got} results for {items} items");
            return Err(Error::new(ErrorKind::OutcomeUnknown, text));
        }
        Ok(results)
    }
}

/// Whether a part of a batch has been written alone, and has failed.
enum Tried {
    Yes,
    No,
}

/// What a panic says.
fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}
