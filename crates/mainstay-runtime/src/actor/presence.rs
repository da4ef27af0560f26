use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::actor::actor_shared::ActorShared;

/// An actor in memory, counted as long as it is there.
pub(crate) struct Active<T> {
    // In this order, because an actor is in memory until it has been dropped.
    pub(crate) actor: T,
    pub(crate) presence: Presence,
}

/// An active object, in the hands of who uses it. It is handed from one to the next in every turn, and so is no wider than a
/// register: a processor waits for words that it has to read right after it has written them one by one.
pub(crate) struct Object<T>(pub(super) Box<Inside<T>>);

pub(crate) struct Inside<T> {
    /// How many commits had failed when it was read.
    pub(crate) generation: u64,
    /// For the turn, which says by it whose it is, so that nothing has to be counted for that. It need not come back.
    pub(crate) lent: Option<Arc<ActorShared>>,
    possession: Possession<T>,
}

/// Who has an actor in memory: one alone, or one of several. An actor stays with the first until somebody shares it, and with
/// the second from then on.
enum Possession<T> {
    Alone(Box<Active<T>>),
    Shared(Arc<Active<T>>),
}

impl<T> Deref for Object<T> {
    type Target = Inside<T>;

    #[inline]
    fn deref(&self) -> &Inside<T> {
        &self.0
    }
}

impl<T> DerefMut for Object<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Inside<T> {
        &mut self.0
    }
}

impl<T> Object<T> {
    /// An actor that was read when so many commits had failed.
    pub(crate) fn new(actor: T, shared: &Arc<ActorShared>, generation: u64) -> Self {
        let possession = Possession::Alone(Box::new(Active { actor, presence: Presence::new(shared.clone()) }));
        Self(Box::new(Inside { generation, lent: Some(shared.clone()), possession }))
    }

    /// For two.
    pub(crate) fn share(self) -> (Self, Self) {
        let Self(mut inside) = self;
        let active = match inside.possession {
            Possession::Alone(active) => Arc::from(active),
            Possession::Shared(active) => active,
        };
        inside.possession = Possession::Shared(active.clone());
        let (generation, lent) = (inside.generation, inside.lent.take());
        let other = Inside { generation, lent, possession: Possession::Shared(active) };
        (Self(inside), Self(Box::new(other)))
    }

    /// The actor; `None` if others have it as well.
    pub(crate) fn into_active(self) -> Option<Active<T>> {
        match self.0.possession {
            Possession::Alone(active) => Some(*active),
            Possession::Shared(active) => Arc::into_inner(active),
        }
    }
}

impl<T> Inside<T> {
    /// The actor, to look at.
    #[inline]
    pub(crate) fn active(&self) -> &Active<T> {
        match &self.possession {
            Possession::Alone(active) => active,
            Possession::Shared(active) => active,
        }
    }

    /// The actor, to change; `None` if others have it as well.
    #[inline]
    pub(crate) fn active_mut(&mut self) -> Option<&mut Active<T>> {
        match &mut self.possession {
            Possession::Alone(active) => Some(active),
            Possession::Shared(active) => Arc::get_mut(active),
        }
    }
}

/// That an actor is in memory: it counts for its table, and for the limits of its type.
pub(crate) struct Presence {
    shared: Arc<ActorShared>,
}

impl Presence {
    fn new(shared: Arc<ActorShared>) -> Self {
        shared.partition.entered();
        shared.partition.counters.entered();
        Self { shared }
    }

    /// Whose it is.
    pub(crate) fn actor_shared(&self) -> &Arc<ActorShared> {
        &self.shared
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.shared.unload();
        self.shared.partition.left();
        self.shared.partition.counters.left();
    }
}
