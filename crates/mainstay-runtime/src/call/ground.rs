use std::sync::Arc;

use mainstay_core::task::Scope;

use crate::actor::site::Site;
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
    pub(crate) fn scope(&self) -> &Scope {
        match self {
            Self::Partition(ticket) => ticket.scope(),
            Self::Actor(site) => &site.hall.scope,
            Self::Pool(scope) => scope,
        }
    }
}
