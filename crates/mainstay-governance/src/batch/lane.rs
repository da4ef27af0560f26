//! One batch after another, written.

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use mainstay::{Error, ErrorKind, Result};

use super::BatchWriter;
use super::executor::Shared;
use super::failure::shared as shared_error;
use super::queue::Batch;
use super::write_time::in_time;

/// What the lanes of an executor hold together. When the last one is dropped, nobody writes any more: their runtime ends.
pub(super) struct Crew<T, R>(Arc<Shared<T, R>>);

impl<T, R> Crew<T, R> {
    pub(super) fn new(shared: &Arc<Shared<T, R>>) -> Arc<Self> {
        Arc::new(Self(shared.clone()))
    }
}

impl<T, R> Drop for Crew<T, R> {
    fn drop(&mut self) {
        let name = &self.0.name;
        self.0.abandon(format!("the batch executor {name:?} has ended with its runtime: the item was not written"));
    }
}

/// Writes batches until there are to be no more.
pub(super) async fn run<T, R, W>(shared: Arc<Shared<T, R>>, writer: Arc<W>, _crew: Arc<Crew<T, R>>)
where
    T: Send + Sync + 'static,
    R: Send + 'static,
    W: BatchWriter<T, R>,
{
    while let Some(batch) = shared.next().await {
        let flight = Flight { shared: &shared, batch };
        let results = Writing { shared: &shared, writer: &*writer, items: &flight.batch.items }.run().await;
        flight.land(results);
    }
}

/// A batch that is being written. If that is cut short, nobody knows how far it came.
struct Flight<'a, T, R> {
    shared: &'a Shared<T, R>,
    batch: Batch<T, R>,
}

impl<T, R> Flight<'_, T, R> {
    fn land(self, results: Vec<Option<Result<R>>>) {
        let failed = results.iter().filter(|result| matches!(result, Some(Err(_)))).count();
        self.shared.counters.batch(results.len() - failed, failed);
        self.batch.cell.complete(results);
    }
}

impl<T, R> Drop for Flight<'_, T, R> {
    fn drop(&mut self) {
        // Goes nowhere if it has landed.
        let text = format!(
            "the batch executor {:?} ended with its runtime while the item was being written: look before you write it again",
            self.shared.name
        );
        self.batch.cell.fail(self.batch.items.len(), Error::new(ErrorKind::OutcomeUnknown, text));
        self.shared.ended(self.batch.number);
    }
}

/// What it takes to write a batch.
struct Writing<'a, T, R, W> {
    shared: &'a Shared<T, R>,
    writer: &'a W,
    items: &'a [T],
}

impl<T, R, W> Writing<'_, T, R, W>
where
    T: Send + Sync + 'static,
    R: Send + 'static,
    W: BatchWriter<T, R>,
{
    async fn run(&self) -> Vec<Option<Result<R>>> {
        let (settings, all) = (&self.shared.settings, 0..self.items.len());
        let mut failed = 0;
        let error = loop {
            let error = match self.attempt(all.clone()).await {
                Ok(results) => return results.into_iter().map(|result| Some(Ok(result))).collect(),
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
        results.resize_with(self.items.len(), || None);
        self.split(all, error, &mut results).await;
        results
    }

    /// Writes a batch that failed in halves, and those again, in order.
    async fn split(&self, all: Range<usize>, error: Error, results: &mut [Option<Result<R>>]) {
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
                    match self.attempt(part.clone()).await {
                        Ok(written) => {
                            results[part].iter_mut().zip(written).for_each(|(result, one)| *result = Some(Ok(one)));
                        }
                        Err(error) => parts.push((part, Arc::new(error), Tried::Yes)),
                    }
                }
                _ => results[part].iter_mut().for_each(|result| *result = Some(Err(shared_error(&error)))),
            }
        }
    }

    /// Writes a part of the batch once.
    async fn attempt(&self, part: Range<usize>) -> Result<Vec<R>> {
        let items = &self.items[part];
        let name = &self.shared.name;
        let writing = AssertUnwindSafe(self.writer.write(items)).catch_unwind().map(Ok);
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
        if results.len() != items.len() {
            let (got, wanted) = (results.len(), items.len());
            let text = format!("the writer of the batch executor {name:?} gave {got} results for {wanted} items");
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
