//! How long things take, as percentiles.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many steps there are between a time and its double.
const STEPS: u64 = 16;

/// How many doublings of a microsecond are told apart: up to an hour and more.
const DOUBLINGS: u64 = 32;

/// Counts of times, in steps of about 6 %.
#[derive(Debug)]
pub struct Latency {
    counts: Vec<AtomicU64>,
}

impl Default for Latency {
    fn default() -> Self {
        Self { counts: (0..STEPS * DOUBLINGS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Latency {
    /// Counts a time.
    pub fn add(&self, time: Duration) {
        self.counts[place(time)].fetch_add(1, Ordering::Relaxed);
    }

    /// The time that so many of a hundred did not exceed; zero if there are none.
    pub fn percentile(&self, percent: f64) -> Duration {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let all: u64 = counts.iter().sum();
        let mut left = (all as f64 * percent / 100.0).ceil() as u64;
        for (place, count) in counts.into_iter().enumerate() {
            if count >= left && count > 0 {
                return upper(place as u64);
            }
            left -= count.min(left);
        }
        Duration::ZERO
    }
}

fn place(time: Duration) -> usize {
    let micros = time.as_micros().clamp(1, u128::from(u32::MAX)) as u64;
    let doublings = u64::from(micros.ilog2());
    let step = ((micros << 6 >> doublings) - 64) * STEPS / 64;
    (doublings * STEPS + step).min(STEPS * DOUBLINGS - 1) as usize
}

fn upper(place: u64) -> Duration {
    let (doublings, step) = (place / STEPS, place % STEPS);
    Duration::from_micros((1 << doublings) + ((step + 1) << doublings) / STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_within_a_step() {
        let latency = Latency::default();
        assert_eq!(latency.percentile(50.0), Duration::ZERO);
        for micros in 1..=10_000 {
            latency.add(Duration::from_micros(micros));
        }
        for (percent, micros) in [(50.0, 5_000.0), (99.0, 9_900.0), (100.0, 10_000.0)] {
            let found = latency.percentile(percent).as_micros() as f64;
            assert!((micros * 0.93..=micros * 1.08).contains(&found), "{found} for {percent} %");
        }
        latency.add(Duration::MAX);
    }
}
