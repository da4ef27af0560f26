use std::sync::Arc;

use crate::actor::site::Site;

/// Something that an actor has yet to see to after its turn: an answer that somebody waits for, or what it waits for itself
/// outside of its turns. An actor with such is in use.
pub(crate) struct Engagement {
    site: Arc<Site>,
}

/// That an actor owes somebody an answer, who waits for it.
pub(crate) struct Owed {
    engagement: Engagement,
}

impl Owed {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        site.owe();
        Self { engagement: Engagement::new(site) }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.engagement.site.settle();
    }
}

impl Engagement {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        site.engage();
        Self { site }
    }
}

impl Drop for Engagement {
    fn drop(&mut self) {
        self.site.disengage();
    }
}
