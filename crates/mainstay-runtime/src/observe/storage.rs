//! What is seen of the state of actors: activations, loads and commits.

use std::future::Future;
use std::sync::Arc;

use mainstay_core::Result;
use mainstay_core::time;

use crate::actor::site::Site;

/// Measures an activation, and reports one that fails.
pub(crate) async fn activating<R>(site: &Arc<Site>, activation: impl Future<Output = Result<R>>) -> Result<R> {
    let ledger = &site.hall.ledger;
    let began = ledger.clock();
    let activated = activation.await;
    if let Some(began) = began {
        ledger.own().activation.record(time::now().saturating_duration_since(began));
    }
    match &activated {
        Ok(_) => tracing::debug!(actor = %site, "activated"),
        Err(error) => {
            if let Some(unsaid) = ledger.warnings.failed_activation.admit(&site.id) {
                tracing::warn!(actor = %site, ?error, unsaid, "an actor cannot be activated");
            }
        }
    }
    activated
}

/// Measures the reading of an actor's state.
pub(crate) fn loading<R>(site: &Arc<Site>, load: impl FnOnce() -> R) -> R {
    let ledger = &site.hall.ledger;
    let began = ledger.clock();
    let loaded = load();
    if let Some(began) = began {
        ledger.own().state_load.record(time::now().saturating_duration_since(began));
    }
    loaded
}

/// Measures a commit, and reports one that fails.
pub(crate) async fn saving<R>(site: &Arc<Site>, commit: impl Future<Output = Result<R>>) -> Result<R> {
    let ledger = &site.hall.ledger;
    let began = ledger.clock();
    let saved = commit.await;
    if let Some(began) = began {
        ledger.own().state_save.record(time::now().saturating_duration_since(began));
    }
    if let Err(error) = &saved
        && let Some(unsaid) = ledger.warnings.failed_commit.admit(&site.id)
    {
        tracing::warn!(actor = %site, ?error, unsaid, "a commit has failed, and the turns in it did not happen");
    }
    saved
}
