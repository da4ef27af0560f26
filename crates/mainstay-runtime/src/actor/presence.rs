use std::sync::Arc;

use crate::actor::site::Site;

/// An actor in memory, counted as long as it is there.
pub(crate) struct Active<T> {
    // In this order, because an actor is in memory until it has been dropped.
    pub(crate) actor: T,
    pub(crate) presence: Presence,
}

impl<T> Active<T> {
    pub(crate) fn new(actor: T, site: &Arc<Site>) -> Self {
        Self { actor, presence: Presence::new(site.clone()) }
    }
}

/// Who has an actor in memory: one alone, or one of several. An actor stays with the first until somebody shares it, and with
/// the second from then on.
pub(crate) enum Possession<T> {
    Alone(Box<Active<T>>),
    Shared(Arc<Active<T>>),
}

impl<T> Possession<T> {
    /// The actor, to look at.
    #[inline]
    pub(crate) fn active(&self) -> &Active<T> {
        match self {
            Self::Alone(active) => active,
            Self::Shared(active) => active,
        }
    }

    /// The actor, to change; `None` if others have it as well.
    #[inline]
    pub(crate) fn active_mut(&mut self) -> Option<&mut Active<T>> {
        match self {
            Self::Alone(active) => Some(active),
            Self::Shared(active) => Arc::get_mut(active),
        }
    }

    /// For two.
    pub(crate) fn share(self) -> (Self, Self) {
        let active = match self {
            Self::Alone(active) => Arc::from(active),
            Self::Shared(active) => active,
        };
        (Self::Shared(active.clone()), Self::Shared(active))
    }

    /// The actor; `None` if others have it as well.
    pub(crate) fn into_active(self) -> Option<Active<T>> {
        match self {
            Self::Alone(active) => Some(*active),
            Self::Shared(active) => Arc::into_inner(active),
        }
    }
}

/// That an actor is in memory: it counts for its hall, and for the limits of its type.
pub(crate) struct Presence {
    site: Arc<Site>,
}

impl Presence {
    fn new(site: Arc<Site>) -> Self {
        site.hall.entered();
        site.hall.ledger.entered();
        Self { site }
    }

    /// Whose it is.
    pub(crate) fn site(&self) -> &Arc<Site> {
        &self.site
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.site.unload();
        self.site.hall.left();
        self.site.hall.ledger.left();
    }
}
