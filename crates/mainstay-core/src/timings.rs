//! How long things take, counted where they happen and looked at elsewhere.

mod shared;

use std::time::Duration;

pub use shared::SharedTimings;

/// The upper bounds of the classes that durations are counted in, in seconds, rising; what is longer is in a last class.
/// From a turn in memory to a call that waits for its deadline.
pub const SECONDS_BOUNDS: [f64; 21] = [
    0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
];

/// Durations by class: how many there were, and their sum. Of fixed size, whatever is recorded; adding costs a few
/// nanoseconds, so that it can be done under a lock that is held anyway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timings {
    classes: [Class; SECONDS_BOUNDS.len() + 1],
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Class {
    count: u64,
    nanos: u64,
}

impl Default for Timings {
    fn default() -> Self {
        Self { classes: [Class::default(); SECONDS_BOUNDS.len() + 1] }
    }
}

impl Timings {
    /// Counts one.
    pub fn record(&mut self, duration: Duration) {
        let class = &mut self.classes[class_of(duration)];
        class.count = class.count.saturating_add(1);
        class.nanos = class.nanos.saturating_add(nanos(duration));
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Self) {
        for (class, more) in self.classes.iter_mut().zip(&other.classes) {
            class.count = class.count.saturating_add(more.count);
            class.nanos = class.nanos.saturating_add(more.nanos);
        }
    }

    /// What was counted after an earlier state of the same.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        for (class, earlier) in since.classes.iter_mut().zip(&earlier.classes) {
            class.count = class.count.saturating_sub(earlier.count);
            class.nanos = class.nanos.saturating_sub(earlier.nanos);
        }
        since
    }

    /// The classes that something was counted in: the mean of what was, in seconds, and how much it was. The mean is within the
    /// bounds of its class, so that whoever counts by the same bounds gets the same classes and the same sum.
    pub fn means(&self) -> impl Iterator<Item = (f64, u64)> {
        let used = self.classes.iter().filter(|class| class.count > 0);
        used.map(|class| (Duration::from_nanos(class.nanos).as_secs_f64() / class.count as f64, class.count))
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.classes.iter().map(|class| class.count).sum()
    }
}

fn class_of(duration: Duration) -> usize {
    let seconds = duration.as_secs_f64();
    SECONDS_BOUNDS.partition_point(|bound| *bound < seconds)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_their_class_and_their_sum() {
        let mut timings = Timings::default();
        for millis in [1, 2, 2, 700, 90_000] {
            timings.record(Duration::from_millis(millis));
        }
        let mut other = Timings::default();
        other.record(Duration::from_millis(1));
        let earlier = timings.clone();
        timings.merge(&other);
        assert_eq!(timings.since(&earlier), other);
        let means: Vec<_> = timings.means().collect();
        assert_eq!(means, [(0.001, 2), (0.002, 2), (0.7, 1), (90.0, 1)]);
        assert_eq!(timings.count(), 6);
    }

    #[test]
    fn nothing_overflows() {
        let mut timings = Timings::default();
        timings.record(Duration::MAX);
        timings.record(Duration::MAX);
        assert_eq!(timings.count(), 2);
        assert!(timings.means().all(|(mean, _)| mean.is_finite()));
    }
}
