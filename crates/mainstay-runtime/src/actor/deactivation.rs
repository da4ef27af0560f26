//! How an actor leaves memory.

use std::sync::Arc;

use crate::actor::Actor;
use crate::actor::cell::Object;
use crate::actor::hall::HallCore;
use crate::call::turn::catching;

/// Runs what an actor does when it leaves memory, and drops it.
pub(crate) async fn deactivate<T: Actor>(hall: &HallCore, object: Object<T>) {
    let Some(hooks) = &T::LIFECYCLE else { return };
    // Whoever shared it has ended: it was idle, or is held by one alone.
    let Ok(mut actor) = Arc::try_unwrap(object.actor) else { return };
    let leaving = (hooks.deactivate)(&mut actor);
    let ended = catching("deactivate", async {
        leaving.await;
        Ok(())
    })
    .await;
    if let Err(error) = ended {
        tracing::error!(service = %hall.address.service, ?error, "an actor's deactivate has failed");
    }
}
