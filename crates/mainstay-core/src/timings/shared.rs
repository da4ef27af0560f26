use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Class, SECONDS_BOUNDS, Timings, class_of, nanos};

/// [`Timings`] that many threads add to without a lock.
#[derive(Debug, Default)]
pub struct SharedTimings {
    classes: [SharedClass; SECONDS_BOUNDS.len() + 1],
}

#[derive(Debug, Default)]
struct SharedClass {
    count: AtomicU64,
    nanos: AtomicU64,
}

impl SharedTimings {
    /// Counts one.
    pub fn record(&self, duration: Duration) {
        let class = &self.classes[class_of(duration)];
        class.nanos.fetch_add(nanos(duration), Ordering::Relaxed);
        // After the sum, so that a reader does not find one without its length.
        class.count.fetch_add(1, Ordering::Release);
    }

    /// What was counted so far. What is counted meanwhile may be in it, or in the next.
    pub fn snapshot(&self) -> Timings {
        let mut timings = Timings::default();
        for (class, shared) in timings.classes.iter_mut().zip(&self.classes) {
            let count = shared.count.load(Ordering::Acquire);
            *class = Class { count, nanos: shared.nanos.load(Ordering::Relaxed) };
        }
        timings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_as_one_that_is_not_shared() {
        let (shared, mut alone) = (SharedTimings::default(), Timings::default());
        for micros in [1, 5, 6, 1_000, 70_000_000] {
            shared.record(Duration::from_micros(micros));
            alone.record(Duration::from_micros(micros));
        }
        assert_eq!(shared.snapshot(), alone);
    }
}
