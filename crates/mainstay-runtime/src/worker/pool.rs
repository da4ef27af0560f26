use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mainstay_core::time::{self, Instant};
use mainstay_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::options::PoolOptions;
use super::place::{Claim, Place, Waiter};
use crate::call::chain::{Line, Link};
use crate::call::turn::panic_text;

/// The instances of a worker on this node. A call has one to itself: an idle one, or a new one while there are fewer than
/// `max`, or the next one that becomes free, first come, first served.
///
/// What always holds: a call waits only while all of `max` places are taken and none of them is idle. So nobody overtakes
/// those who wait.
pub(super) struct Pool<T> {
    name: &'static str,
    options: PoolOptions,
    /// `None` if instances are made where a call needs one, because that takes time.
    make: Option<Box<dyn Fn() -> T + Send + Sync>>,
    crew: Mutex<Crew<T>>,
    /// The calls at work here that have called others.
    callers: Mutex<Vec<Arc<Link>>>,
    /// Wakes whoever tends the pool.
    stirred: Notify,
}

struct Crew<T> {
    /// Those without work, the one that has been so for longest in front. Work goes to the back, so that the others get
    /// old.
    idle: VecDeque<Idle<T>>,
    /// How many places are taken: by the idle, by those at work and by those promised to a call.
    places: usize,
    /// Calls without an instance, in the order in which they came.
    waiting: BTreeMap<u64, oneshot::Sender<Option<T>>>,
    next: u64,
    /// True while there is nothing above the minimum that could become old.
    is_untended: bool,
    is_closed: bool,
}

struct Idle<T> {
    instance: T,
    since: Instant,
}

/// How many instances a pool has, and how many calls wait for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Headcount {
    pub(super) idle: usize,
    pub(super) working: usize,
    pub(super) waiting: usize,
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({}, {:?})", self.name, self.headcount())
    }
}

impl<T> fmt::Display for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.name)
    }
}

impl<T: Send> Line for Pool<T> {
    fn callers(&self) -> Option<&Mutex<Vec<Arc<Link>>>> {
        Some(&self.callers)
    }

    fn remedy(&self) -> String {
        let places = self.options.max;
        format!(
            "all of its {places} places (`max`) are held by calls that wait for this one: raise `max`, or let them end without \
             waiting"
        )
    }

    fn places(&self) -> Option<usize> {
        Some(self.options.max)
    }
}

