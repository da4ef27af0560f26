use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mainstay_core::time::{self, Instant};
use mainstay_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::lease::{LeaseAttempt, LeaseWaiter, WorkerLease};
use super::options::PoolOptions;
use crate::call::chain::{HeldResource, Link};
use crate::call::turn::panic_text;

/// The instances of a worker on this node. Each call leases one instance exclusively: an idle one, or a new one while there are
/// fewer than `max`, or the next one that becomes free, first come, first served.
///
/// Invariant: a call is queued only while `max` instances exist and none of them is idle. So a new call never overtakes a
/// queued one.
pub(super) struct InstancePool<T> {
    name: &'static str,
    options: PoolOptions,
    /// The synchronous constructor; `None` if construction is async and is part of the call that needs the instance.
    make: Option<Box<dyn Fn() -> T + Send + Sync>>,
    state: Mutex<PoolState<T>>,
    /// The calls under way that have made calls themselves, for deadlock detection.
    callers: Mutex<Vec<Arc<Link>>>,
    /// Wakes the reaper.
    changed: Notify,
}

struct PoolState<T> {
    /// Idle instances, the longest idle in front. Leases take from the back (LIFO), so that surplus instances at the front expire.
    idle: VecDeque<IdleInstance<T>>,
    /// The instances that are idle, leased, or promised to a lease that will construct one.
    instances: usize,
    /// Queued calls, in the order of arrival.
    waiting: BTreeMap<u64, oneshot::Sender<Option<T>>>,
    next: u64,
    /// True while there is no idle instance above the minimum, and so the reaper has no deadline.
    is_reaper_asleep: bool,
    is_closed: bool,
}

struct IdleInstance<T> {
    instance: T,
    since: Instant,
}

/// The numbers of instances and of queued calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PoolCounts {
    pub(super) idle: usize,
    pub(super) working: usize,
    pub(super) waiting: usize,
}

impl<T> fmt::Debug for InstancePool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InstancePool({}, {:?})", self.name, self.counts())
    }
}

impl<T> fmt::Display for InstancePool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.name)
    }
}

impl<T: Send> HeldResource for InstancePool<T> {
    fn callers(&self) -> Option<&Mutex<Vec<Arc<Link>>>> {
        Some(&self.callers)
    }

    fn remedy(&self) -> String {
        let max = self.options.max;
        format!(
            "all of its {max} instances (`max`) are held by calls that wait for this one: raise `max`, or let these calls end \
             without waiting"
        )
    }

    fn capacity(&self) -> Option<usize> {
        Some(self.options.max)
    }
}

