//! What a time limit cannot end: a writer that blocks its thread.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstay::{Error, ErrorKind};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::BatchWriter;
use super::lane::{self, Crew};
use super::queue::Flying;

/// How much longer than its time limit a writer is given before it counts as stuck: one that is only slow is given up by the
/// limit itself, and may be tried again.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(1);

/// Looks after lanes while they write. The callers of one that is stuck are answered, and another takes its place; it ends
/// when it comes back.
///
/// It has a timer only while something is being written, and rings no bell for each batch: as long as the timer runs, it is
/// enough to look when it is over.
pub(super) async fn run<T, R, W>(crew: Weak<Crew<T, R>>, writer: Weak<W>, bell: Arc<Notify>)
where
    T: Send + Sync + 'static,
    R: Send + 'static,
    W: BatchWriter<T, R>,
{
    bell.notified().await;
    // Those that are stuck have both. Without them there is nothing to look after.
    while let (Some(crew), Some(writer)) = (crew.upgrade(), writer.upgrade()) {
        let (stuck, next) = crew.shared().look_after(Instant::now());
        for flying in stuck {
            give_up(&crew, flying);
            drop(tokio::spawn(lane::run(crew.shared().clone(), writer.clone(), crew.clone())));
        }
        drop((crew, writer));
        match next {
            None => bell.notified().await,
            Some(next) => tokio::select! {
                () = sleep_until(next) => {}
                () = bell.notified() => {}
            },
        }
    }
}

fn give_up<T, R>(crew: &Crew<T, R>, stuck: Flying<R>) {
    let (shared, items) = (crew.shared(), stuck.items);
    let (name, limit) = (&shared.name, shared.settings.write_time_max);
    tracing::error!(executor = name, items, ?limit, "the writer of a batch blocks its thread and was given up");
    let text = format!(
        "the writer of the batch executor {name:?} took longer than write_time_max of {limit:?}, blocks its thread and was \
         given up: its batch may have been written, look before you write it again"
    );
    shared.counters.batch(0, items);
    stuck.cell.fail(items, Error::new(ErrorKind::OutcomeUnknown, text));
    shared.progressed();
}

#[cfg(test)]
mod tests;
