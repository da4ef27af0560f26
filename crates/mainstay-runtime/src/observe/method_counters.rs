use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use mainstay_core::time::Duration;
use mainstay_core::timings::{SharedTimings, Timings};

use crate::call::arrival::Method;
use crate::observe::stripes::Stripes;

/// The bound on measured calls of a method per stripe between two publications, which are about a second apart. Further calls
/// are only counted, because reading the clock takes as long as a short call.
pub(crate) const MEASURED_MAX: i64 = 1024;

/// The counters of a method of an actor type.
pub(crate) struct MethodCounters {
    pub(crate) method: &'static Method,
    stripes: Stripes<MethodStripe>,
}

#[derive(Default)]
struct MethodStripe {
    invocations: AtomicU64,
    failures: AtomicU64,
    slow_turns: AtomicU64,
    /// The calls that were measured since the last publication.
    measured: AtomicI64,
    turn: SharedTimings,
    request: SharedTimings,
}

/// The sums of all threads.
#[derive(Default, Clone)]
pub(crate) struct MethodTotals {
    pub(crate) invocations: u64,
    pub(crate) failures: u64,
    pub(crate) slow_turns: u64,
    pub(crate) turn: Timings,
    pub(crate) request: Timings,
}

impl MethodCounters {
    pub(crate) fn new(method: &'static Method) -> Self {
        Self { method, stripes: Stripes::default() }
    }

    #[inline]
    pub(crate) fn invoked(&self) {
        self.stripes.count(|stripe| &stripe.invocations);
    }

    pub(crate) fn failed(&self) {
        self.stripes.own().failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn was_slow(&self) {
        self.stripes.own().slow_turns.fetch_add(1, Ordering::Relaxed);
    }

    /// True if another call may be measured.
    pub(crate) fn measures(&self) -> bool {
        let measured = &self.stripes.own().measured;
        measured.load(Ordering::Relaxed) < MEASURED_MAX && measured.fetch_add(1, Ordering::Relaxed) < MEASURED_MAX
    }

    pub(crate) fn turn_took(&self, duration: Duration) {
        self.stripes.own().turn.record(duration);
    }

    pub(crate) fn request_took(&self, duration: Duration) {
        self.stripes.own().request.record(duration);
    }

    /// Resets the budget of measured calls.
    pub(crate) fn renew(&self) {
        self.stripes.iter().for_each(|stripe| stripe.measured.store(0, Ordering::Relaxed));
    }

    pub(crate) fn totals(&self) -> MethodTotals {
        let mut totals = MethodTotals::default();
        for stripe in self.stripes.iter() {
            totals.invocations += stripe.invocations.load(Ordering::Relaxed);
            totals.failures += stripe.failures.load(Ordering::Relaxed);
            totals.slow_turns += stripe.slow_turns.load(Ordering::Relaxed);
            totals.turn.merge(&stripe.turn.snapshot());
            totals.request.merge(&stripe.request.snapshot());
        }
        totals
    }
}
