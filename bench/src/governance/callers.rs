use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::row::Event;
use crate::load::{Load, Writer};
use crate::outcome::Outcome;

/// A way to have an event written.
pub(super) trait Submit: Clone + Send + Sync + 'static {
    /// Returns when the event is written and durable.
    fn submit(&self, event: Event) -> impl Future<Output = Outcome<()>> + Send;
}

/// What came of a load.
pub(super) struct Written {
    /// Rows per second.
    pub(super) rate: f64,
    /// All rows, those before and after the time that counted included.
    pub(super) rows: u64,
}

/// Lets callers write, each its next event as soon as the last one is written.
pub(super) async fn write(load: Load, by: &impl Submit) -> Outcome<Written> {
    let rows = Arc::new(AtomicU64::new(0));
    let callers = (0..).map(|caller| Caller { caller, by: by.clone(), rows: rows.clone() });
    let rate = load.on_tasks(callers).await?;
    Ok(Written { rate, rows: rows.load(Ordering::Relaxed) })
}

struct Caller<S> {
    caller: i32,
    by: S,
    rows: Arc<AtomicU64>,
}

impl<S: Submit> Writer for Caller<S> {
    async fn write(&mut self, turn: u64) -> Outcome<()> {
        self.by.submit(Event::new(self.caller, turn)).await?;
        self.rows.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