impl<T: Send + 'static> Pool<T> {
    /// A pool with its first instances. [`tend`](Pool::tend) is to be run beside it.
    ///
    /// # Errors
    /// `Invalid` if the options cannot be, `Fatal` if an instance panics when it is made.
    pub(super) fn start(
        name: &'static str,
        options: PoolOptions,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) -> Result<Arc<Self>> {
        Self::start_with(name, options, Some(Box::new(make)))
    }

    /// A pool without instances, which are made where a call needs one.
    ///
    /// # Errors
    /// `Invalid` if the options cannot be.
    pub(super) fn start_empty(name: &'static str, options: PoolOptions) -> Result<Arc<Self>> {
        Self::start_with(name, options, None)
    }

    fn start_with(
        name: &'static str,
        options: PoolOptions,
        make: Option<Box<dyn Fn() -> T + Send + Sync>>,
    ) -> Result<Arc<Self>> {
        options.check(name)?;
        // Nothing is left half done by a panic: what was made so far is dropped.
        let made = || make.iter().flat_map(|make| (0..options.min).map(|_| make())).collect::<Vec<_>>();
        let first = catch_unwind(AssertUnwindSafe(made));
        let first = first.map_err(|panic| {
            Error::fatal(format!("worker {name} cannot be started: making it panicked: {}", panic_text(&*panic)))
        })?;
        let since = time::now();
        let crew = Crew {
            places: first.len(),
            idle: first.into_iter().map(|instance| Idle { instance, since }).collect(),
            waiting: BTreeMap::new(),
            next: 0,
            is_untended: false,
            is_closed: false,
        };
        let (crew, callers) = (Mutex::new(crew), Mutex::default());
        Ok(Arc::new(Self { name, options, make, crew, callers, stirred: Notify::new() }))
    }

    /// A place for one call, or one in the queue.
    ///
    /// # Errors
    /// `Overloaded` if as many calls wait as may, `Fatal` if the pool is closed.
    pub(super) fn claim(self: &Arc<Self>) -> Result<Claim<T>> {
        let mut crew = self.crew.lock();
        if crew.is_closed {
            return Err(self.gone());
        }
        if let Some(Idle { instance, .. }) = crew.idle.pop_back() {
            return Ok(Claim::Place(Place::new(self.clone(), Some(instance))));
        }
        if crew.places < self.options.max {
            crew.places += 1;
            return Ok(Claim::Place(Place::new(self.clone(), None)));
        }
        if crew.waiting.len() >= self.options.waiting_max {
            return Err(self.overloaded());
        }
        let (sender, receiver) = oneshot::channel();
        let number = crew.next;
        crew.next += 1;
        crew.waiting.insert(number, sender);
        Ok(Claim::Waiter(Waiter::new(self.clone(), number, receiver)))
    }

    /// Makes an instance for a place that has none, if it is for the pool to make them.
    pub(super) fn make(&self) -> Option<T> {
        self.make.as_ref().map(|make| make())
    }

    /// Gives a place to who waits for longest, or lets its instance rest. Without an instance, the next call makes one.
    pub(super) fn hand_on(&self, mut instance: Option<T>) {
        loop {
            let mut crew = self.crew.lock();
            let Some((_, waiting)) = crew.waiting.pop_first() else {
                let unwanted = self.settle(&mut crew, instance);
                // What its `Drop` does is not done under the lock.
                drop(crew);
                return self.discard(unwanted);
            };
            drop(crew);
            match waiting.send(instance) {
                Ok(()) => return,
                // It has gone away in this moment.
                Err(returned) => instance = returned,
            }
        }
    }

    /// Puts away what nobody waits for; what it returns is to be dropped.
    fn settle(&self, crew: &mut Crew<T>, instance: Option<T>) -> Option<T> {
        match instance {
            Some(instance) if !crew.is_closed => {
                crew.idle.push_back(Idle { instance, since: time::now() });
                if crew.places > self.options.min && std::mem::take(&mut crew.is_untended) {
                    self.stirred.notify_one();
                }
                None
            }
            unwanted => {
                crew.places -= 1;
                unwanted
            }
        }
    }

    /// Takes a call out of the queue; false if it is not in there any more.
    pub(super) fn leave(&self, number: u64) -> bool {
        self.crew.lock().waiting.remove(&number).is_some()
    }

    /// Drops instances above the minimum when they have been idle for too long, until the pool is closed.
    pub(super) async fn tend(self: Arc<Self>) {
        loop {
            let (expired, due) = {
                let mut crew = self.crew.lock();
                if crew.is_closed {
                    return;
                }
                self.expire(&mut crew, time::now())
            };
            self.discard(expired);
            match due {
                None => self.stirred.notified().await,
                Some(due) => tokio::select! {
                    () = time::sleep_until(due) => {}
                    () = self.stirred.notified() => {}
                },
            }
        }
    }

    /// What has been idle for too long, and when to look again; `None` if that cannot be known yet.
    fn expire(&self, crew: &mut Crew<T>, now: Instant) -> (Vec<T>, Option<Instant>) {
        let mut expired = Vec::new();
        while crew.places > self.options.min {
            // A time that the clock cannot express does not come.
            let due = crew.idle.front().and_then(|oldest| oldest.since.checked_add(self.options.idle_time));
            match due {
                Some(due) if due > now => return (expired, Some(due)),
                None => break,
                Some(_) => {
                    expired.extend(crew.idle.pop_front().map(|idle| idle.instance));
                    crew.places -= 1;
                }
            }
        }
        crew.is_untended = true;
        (expired, None)
    }

    /// Refuses the calls that wait and those that come; the instances go when their calls have ended.
    pub(super) fn close(&self) {
        let (idle, waiting) = {
            let mut crew = self.crew.lock();
            crew.is_closed = true;
            crew.places -= crew.idle.len();
            (std::mem::take(&mut crew.idle), std::mem::take(&mut crew.waiting))
        };
        self.stirred.notify_one();
        drop(waiting);
        self.discard(idle.into_iter().map(|idle| idle.instance));
    }

    /// Drops instances. That one panics on the way is no concern of those who come after it.
    pub(super) fn discard(&self, instances: impl IntoIterator<Item = T>) {
        for instance in instances {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(instance))) {
                tracing::error!(worker = self.name, panic = panic_text(&*panic), "dropping an instance panicked");
            }
        }
    }

    pub(super) fn gone(&self) -> Error {
        Error::fatal(format!("worker {} is gone, because its node has stopped: start it again", self.name))
    }

    fn overloaded(&self) -> Error {
        let PoolOptions { max, waiting_max, .. } = self.options;
        Error::new(
            ErrorKind::Overloaded,
            format!(
                "worker {} has {max} instances (`max`), all at work, and {waiting_max} calls wait for one already \
                 (`waiting_max`): slow down and retry, or raise these bounds",
                self.name
            ),
        )
    }
}

impl<T> Pool<T> {
    pub(super) fn headcount(&self) -> Headcount {
        let crew = self.crew.lock();
        let idle = crew.idle.len();
        Headcount { idle, working: crew.places - idle, waiting: crew.waiting.len() }
    }
}

#[cfg(test)]
mod tests;
