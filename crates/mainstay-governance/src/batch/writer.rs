use std::future::Future;
use std::sync::Arc;

use mainstay::Result;

/// What writes batches: a file, a database, a service that takes many at once.
///
/// To be correct:
/// - the items are written in their order;
/// - there is one result for each item, in the same order;
/// - after an error, nothing of the batch counts as written: it may be written again, whole or in parts. Where that cannot
///   be known, the error is [`OutcomeUnknown`](mainstay::ErrorKind::OutcomeUnknown), and the batch is not written again
///   unless the policy of the executor says so;
/// - the future of a write may be dropped before its end, when it takes longer than
///   [`write_time_max`](super::BatchSettings::write_time_max): what it leaves behind does no harm to the next write. One that
///   blocks its thread instead may find, when it comes back, that another writes meanwhile.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not write batches of `{T}`",
    note = "implement `BatchWriter<{T}, {R}>` with `async fn write(&self, items: &[{T}]) -> Result<Vec<{R}>>`"
)]
pub trait BatchWriter<T, R = ()>: Send + Sync + 'static {
    /// Writes a batch in its order: one result per item, or an error when nothing of the batch counts as written.
    fn write(&self, items: &[T]) -> impl Future<Output = Result<Vec<R>>> + Send;

    /// The same for a batch that is not written a second time, whatever becomes of it, because the policy is neither to try
    /// again nor to split. For writers that need the items to keep: these are theirs, and need not be copied.
    fn write_once(&self, items: Vec<T>) -> impl Future<Output = Result<Vec<R>>> + Send
    where
        T: Send + Sync,
    {
        async move { self.write(&items).await }
    }
}

/// One writer for several executors.
impl<T: Sync, R, W: BatchWriter<T, R>> BatchWriter<T, R> for Arc<W> {
    fn write(&self, items: &[T]) -> impl Future<Output = Result<Vec<R>>> + Send {
        W::write(self, items)
    }

    fn write_once(&self, items: Vec<T>) -> impl Future<Output = Result<Vec<R>>> + Send
    where
        T: Send + Sync,
    {
        W::write_once(self, items)
    }
}
