use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use mainstay_core::time::{self, Instant};
use mainstay_core::timings::{SharedTimings, Timings};
use parking_lot::Mutex;

use crate::call::arrival::Method;
use crate::metric;
use crate::observe::method_counters::MethodCounters;
use crate::observe::published_totals::PublishedTotals;
use crate::observe::stripes::Stripes;
use crate::observe::throttle::Throttle;

/// The bound on methods of a type with counters of their own, timers and the like included. The other methods are counted
/// together, as the method `other`.
const METHODS_MAX: usize = 128;

/// The bound on probes of the hash table for a method.
const PROBES_MAX: usize = 16;

static OTHER: Method = Method::new("Actor", "other");

/// The counters of one actor type on this node.
pub(crate) struct ActorCounters {
    /// Whether durations are measured: true while the process has a recorder.
    is_measured: AtomicBool,
    methods: [OnceLock<Box<MethodCounters>>; METHODS_MAX],
    others: MethodCounters,
    stripes: Stripes<ActorStripe>,
    pub(crate) warnings: Warnings,
    published: Mutex<PublishedTotals>,
}

#[derive(Default)]
pub(crate) struct ActorStripe {
    /// One thread may increment and another decrement: only the sum over all stripes is meaningful.
    waiting: AtomicI64,
    outstanding: AtomicI64,
    mailbox_full: AtomicU64,
    activations: AtomicU64,
    deactivations: AtomicU64,
    pub(crate) turn_wait: SharedTimings,
    pub(crate) state_save: SharedTimings,
    pub(crate) state_load: SharedTimings,
    pub(crate) activation: SharedTimings,
}

/// The sums of all threads.
#[derive(Default, Clone)]
pub(crate) struct ActorTotals {
    pub(crate) waiting: i64,
    pub(crate) outstanding: i64,
    pub(crate) mailbox_full: u64,
    pub(crate) activations: u64,
    pub(crate) deactivations: u64,
    pub(crate) turn_wait: Timings,
    pub(crate) state_save: Timings,
    pub(crate) state_load: Timings,
    pub(crate) activation: Timings,
}

/// The rate limits of the warnings about actors of the type, one per kind of warning.
#[derive(Default)]
pub(crate) struct Warnings {
    pub(crate) slow_turn: Throttle,
    pub(crate) mailbox_full: Throttle,
    pub(crate) failed_commit: Throttle,
    pub(crate) failed_activation: Throttle,
}

impl fmt::Debug for ActorCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorCounters").finish_non_exhaustive()
    }
}

impl Default for ActorCounters {
    fn default() -> Self {
        Self {
            is_measured: AtomicBool::new(false),
            methods: std::array::from_fn(|_| OnceLock::new()),
            others: MethodCounters::new(&OTHER),
            stripes: Stripes::default(),
            warnings: Warnings::default(),
            published: Mutex::default(),
        }
    }
}

impl ActorCounters {
    /// The counters of a method.
    #[inline]
    pub(crate) fn method(&self, method: &'static Method) -> &MethodCounters {
        // Each method is one static, and so its address is its key: a hash table with open addressing.
        let place = (std::ptr::from_ref(method).addr() / align_of::<Method>()).wrapping_mul(0x9e37_79b9) >> 7;
        match self.methods[place % METHODS_MAX].get() {
            Some(known) if std::ptr::eq(known.method, method) => known,
            _ => self.find_method(method, place),
        }
    }

    /// The counters of a method that is called for the first time, or that collides with another one.
    #[cold]
    fn find_method(&self, method: &'static Method, place: usize) -> &MethodCounters {
        for probe in 0..PROBES_MAX {
            let slot = &self.methods[place.wrapping_add(probe) % METHODS_MAX];
            let known = slot.get_or_init(|| Box::new(MethodCounters::new(method)));
            if std::ptr::eq(known.method, method) {
                return known;
            }
        }
        &self.others
    }

    /// All methods that were called.
    pub(crate) fn methods(&self) -> impl Iterator<Item = &MethodCounters> {
        self.methods.iter().filter_map(|slot| slot.get().map(|known| &**known)).chain([&self.others])
    }

    /// The stripe of this thread.
    #[inline]
    pub(crate) fn own(&self) -> &ActorStripe {
        self.stripes.own()
    }

