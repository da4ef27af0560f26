use std::sync::Arc;

use mainstay_core::{Backoff, time};

use crate::call::turn::catching;
use crate::service::context::ServiceContext;
use crate::service::definition::Service;
use crate::service::host::ServiceHost;

/// Supervises `run` of a service: restarts it with backoff when it fails, until it returns or is cancelled.
pub(crate) async fn keep_running<T: Service>(served: Arc<ServiceHost<T>>, context: ServiceContext) {
    let mut backoff = Backoff::default().retries();
    let mut failures: u64 = 0;
    while !context.is_cancelled() {
        let begun = time::now();
        let Err(error) = catching("run", served.object().execute(context.clone())).await else { return };
        if context.is_cancelled() {
            // The role ended under it, so an error is the normal end.
            tracing::debug!(service = context.service_name(), partition = %context.partition_id(), ?error, "run has ended");
            return;
        }
        if begun.elapsed() >= Backoff::default().max {
            // It ran for long enough that this is a new failure rather than the same one.
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
            "run failed and is restarted after the pause"
        );
        // Both results are fine: the pause is over, or the loop condition ends the loop.
        let _ = time::timeout(pause, context.cancelled()).await;
    }
}
