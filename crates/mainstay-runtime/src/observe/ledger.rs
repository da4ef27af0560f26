use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use mainstay_core::time::{self, Instant};
use mainstay_core::timings::{SharedTimings, Timings};
use parking_lot::Mutex;

use crate::call::arrival::Method;
use crate::metric;
use crate::observe::method::MethodLedger;
use crate::observe::publish::Published;
use crate::observe::stripes::Stripes;
use crate::observe::throttle::Throttle;

/// How many methods of a type have places of their own, with those that an actor does by itself. The rest is counted
/// together, as the method `other`.
const METHODS_MAX: usize = 128;

/// How many places are looked at for a method.
const PROBES_MAX: usize = 16;

static OTHER: Method = Method::new("Actor", "other");

/// What is counted of the actors of one type on this node.
pub(crate) struct Ledger {
    /// Whether somebody is told how long things take.
    is_measured: AtomicBool,
    methods: [OnceLock<Box<MethodLedger>>; METHODS_MAX],
    others: MethodLedger,
    stripes: Stripes<Stripe>,
    pub(crate) warnings: Warnings,
    published: Mutex<Published>,
}

#[derive(Default)]
pub(crate) struct Stripe {
    /// Grows at one thread and may shrink at another: only the sum means something.
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

/// What is said of actors of the type, by what it is about.
#[derive(Default)]
pub(crate) struct Warnings {
    pub(crate) slow_turn: Throttle,
    pub(crate) mailbox_full: Throttle,
    pub(crate) failed_commit: Throttle,
    pub(crate) failed_activation: Throttle,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            is_measured: AtomicBool::new(false),
            methods: std::array::from_fn(|_| OnceLock::new()),
            others: MethodLedger::new(&OTHER),
            stripes: Stripes::default(),
            warnings: Warnings::default(),
            published: Mutex::default(),
        }
    }
}

impl Ledger {
    /// The counts of a method.
    #[inline]
    pub(crate) fn method(&self, method: &'static Method) -> &MethodLedger {
        // A method is known by where it is: there is one static for each.
        let place = (std::ptr::from_ref(method).addr() / align_of::<Method>()).wrapping_mul(0x9e37_79b9) >> 7;
        match self.methods[place % METHODS_MAX].get() {
            Some(known) if std::ptr::eq(known.method, method) => known,
            _ => self.find_method(method, place),
        }
    }

    /// The counts of a method that is called for the first time, or whose place another one had first.
    #[cold]
    fn find_method(&self, method: &'static Method, place: usize) -> &MethodLedger {
        for probe in 0..PROBES_MAX {
            let slot = &self.methods[place.wrapping_add(probe) % METHODS_MAX];
            let known = slot.get_or_init(|| Box::new(MethodLedger::new(method)));
            if std::ptr::eq(known.method, method) {
                return known;
            }
        }
        &self.others
    }

    /// All methods that were called.
    pub(crate) fn methods(&self) -> impl Iterator<Item = &MethodLedger> {
        self.methods.iter().filter_map(|slot| slot.get().map(|known| &**known)).chain([&self.others])
    }

    /// The counts of this thread.
    #[inline]
    pub(crate) fn own(&self) -> &Stripe {
        self.stripes.own()
    }

    /// The moment, if how long something rare takes is to be measured from now on.
    pub(crate) fn clock(&self) -> Option<Instant> {
        self.is_measured.load(Ordering::Relaxed).then(time::now)
    }

    /// The moment at which a call arrives, if it is to be measured.
    #[inline]
    pub(crate) fn arrival(&self, method: &'static Method) -> Option<Instant> {
        if self.is_measured.load(Ordering::Relaxed) && self.method(method).measures() {
            return Some(time::now());
        }
        None
    }

    /// A call waits for its turn, or does so no more.
    pub(crate) fn waits(&self, change: i64) {
        self.own().waiting.fetch_add(change, Ordering::Relaxed);
    }

    /// A call waits for its answer, or does so no more.
    pub(crate) fn is_owed(&self, change: i64) {
        self.own().outstanding.fetch_add(change, Ordering::Relaxed);
    }

    /// A call was refused, because too many wait.
    pub(crate) fn refused(&self) {
        self.own().mailbox_full.fetch_add(1, Ordering::Relaxed);
    }

    /// An actor has come into memory.
    pub(crate) fn entered(&self) {
        self.own().activations.fetch_add(1, Ordering::Relaxed);
    }

    /// An actor has left memory.
    pub(crate) fn left(&self) {
        self.own().deactivations.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn totals(&self) -> ActorTotals {
        let mut totals = ActorTotals::default();
        for stripe in self.stripes.iter() {
            totals.waiting += stripe.waiting.load(Ordering::Relaxed);
            totals.outstanding += stripe.outstanding.load(Ordering::Relaxed);
            totals.mailbox_full += stripe.mailbox_full.load(Ordering::Relaxed);
            // Before those that have come, so that there are never more of them.
            totals.deactivations += stripe.deactivations.load(Ordering::Acquire);
            totals.turn_wait.merge(&stripe.turn_wait.snapshot());
            totals.state_save.merge(&stripe.state_save.snapshot());
            totals.state_load.merge(&stripe.state_load.snapshot());
            totals.activation.merge(&stripe.activation.snapshot());
        }
        totals.activations = self.stripes.iter().map(|stripe| stripe.activations.load(Ordering::Relaxed)).sum();
        totals
    }

    /// Hands what has come since the last time to the recorder of the process, if it has one.
    pub(crate) fn publish(&self, actor: &str) {
        let is_recorded = metric::is_recorded();
        if is_recorded {
            self.published.lock().publish(actor, self);
        }
        self.methods().for_each(MethodLedger::renew);
        self.is_measured.store(is_recorded, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ADD: Method = Method::new("Counter", "add");
    static GET: Method = Method::new("Counter", "get");

    #[test]
    fn methods_are_kept_apart_and_found_again() {
        let ledger = Ledger::default();
        ledger.method(&ADD).invoked();
        ledger.method(&GET).invoked();
        ledger.method(&ADD).invoked();
        assert_eq!(ledger.method(&ADD).totals().invocations, 2);
        assert_eq!(ledger.method(&GET).totals().invocations, 1);
        assert_eq!(ledger.methods().map(|method| method.totals().invocations).sum::<u64>(), 3);
    }

    #[test]
    fn methods_beyond_the_limit_are_counted_together() {
        let ledger = Ledger::default();
        let methods: &'static [Method] =
            Box::leak((0..2 * METHODS_MAX).map(|_| Method::new("Wide", "method")).collect());
        for method in methods {
            ledger.method(method).invoked();
        }
        let known = ledger.methods().count();
        assert!(known <= METHODS_MAX + 1, "{known}");
        assert!(ledger.others.totals().invocations > 0);
        assert_eq!(ledger.methods().map(|method| method.totals().invocations).sum::<u64>(), methods.len() as u64);
    }

    #[test]
    fn without_a_recorder_no_clock_is_read_and_with_one_not_for_every_call() {
        let ledger = Ledger::default();
        assert!(ledger.arrival(&ADD).is_none() && ledger.clock().is_none());
        ledger.is_measured.store(true, Ordering::Relaxed);
        let measured = (0..2000).filter(|_| ledger.arrival(&ADD).is_some()).count();
        assert_eq!(measured as i64, crate::observe::method::MEASURED_MAX);
        ledger.method(&ADD).renew();
        assert!(ledger.arrival(&ADD).is_some());
    }
}
