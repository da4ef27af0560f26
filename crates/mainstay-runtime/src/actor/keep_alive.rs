use std::sync::Arc;

use crate::actor::actor_shared::ActorShared;

/// Something that an actor has yet to see to after its turn: an answer that somebody waits for, or what it waits for itself
/// outside of its turns. An actor with such is in use.
pub(crate) struct KeepAlive {
    shared: Arc<ActorShared>,
}

/// That an actor owes somebody an answer, who waits for it.
pub(crate) struct Owed {
    keep_alive: KeepAlive,
}

impl Owed {
    pub(crate) fn new(shared: Arc<ActorShared>) -> Self {
        shared.owe();
        Self { keep_alive: KeepAlive::new(shared) }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.keep_alive.shared.settle();
    }
}

impl KeepAlive {
    pub(crate) fn new(shared: Arc<ActorShared>) -> Self {
        shared.engage();
        Self { shared }
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.shared.disengage();
    }
}