    /// The current time, if durations are measured. For rare events, which are all measured.
    pub(crate) fn clock(&self) -> Option<Instant> {
        self.is_measured.load(Ordering::Relaxed).then(time::now)
    }

    /// The arrival time of a call, if the call is in the sample that is measured.
    #[inline]
    pub(crate) fn arrival(&self, method: &'static Method) -> Option<Instant> {
        if self.is_measured.load(Ordering::Relaxed) && self.method(method).measures() {
            return Some(time::now());
        }
        None
    }

    /// Counts a call that enters or leaves a mailbox.
    pub(crate) fn waits(&self, change: i64) {
        self.own().waiting.fetch_add(change, Ordering::Relaxed);
    }

    /// Counts a call that begins or ends waiting for its reply.
    pub(crate) fn request_changed(&self, change: i64) {
        self.own().outstanding.fetch_add(change, Ordering::Relaxed);
    }

    /// Counts a call that was refused because the mailbox was full.
    pub(crate) fn refused(&self) {
        self.own().mailbox_full.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an activation.
    pub(crate) fn entered(&self) {
        self.own().activations.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a deactivation.
    pub(crate) fn left(&self) {
        self.own().deactivations.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn totals(&self) -> ActorTotals {
        let mut totals = ActorTotals::default();
        for stripe in self.stripes.iter() {
            totals.waiting += stripe.waiting.load(Ordering::Relaxed);
            totals.outstanding += stripe.outstanding.load(Ordering::Relaxed);
            totals.mailbox_full += stripe.mailbox_full.load(Ordering::Relaxed);
            // Read before the activations, so that the sum never has more deactivations than activations.
            totals.deactivations += stripe.deactivations.load(Ordering::Acquire);
            totals.turn_wait.merge(&stripe.turn_wait.snapshot());
            totals.state_save.merge(&stripe.state_save.snapshot());
            totals.state_load.merge(&stripe.state_load.snapshot());
            totals.activation.merge(&stripe.activation.snapshot());
        }
        totals.activations = self.stripes.iter().map(|stripe| stripe.activations.load(Ordering::Relaxed)).sum();
        totals
    }

    /// Publishes the differences since the last call to the recorder of the process, if there is one.
    pub(crate) fn publish(&self, actor: &str) {
        let is_recorded = metric::is_recorded();
        if is_recorded {
            self.published.lock().publish(actor, self);
        }
        self.methods().for_each(MethodCounters::renew);
        self.is_measured.store(is_recorded, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ADD: Method = Method::new("Counter", "add");
    static GET: Method = Method::new("Counter", "get");

    #[test]
    fn each_method_has_its_own_counters() {
        let counters = ActorCounters::default();
        counters.method(&ADD).invoked();
        counters.method(&GET).invoked();
        counters.method(&ADD).invoked();
        assert_eq!(counters.method(&ADD).totals().invocations, 2);
        assert_eq!(counters.method(&GET).totals().invocations, 1);
        assert_eq!(counters.methods().map(|method| method.totals().invocations).sum::<u64>(), 3);
    }

    #[test]
    fn methods_beyond_the_limit_are_counted_together() {
        let counters = ActorCounters::default();
        let methods: &'static [Method] =
            Box::leak((0..2 * METHODS_MAX).map(|_| Method::new("Wide", "method")).collect());
        for method in methods {
            counters.method(method).invoked();
        }
        let known = counters.methods().count();
        assert!(known <= METHODS_MAX + 1, "{known}");
        assert!(counters.others.totals().invocations > 0);
        assert_eq!(counters.methods().map(|method| method.totals().invocations).sum::<u64>(), methods.len() as u64);
    }

    #[test]
    fn only_a_sample_of_calls_is_measured_and_none_without_a_recorder() {
        let counters = ActorCounters::default();
        assert!(counters.arrival(&ADD).is_none() && counters.clock().is_none());
        counters.is_measured.store(true, Ordering::Relaxed);
        let measured = (0..2000).filter(|_| counters.arrival(&ADD).is_some()).count();
        assert_eq!(measured as i64, crate::observe::method_counters::MEASURED_MAX);
        counters.method(&ADD).renew();
        assert!(counters.arrival(&ADD).is_some());
    }
}
