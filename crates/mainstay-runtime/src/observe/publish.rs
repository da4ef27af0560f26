use mainstay_core::timings::Timings;

use crate::call::arrival::Method;
use crate::metric::{ActorMetrics, MethodMetrics};
use crate::observe::ledger::{ActorTotals, Ledger};
use crate::observe::method::MethodTotals;

/// What the recorder of the process has been told: differences are, so that the nodes of one process add up.
#[derive(Default)]
pub(crate) struct Published {
    actor: Option<(ActorMetrics, ActorTotals)>,
    methods: Vec<PublishedMethod>,
}

struct PublishedMethod {
    method: &'static Method,
    metrics: MethodMetrics,
    last: MethodTotals,
}

impl Published {
    pub(crate) fn publish(&mut self, actor: &str, ledger: &Ledger) {
        let (metrics, last) = self.actor.get_or_insert_with(|| (ActorMetrics::new(actor), ActorTotals::default()));
        let now = ledger.totals();
        metrics.tell(&now, last);
        *last = now;
        for method in ledger.methods() {
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
            known.metrics.tell(&totals, &known.last);
            known.last = totals;
        }
    }
}

/// What is now is no more, when nobody is left who would say so.
impl Drop for Published {
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
    fn tell(&self, now: &ActorTotals, last: &ActorTotals) {
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
    fn tell(&self, now: &MethodTotals, last: &MethodTotals) {
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
