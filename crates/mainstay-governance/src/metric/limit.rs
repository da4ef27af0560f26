use std::collections::BTreeSet;

use metrics::{Counter, Gauge};
use parking_lot::Mutex;

use super::{Share, describe_counters, describe_gauges};

/// Permits that were given, by limit and kind (`rate` or `concurrency`).
pub const LIMIT_GRANTED: &str = "mainstay_limit_granted_total";
/// Callers that got no permits: in time, for lack of a place in line, or because they did not wait; by limit and kind.
pub const LIMIT_REFUSED: &str = "mainstay_limit_refused_total";
/// Callers that wait for permits now, by limit and kind.
pub const LIMIT_WAITING: &str = "mainstay_limit_waiting";

/// How many limits of a node have a label of their own. All others share the label `other`.
pub const LIMITS_LABELLED_MAX: usize = 256;

/// The limits of a node that have a label of their own.
#[derive(Default)]
pub(crate) struct LimitLabels(Mutex<BTreeSet<String>>);

impl LimitLabels {
    /// The label of a limit.
    fn label(&self, name: &str) -> String {
        let mut labels = self.0.lock();
        if !labels.contains(name) && labels.len() >= LIMITS_LABELLED_MAX {
            return "other".to_owned();
        }
        labels.insert(name.to_owned());
        name.to_owned()
    }
}

/// What a limiter measures.
#[derive(Clone)]
pub(crate) struct LimitMetrics {
    granted: Counter,
    refused: Counter,
    waiting: Gauge,
}

impl LimitMetrics {
    pub(crate) fn of(kind: &'static str, name: &str, labels: Option<&LimitLabels>) -> Self {
        describe_counters(&[
            (LIMIT_GRANTED, "Permits that were given"),
            (LIMIT_REFUSED, "Callers that got no permits"),
        ]);
        describe_gauges(&[(LIMIT_WAITING, "Callers that wait for permits")]);
        let label = labels.map_or_else(|| "other".to_owned(), |labels| labels.label(name));
        let labels = || [("limit", label.clone()), ("kind", kind.to_owned())];
        Self {
            granted: metrics::counter!(LIMIT_GRANTED, &labels()),
            refused: metrics::counter!(LIMIT_REFUSED, &labels()),
            waiting: metrics::gauge!(LIMIT_WAITING, &labels()),
        }
    }

    /// Counts a caller as one who waits until what is returned is dropped.
    pub(crate) fn wait(&self) -> Share {
        let mut share = Share::of(self.waiting.clone());
        share.set(1);
        share
    }

    /// Counts what became of a caller who wanted so many permits.
    pub(crate) fn count(&self, permits: u64, is_granted: bool) {
        match is_granted {
            true => self.granted.increment(permits),
            false => self.refused.increment(1),
        }
    }
}

#[test]
fn labels_are_bounded() {
    let labels = LimitLabels::default();
    for number in 0..LIMITS_LABELLED_MAX {
        assert_eq!(labels.label(&number.to_string()), number.to_string());
    }
    assert_eq!((labels.label("one more"), labels.label("7")), ("other".to_owned(), "7".to_owned()));
}
