use mainstay_core::timings::Timings;

use crate::call::arrival::Method;
use crate::metric::{ActorMetrics, MethodMetrics};
use crate::observe::counters::{ActorCounters, ActorTotals};
use crate::observe::method_counters::MethodTotals;

/// The totals at the last publication. The recorder gets differences, so that several nodes of one process add up.
#[derive(Default)]
pub(crate) struct PublishedTotals {
    actor: Option<(ActorMetrics, ActorTotals)>,
    methods: Vec<PublishedMethod>,
}

struct PublishedMethod {
    method: &'static Method,
    metrics: MethodMetrics,
    last: MethodTotals,
}

impl PublishedTotals {
    pub(crate) fn publish(&mut self, actor: &str, counters: &ActorCounters) {
        let (metrics, last) = self.actor.get_or_insert_with(|| (ActorMetrics::new(actor), ActorTotals::default()));
        let now = counters.totals();
        metrics.publish(&now, last);
        *last = now;
        for method in counters.methods() {
            let totals = method.totals();
            let known = self.methods.iter_mut().position(|known| std::ptr::eq(known.method, method.method));
            let at = match known {
                Some(at) => at,
                None if totals.invocations == 0 && totals.request.count() == 0 => continue,
                None => {
                    let metrics = MethodMetrics::new(actor, method.method.name());
                    self.methods.push(PublishedMethod {
                        method: method.method,
                        metrics,
                        last: MethodTotals::default(),
                    });
                    self.methods.len() - 1
                }
            };
            let known = &mut self.methods[at];
            known.metrics.publish(&totals, &known.last);
            known.last = totals;
        }
    }
}

/// Takes the last values of the gauges back, because no later publication would.
impl Drop for PublishedTotals {
    fn drop(&mut self) {
        if let Some((metrics, last)) = &self.actor {
            metrics.calls_waiting.decrement(last.waiting as f64);
            metrics.requests_outstanding.decrement(last.outstanding as f64);
            metrics.active.decrement(last.active());
        }
    }
}

impl ActorTotals {
    fn active(&self) -> f64 {
        self.activations.saturating_sub(self.deactivations) as f64
    }
}

impl ActorMetrics {
    fn publish(&self, now: &ActorTotals, last: &ActorTotals) {
        self.calls_waiting.increment((now.waiting - last.waiting) as f64);
        self.requests_outstanding.increment((now.outstanding - last.outstanding) as f64);
        self.active.increment(now.active() - last.active());
        self.mailbox_full.increment(now.mailbox_full.saturating_sub(last.mailbox_full));
        self.activations.increment(now.activations.saturating_sub(last.activations));
        self.deactivations.increment(now.deactivations.saturating_sub(last.deactivations));
        record(&self.turn_wait, &now.turn_wait, &last.turn_wait);
        record(&self.state_save, &now.state_save, &last.state_save);
        record(&self.state_load, &now.state_load, &last.state_load);
        record(&self.activation, &now.activation, &last.activation);
    }
}

impl MethodMetrics {
    fn publish(&self, now: &MethodTotals, last: &MethodTotals) {
        self.invocations.increment(now.invocations.saturating_sub(last.invocations));
        self.failures.increment(now.failures.saturating_sub(last.failures));
        self.slow_turns.increment(now.slow_turns.saturating_sub(last.slow_turns));
        record(&self.turn, &now.turn, &last.turn);
        record(&self.request, &now.request, &last.request);
    }
}

fn record(histogram: &metrics::Histogram, now: &Timings, last: &Timings) {
    for (mean, count) in now.since(last).means() {
        histogram.record_many(mean, usize::try_from(count).unwrap_or(usize::MAX));
    }
}
