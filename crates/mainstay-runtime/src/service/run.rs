use std::sync::Arc;

use mainstay_core::time;

use crate::backoff::{Backoff, PAUSE_MAX};
use crate::call::turn::catching;
use crate::service::context::ServiceContext;
use crate::service::definition::Service;
use crate::service::served::Served;

/// Keeps `run` of a service going until it has returned or is cancelled.
pub(crate) async fn keep_running<T: Service>(served: Arc<Served<T>>, context: ServiceContext) {
    let mut backoff = Backoff::new();
    let mut failures: u64 = 0;
    while !context.is_cancelled() {
        let begun = time::now();
        let Err(error) = catching("run", served.object().execute(context.clone())).await else { return };
        if context.is_cancelled() {
            // What it was doing was taken away from it: that is how it ends.
            tracing::debug!(service = context.service_name(), partition = %context.partition_id(), ?error, "run has ended");
            return;
        }
        if begun.elapsed() >= PAUSE_MAX {
            // It was well for a while, so this is another trouble.
            backoff.reset();
            failures = 0;
        }
        failures += 1;
        let pause = backoff.pause();
        tracing::error!(
            service = context.service_name(),
            partition = %context.partition_id(),
            ?error,
            failures,
            pause_ms = pause.as_millis() as u64,
            "run has failed and will be started again"
        );
        // Either the pause is over, or the loop ends.
        let _ = time::timeout(pause, context.cancelled()).await;
    }
}
