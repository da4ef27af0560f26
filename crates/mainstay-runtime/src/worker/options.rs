use mainstay_core::time::Duration;
use mainstay_core::{Error, Result};

/// The default of [`PoolOptions::min`].
pub const WORKERS_MIN_DEFAULT: usize = 1;

/// The default of [`PoolOptions::max`]. It is not the number of processors: a call that waits holds an instance as well as one
/// that computes, and a constant lets a simulation replay on any machine.
pub const WORKERS_MAX_DEFAULT: usize = 32;

/// The default of [`PoolOptions::waiting_max`].
pub const WORKER_CALLS_WAITING_MAX_DEFAULT: usize = 1024;

/// The default of [`PoolOptions::idle_time`].
pub const WORKER_IDLE_TIME_DEFAULT: Duration = Duration::from_secs(60);

/// The bounds of a worker pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOptions {
    /// The number of instances that are created at the start and never dropped for being idle; may be 0.
    pub min: usize,
    /// The maximum number of instances; at least 1.
    pub max: usize,
    /// The maximum number of queued calls while all instances are leased; the next call is refused with `Overloaded`.
    pub waiting_max: usize,
    /// The time after which an idle instance above `min` is dropped.
    pub idle_time: Duration,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            min: WORKERS_MIN_DEFAULT,
            max: WORKERS_MAX_DEFAULT,
            waiting_max: WORKER_CALLS_WAITING_MAX_DEFAULT,
            idle_time: WORKER_IDLE_TIME_DEFAULT,
        }
    }
}

impl PoolOptions {
    /// Refuses contradictory bounds.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        let Self { min, max, .. } = *self;
        if max == 0 {
            return Err(Error::invalid(format!("worker {name} has `max = 0` and could serve no call: set at least 1")));
        }
        if min > max {
            return Err(Error::invalid(format!(
                "worker {name} has `min = {min}`, which is above `max = {max}`: lower one or raise the other"
            )));
        }
        Ok(())
    }
}
