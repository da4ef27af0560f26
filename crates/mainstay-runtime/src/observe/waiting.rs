use std::sync::Arc;

use mainstay_core::time::{self, Instant};

use crate::actor::site::Site;
use crate::call::arrival::Call;

/// A call that waits in line for its turn, as long as it does.
pub(crate) struct Waiting {
    site: Arc<Site>,
    since: Option<Instant>,
}

impl Waiting {
    pub(crate) fn new(site: &Arc<Site>, call: &Call) -> Self {
        site.hall.ledger.waits(1);
        Self { site: site.clone(), since: call.current.arrived }
    }

    /// It has its turn.
    pub(crate) fn over(self) {
        if let Some(since) = self.since {
            self.site.hall.ledger.own().turn_wait.record(time::now().saturating_duration_since(since));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.site.hall.ledger.waits(-1);
    }
}

/// Counts a call that is refused because there are too many, and says so unless that was said just now.
pub(crate) fn refused(site: &Site, call: &Call, limit: Limit) {
    let ledger = &site.hall.ledger;
    ledger.refused();
    let Some(unsaid) = ledger.warnings.mailbox_full.admit(&site.id) else { return };
    let method = call.current.method.name();
    match limit {
        Limit::Mailbox => {
            let waiting = site.hall.settings.mailbox;
            tracing::warn!(actor = %site, method, waiting, unsaid, "the mailbox is full");
        }
        Limit::Calls => {
            let calls_max = site.hall.settings.calls_max;
            tracing::warn!(actor = %site, method, calls_max, unsaid, "too many calls are under way");
        }
    }
}

/// What there are too many for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// The setting `mailbox`.
    Mailbox,
    /// The setting `calls_max`.
    Calls,
}
