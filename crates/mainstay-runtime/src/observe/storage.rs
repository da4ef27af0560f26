//! Durations and failures of activations, loads and commits.

use std::future::Future;
use std::sync::Arc;

use mainstay_core::Result;
use mainstay_core::time;

use crate::actor::actor_shared::ActorShared;

/// Measures an activation, and reports one that fails.
pub(crate) async fn activating<R>(shared: &Arc<ActorShared>, activation: impl Future<Output = Result<R>>) -> Result<R> {
    let counters = &shared.partition.counters;
    let began = counters.clock();
    let activated = activation.await;
    if let Some(began) = began {
        counters.own().activation.record(time::now().saturating_duration_since(began));
    }
    match &activated {
        Ok(_) => tracing::debug!(actor = %shared, "activated"),
        Err(error) => {
            if let Some(suppressed) = counters.warnings.failed_activation.admit(&shared.id) {
                tracing::warn!(actor = %shared, ?error, suppressed, "an actor cannot be activated");
            }
        }
    }
    activated
}

/// Measures the reading of an actor's state.
pub(crate) fn loading<R>(shared: &Arc<ActorShared>, load: impl FnOnce() -> R) -> R {
    let counters = &shared.partition.counters;
    let began = counters.clock();
    let loaded = load();
    if let Some(began) = began {
        counters.own().state_load.record(time::now().saturating_duration_since(began));
    }
    loaded
}

/// Measures a commit, and reports one that fails.
pub(crate) async fn saving<R>(shared: &Arc<ActorShared>, commit: impl Future<Output = Result<R>>) -> Result<R> {
    let counters = &shared.partition.counters;
    let began = counters.clock();
    let saved = commit.await;
    if let Some(began) = began {
        counters.own().state_save.record(time::now().saturating_duration_since(began));
    }
    if let Err(error) = &saved
        && let Some(suppressed) = counters.warnings.failed_commit.admit(&shared.id)
    {
        tracing::warn!(actor = %shared, ?error, suppressed, "a commit has failed: the turns in it are rolled back");
    }
    saved
}
