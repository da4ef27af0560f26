use std::sync::Arc;

use mainstay_core::time::{self, Instant};

use crate::actor::actor_shared::ActorShared;
use crate::call::arrival::Call;

/// A call in the mailbox, counted as waiting until this is dropped.
pub(crate) struct MailboxWait {
    shared: Arc<ActorShared>,
    since: Option<Instant>,
}

impl MailboxWait {
    pub(crate) fn new(shared: &Arc<ActorShared>, call: &Call) -> Self {
        shared.partition.counters.waits(1);
        Self { shared: shared.clone(), since: call.current.arrived }
    }

    /// Records the time in the mailbox when the turn begins.
    pub(crate) fn over(self) {
        if let Some(since) = self.since {
            self.shared.partition.counters.own().turn_wait.record(time::now().saturating_duration_since(since));
        }
    }
}

impl Drop for MailboxWait {
    fn drop(&mut self) {
        self.shared.partition.counters.waits(-1);
    }
}

/// Counts a call that is refused by a limit, and logs a warning unless the throttle suppresses it.
pub(crate) fn refused(shared: &ActorShared, call: &Call, limit: CallLimit) {
    let counters = &shared.partition.counters;
    counters.refused();
    let Some(suppressed) = counters.warnings.mailbox_full.admit(&shared.id) else { return };
    let method = call.current.method.name();
    match limit {
        CallLimit::Mailbox => {
            let waiting = shared.partition.settings.mailbox;
            tracing::warn!(actor = %shared, method, waiting, suppressed, "the mailbox is full");
        }
        CallLimit::Calls => {
            let calls_max = shared.partition.settings.calls_max;
            tracing::warn!(actor = %shared, method, calls_max, suppressed, "too many calls are under way");
        }
    }
}

/// The limit that refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallLimit {
    /// The setting `mailbox`.
    Mailbox,
    /// The setting `calls_max`.
    Calls,
}