impl<T: Send + 'static> InstancePool<T> {
    /// A pool with its first instances. [`run_reaper`](InstancePool::run_reaper) has to run beside it.
    ///
    /// # Errors
    /// `Invalid` if the options are not allowed, `Fatal` if the constructor panics.
    pub(super) fn start(
        name: &'static str,
        options: PoolOptions,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) -> Result<Arc<Self>> {
        Self::start_with(name, options, Some(Box::new(make)))
    }

    /// A pool without instances, which the calls construct.
    ///
    /// # Errors
    /// `Invalid` if the options are not allowed.
    pub(super) fn start_empty(name: &'static str, options: PoolOptions) -> Result<Arc<Self>> {
        Self::start_with(name, options, None)
    }

    fn start_with(
        name: &'static str,
        options: PoolOptions,
        make: Option<Box<dyn Fn() -> T + Send + Sync>>,
    ) -> Result<Arc<Self>> {
        options.check(name)?;
        // Unwind safe: a panic drops the instances that were constructed so far.
        let made = || make.iter().flat_map(|make| (0..options.min).map(|_| make())).collect::<Vec<_>>();
        let first = catch_unwind(AssertUnwindSafe(made));
        let first = first.map_err(|panic| {
            Error::fatal(format!("worker {name} cannot be started: its constructor panicked: {}", panic_text(&*panic)))
        })?;
        let since = time::now();
        let state = PoolState {
            instances: first.len(),
            idle: first.into_iter().map(|instance| IdleInstance { instance, since }).collect(),
            waiting: BTreeMap::new(),
            next: 0,
            is_reaper_asleep: false,
            is_closed: false,
        };
        let (state, callers) = (Mutex::new(state), Mutex::default());
        Ok(Arc::new(Self { name, options, make, state, callers, changed: Notify::new() }))
    }

    /// A lease for one call, or a place in the queue.
    ///
    /// # Errors
    /// `Overloaded` if the queue is full, `Fatal` if the pool is closed.
    pub(super) fn acquire(self: &Arc<Self>) -> Result<LeaseAttempt<T>> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(self.gone());
        }
        if let Some(IdleInstance { instance, .. }) = state.idle.pop_back() {
            return Ok(LeaseAttempt::Leased(WorkerLease::new(self.clone(), Some(instance))));
        }
        if state.instances < self.options.max {
            state.instances += 1;
            return Ok(LeaseAttempt::Leased(WorkerLease::new(self.clone(), None)));
        }
        if state.waiting.len() >= self.options.waiting_max {
            return Err(self.overloaded());
        }
        let (sender, receiver) = oneshot::channel();
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, sender);
        Ok(LeaseAttempt::Queued(LeaseWaiter::new(self.clone(), number, receiver)))
    }

    /// Constructs an instance for a lease without one; `None` if construction is async.
    pub(super) fn make(&self) -> Option<T> {
        self.make.as_ref().map(|make| make())
    }

    /// Ends a lease: hands it to the first queued call, or parks its instance. A lease without an instance lets the next
    /// call construct one.
    pub(super) fn release(&self, mut instance: Option<T>) {
        loop {
            let mut state = self.state.lock();
            let Some((_, waiting)) = state.waiting.pop_first() else {
                let unwanted = self.park(&mut state, instance);
                // The instance's `Drop` must not run under the lock.
                drop(state);
                return self.discard(unwanted);
            };
            drop(state);
            match waiting.send(instance) {
                Ok(()) => return,
                // The queued call was dropped at this moment.
                Err(returned) => instance = returned,
            }
        }
    }

    /// Parks the instance of a lease that no queued call needs. The caller has to drop what is returned.
    fn park(&self, state: &mut PoolState<T>, instance: Option<T>) -> Option<T> {
        match instance {
            Some(instance) if !state.is_closed => {
                state.idle.push_back(IdleInstance { instance, since: time::now() });
                if state.instances > self.options.min && std::mem::take(&mut state.is_reaper_asleep) {
                    self.changed.notify_one();
                }
                None
            }
            unwanted => {
                state.instances -= 1;
                unwanted
            }
        }
    }

    /// Takes a call out of the queue; false if the call has left it already.
    pub(super) fn leave(&self, number: u64) -> bool {
        self.state.lock().waiting.remove(&number).is_some()
    }

    /// Drops instances above the minimum that have been idle for `idle_time`, until the pool is closed.
    pub(super) async fn run_reaper(self: Arc<Self>) {
        loop {
            let (expired, due) = {
                let mut state = self.state.lock();
                if state.is_closed {
                    return;
                }
                self.expire(&mut state, time::now())
            };
            self.discard(expired);
            match due {
                None => self.changed.notified().await,
                Some(due) => tokio::select! {
                    () = time::sleep_until(due) => {}
                    () = self.changed.notified() => {}
                },
            }
        }
    }

    /// The expired instances, and the deadline of the next one; `None` if no instance is going to expire.
    fn expire(&self, state: &mut PoolState<T>, now: Instant) -> (Vec<T>, Option<Instant>) {
        let mut expired = Vec::new();
        while state.instances > self.options.min {
            // An idle time beyond the range of the clock never expires.
            let due = state.idle.front().and_then(|oldest| oldest.since.checked_add(self.options.idle_time));
            match due {
                Some(due) if due > now => return (expired, Some(due)),
                None => break,
                Some(_) => {
                    expired.extend(state.idle.pop_front().map(|idle| idle.instance));
                    state.instances -= 1;
                }
            }
        }
        state.is_reaper_asleep = true;
        (expired, None)
    }

    /// Refuses queued and new calls. Leased instances are dropped when their calls end.
    pub(super) fn close(&self) {
        let (idle, waiting) = {
            let mut state = self.state.lock();
            state.is_closed = true;
            state.instances -= state.idle.len();
            (std::mem::take(&mut state.idle), std::mem::take(&mut state.waiting))
        };
        self.changed.notify_one();
        drop(waiting);
        self.discard(idle.into_iter().map(|idle| idle.instance));
    }

    /// Drops instances. A panic in the `Drop` of one is caught and logged, so that the others are still dropped.
    pub(super) fn discard(&self, instances: impl IntoIterator<Item = T>) {
        for instance in instances {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(instance))) {
                tracing::error!(worker = self.name, panic = panic_text(&*panic), "dropping an instance panicked");
            }
        }
    }

    pub(super) fn gone(&self) -> Error {
        Error::fatal(format!("worker {} is gone, because its node has stopped: start the node again", self.name))
    }

    fn overloaded(&self) -> Error {
        let PoolOptions { max, waiting_max, .. } = self.options;
        Error::new(
            ErrorKind::Overloaded,
            format!(
                "worker {} has {max} instances (`max`), all leased, and {waiting_max} calls are queued already \
                 (`waiting_max`): slow down and retry, or raise these bounds",
                self.name
            ),
        )
    }
}

impl<T> InstancePool<T> {
    pub(super) fn counts(&self) -> PoolCounts {
        let state = self.state.lock();
        let idle = state.idle.len();
        PoolCounts { idle, working: state.instances - idle, waiting: state.waiting.len() }
    }
}

#[cfg(test)]
mod tests;
