//! Real time: the one place of the workspace that measures it.
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time, and real threads wait for it")]

use std::time::{Duration, Instant};

/// How much real time passes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}

/// Blocks this thread for a length of real time.
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
