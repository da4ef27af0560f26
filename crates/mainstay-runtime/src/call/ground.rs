use std::sync::Arc;

use mainstay_core::task::Scope;
use mainstay_core::time::Instant;

use crate::actor::site::Site;
use crate::call::arrival::Method;
use crate::slot::Ticket;

/// Where a turn runs: what its tasks belong to and end with.
pub(crate) enum Ground {
    /// In a partition, by the ticket that counts the call.
    Partition(Ticket),
    /// In an actor's place.
    Actor(Arc<Site>),
    /// In a pool of workers.
    Pool(Scope),
}

impl Ground {
    /// The moment at which a call arrives, if it is to be measured.
    pub(crate) fn arrival(&self, method: &'static Method) -> Option<Instant> {
        match self {
            Self::Actor(site) => site.hall.ledger.arrival(method),
            Self::Partition(_) | Self::Pool(_) => None,
        }
    }

    pub(crate) fn scope(&self) -> &Scope {
        match self {
            Self::Partition(ticket) => ticket.scope(),
            Self::Actor(site) => &site.hall.scope,
            Self::Pool(scope) => scope,
        }
    }
}
