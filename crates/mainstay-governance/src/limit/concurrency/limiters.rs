use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::limiter::LimiterCore;
use crate::metric::LimitLabels;

/// The shares of one node, by the names of their limits: two that were opened by one name would be two processes to the actor,
/// of which one is given what the other has not had the time to renew. [`serve`](crate::limit::serve) provides it.
#[derive(Default)]
pub(in super::super) struct Limiters {
    by_name: Mutex<BTreeMap<String, Arc<LimiterCore>>>,
    /// Of limits of either kind.
    labels: LimitLabels,
}

impl fmt::Debug for Limiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Limiters")
    }
}

impl Limiters {
    pub(in super::super) fn labels(&self) -> &LimitLabels {
        &self.labels
    }

    /// The one of a name, which is made if there is none; how it is used from now on; and whether it is new.
    pub(super) fn one<U>(
        &self,
        name: &str,
        make: impl FnOnce() -> Arc<LimiterCore>,
        use_it: impl FnOnce(&Arc<LimiterCore>) -> U,
    ) -> (Arc<LimiterCore>, U, bool) {
        let mut by_name = self.by_name.lock();
        if let Some(known) = by_name.get(name) {
            return (known.clone(), use_it(known), false);
        }
        let shared = make();
        by_name.insert(name.to_owned(), shared.clone());
        (shared.clone(), use_it(&shared), true)
    }

    /// Forgets one if nobody uses it and nothing of it is out. True if so.
    pub(super) fn forget_if_done(&self, name: &str, shared: &LimiterCore) -> bool {
        // Locked before it is asked: whoever opens it by its name now does so before or after.
        let mut by_name = self.by_name.lock();
        let is_done = shared.is_done();
        if is_done {
            by_name.remove(name);
        }
        is_done
    }

    /// Forgets the one of a name, which does not work any more.
    pub(super) fn forget(&self, name: &str) {
        self.by_name.lock().remove(name);
    }
}
