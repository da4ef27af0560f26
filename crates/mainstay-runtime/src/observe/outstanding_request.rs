use std::sync::Arc;

use mainstay_core::time::{self, Instant};

use crate::actor::actor_shared::ActorShared;
use crate::call::arrival::Method;

/// A call to an actor that did not get its reply at once, counted as outstanding until this is dropped.
pub(crate) struct OutstandingRequest {
    shared: Arc<ActorShared>,
    method: &'static Method,
    arrived: Option<Instant>,
}

impl OutstandingRequest {
    pub(crate) fn new(shared: &Arc<ActorShared>, method: &'static Method, arrived: Option<Instant>) -> Self {
        shared.partition.counters.request_changed(1);
        Self { shared: shared.clone(), method, arrived }
    }

    /// Records the duration of the request, and ends it.
    #[inline]
    pub(crate) fn answered(self) {
        answered(&self.shared, self.method, self.arrived);
    }
}

/// Also for a caller that gave up before the reply.
impl Drop for OutstandingRequest {
    fn drop(&mut self) {
        self.shared.partition.counters.request_changed(-1);
    }
}

/// Records the duration of a call that got its reply, if the call is in the sample that is measured.
#[inline]
pub(crate) fn answered(shared: &ActorShared, method: &'static Method, arrived: Option<Instant>) {
    if let Some(arrived) = arrived {
        let took = time::now().saturating_duration_since(arrived);
        shared.partition.counters.method(method).request_took(took);
    }
}
