use std::sync::Arc;

use mainstay_core::task::Scope;
use mainstay_core::time::Instant;

use crate::actor::actor_shared::ActorShared;
use crate::call::arrival::Method;
use crate::slot::AdmittedCall;

/// The scope of a turn: the owner of its tasks, with which they end.
pub(crate) enum TurnScope {
    /// A partition, with the permit that counts the call.
    Partition(AdmittedCall),
    /// An actor.
    Actor(Arc<ActorShared>),
    /// A worker pool.
    Pool(Scope),
}

impl TurnScope {
    /// The arrival time of a call, if the call is in the sample that is measured.
    pub(crate) fn arrival(&self, method: &'static Method) -> Option<Instant> {
        match self {
            Self::Actor(shared) => shared.partition.counters.arrival(method),
            Self::Partition(_) | Self::Pool(_) => None,
        }
    }

    pub(crate) fn scope(&self) -> &Scope {
        match self {
            Self::Partition(admitted) => admitted.scope(),
            Self::Actor(shared) => &shared.partition.scope,
            Self::Pool(scope) => scope,
        }
    }
}
