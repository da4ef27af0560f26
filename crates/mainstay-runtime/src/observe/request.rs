use std::sync::Arc;

use mainstay_core::time::{self, Instant};

use crate::actor::site::Site;
use crate::call::arrival::Method;

/// A call to an actor that has not been answered at once, until it is.
pub(crate) struct Request {
    site: Arc<Site>,
    method: &'static Method,
    arrived: Option<Instant>,
}

impl Request {
    pub(crate) fn new(site: &Arc<Site>, method: &'static Method, arrived: Option<Instant>) -> Self {
        site.hall.ledger.is_owed(1);
        Self { site: site.clone(), method, arrived }
    }

    /// It is answered.
    #[inline]
    pub(crate) fn answered(self) {
        answered(&self.site, self.method, self.arrived);
    }
}

/// Also if nobody waits for the answer any more.
impl Drop for Request {
    fn drop(&mut self) {
        self.site.hall.ledger.is_owed(-1);
    }
}

/// Measures a call that is answered, if it is one of those that are.
#[inline]
pub(crate) fn answered(site: &Site, method: &'static Method, arrived: Option<Instant>) {
    if let Some(arrived) = arrived {
        let took = time::now().saturating_duration_since(arrived);
        site.hall.ledger.method(method).request_took(took);
    }
}
