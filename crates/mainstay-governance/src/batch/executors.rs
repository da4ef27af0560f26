use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use futures_util::future::join_all;
use mainstay::node::{NodeBuilder, SHUTDOWN_HOOK_TIMEOUT};
use mainstay::service::Services;
use mainstay::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::settings::BATCHES;

/// How many executors of one node may be closed by it. They are few: one for each thing that is written to.
pub const EXECUTORS_MAX: usize = 10_000;

/// Lets a node close executors when it is stopped in order: those that were told to by
/// [`closes_with`](super::BatchExecutor::closes_with). It writes what they have, while all services can still be called, in
/// most of the time that there is for it: [`SHUTDOWN_HOOK_TIMEOUT`](mainstay::node::SHUTDOWN_HOOK_TIMEOUT).
///
/// What was added last is done first. So call it after [`resolve::serve`](crate::resolve::serve), if executors write to what a
/// resolver leads to: `batch::serve(resolve::serve(node))`.
///
/// Operators can set how an executor batches in `[governance.batches.NAME]`, where its code takes that:
/// [`BatchSettings::in_force`](super::BatchSettings::in_force).
pub fn serve(node: NodeBuilder) -> NodeBuilder {
    node.sections(BATCHES).provide(Executors::default()).before_stop(|services: Services| async move {
        if let Ok(executors) = services.provided::<Executors>() {
            // Somebody else may have to say farewell as well.
            let time = SHUTDOWN_HOOK_TIMEOUT * 4 / 5;
            if tokio::time::timeout(time, executors.close()).await.is_err() {
                tracing::warn!(
                    time_ms = time.as_millis() as u64,
                    "batch executors have not written all that they have before the node stops; those who wait are told"
                );
            }
        }
    })
}

/// The executors that end with a node. [`serve`] provides it.
#[derive(Default)]
pub(super) struct Executors(Mutex<Vec<Weak<dyn Closes>>>);

/// What can be closed, whatever it writes.
pub(super) trait Closes: Send + Sync {
    /// Takes nothing more, and returns when everything is written that is there.
    fn finish(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

impl fmt::Debug for Executors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Executors")
    }
}

impl Executors {
    /// Takes note of one, until it is dropped.
    pub(super) fn note(&self, executor: Weak<dyn Closes>) -> Result<()> {
        let mut executors = self.0.lock();
        if executors.len() >= EXECUTORS_MAX {
            executors.retain(|executor| executor.strong_count() > 0);
        }
        if executors.len() >= EXECUTORS_MAX {
            let text =
                format!("a node closes {EXECUTORS_MAX} batch executors, and has as many: close this one yourself");
            return Err(Error::new(ErrorKind::Overloaded, text));
        }
        executors.push(executor);
        Ok(())
    }

    async fn close(&self) {
        let executors: Vec<Arc<dyn Closes>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        join_all(executors.iter().map(|executor| executor.finish())).await;
    }
}
