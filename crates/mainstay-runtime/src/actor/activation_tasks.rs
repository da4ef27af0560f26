use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use mainstay_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::actor::continuation::CONTINUATIONS_PER_ACTOR_MAX;
use crate::actor::timer::TIMERS_PER_ACTOR_MAX;

/// What an actor has started in its activation, timers and continuations. It ends when this is dropped, which is when the
/// object of the actor is: it was deactivated, or reset after a panic or a commit that failed.
///
/// Most actors have nothing of it, and pay for one pointer.
#[derive(Default)]
pub(crate) struct ActivationTasks {
    plans: OnceLock<Arc<TaskTable>>,
}

impl ActivationTasks {
    pub(crate) fn plans(&self) -> &Arc<TaskTable> {
        self.plans.get_or_init(Arc::default)
    }

    /// True if there are timers that have not ended.
    pub(crate) fn has_timers(&self) -> bool {
        self.plans.get().is_some_and(|plans| !plans.inner.lock().timers.is_empty())
    }

    /// The plans, if there ever were any.
    pub(crate) fn known_plans(&self) -> Option<&Arc<TaskTable>> {
        self.plans.get()
    }
}

impl Drop for ActivationTasks {
    fn drop(&mut self) {
        if let Some(plans) = self.plans.get() {
            plans.end_all();
        }
    }
}

/// The timers and continuations of an activation that have not ended.
#[derive(Default)]
pub(crate) struct TaskTable {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    timers: BTreeMap<Arc<str>, Arc<Ending>>,
    continuations: BTreeMap<u64, Arc<Ending>>,
    /// The number of the next continuation.
    next: u64,
}

impl TaskTable {
    /// Adds a timer. One of the same name ends.
    ///
    /// # Errors
    /// `Overloaded` if there are too many.
    pub(crate) fn add_timer(&self, name: &Arc<str>, ending: &Arc<Ending>) -> Result<()> {
        let mut inner = self.inner.lock();
        if inner.timers.len() >= TIMERS_PER_ACTOR_MAX && !inner.timers.contains_key(name) {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!("the actor has TIMERS_PER_ACTOR_MAX = {TIMERS_PER_ACTOR_MAX} timers already: cancel some"),
            ));
        }
        let replaced = inner.timers.insert(name.clone(), ending.clone());
        drop(inner);
        replaced.inspect(|earlier| earlier.end());
        Ok(())
    }

    /// Ends a timer. False if there is none of that name.
    pub(crate) fn end_timer(&self, name: &str) -> bool {
        let removed = self.inner.lock().timers.remove(name);
        removed.inspect(|timer| timer.end()).is_some()
    }

    /// Forgets a timer, unless its name belongs to another one by now. False if so.
    pub(crate) fn forget_timer(&self, name: &str, ending: &Arc<Ending>) -> bool {
        let mut inner = self.inner.lock();
        let is_there = inner.timers.get(name).is_some_and(|known| Arc::ptr_eq(known, ending));
        if is_there {
            inner.timers.remove(name);
        }
        is_there
    }

    /// Adds a continuation and returns its number.
    ///
    /// # Errors
    /// `Overloaded` if there are too many.
    pub(crate) fn add_continuation(&self, ending: &Arc<Ending>) -> Result<u64> {
        let mut inner = self.inner.lock();
        if inner.continuations.len() >= CONTINUATIONS_PER_ACTOR_MAX {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "the actor waits for CONTINUATIONS_PER_ACTOR_MAX = {CONTINUATIONS_PER_ACTOR_MAX} continuations \
                     already: refuse what you cannot begin"
                ),
            ));
        }
        let number = inner.next;
        inner.next += 1;
        inner.continuations.insert(number, ending.clone());
        Ok(number)
    }

    pub(crate) fn forget_continuation(&self, number: u64) {
        self.inner.lock().continuations.remove(&number);
    }

    fn end_all(&self) {
        let Inner { timers, continuations, .. } = std::mem::take(&mut *self.inner.lock());
        timers.into_values().chain(continuations.into_values()).for_each(|plan| plan.end());
    }
}

/// Tells the one task that it is shared with to end.
#[derive(Default)]
pub(crate) struct Ending {
    is_over: AtomicBool,
    told: Notify,
}

impl Ending {
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        // It is kept for the task if that does not wait now.
        self.told.notify_one();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Waits for the end.
    pub(crate) async fn ended(&self) {
        while !self.is_over() {
            self.told.notified().await;
        }
    }
}
