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
