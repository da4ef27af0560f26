use mainstay_core::time::Duration;
use mainstay_core::{Error, Result};

/// How many instances a pool keeps unless told otherwise.
pub const WORKERS_MIN_DEFAULT: usize = 1;

/// How many instances a pool grows to unless told otherwise. Not the number of processors: an instance is taken by a call
/// that waits as well as by one that computes, and the same number everywhere lets a simulation replay on any machine.
pub const WORKERS_MAX_DEFAULT: usize = 32;

/// How many calls may wait for an instance unless told otherwise.
pub const WORKER_CALLS_WAITING_MAX_DEFAULT: usize = 1024;

/// How long an instance above the minimum may be idle unless told otherwise.
pub const WORKER_IDLE_TIME_DEFAULT: Duration = Duration::from_secs(60);

/// Between which bounds a pool of workers grows and shrinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOptions {
    /// How many instances there are from the start and stay; may be 0.
    pub min: usize,
    /// How many instances there are at most; at least 1.
    pub max: usize,
    /// How many calls may wait when all instances are at work; the next one is refused as `Overloaded`.
    pub waiting_max: usize,
    /// How long an instance above `min` may be idle before it is dropped.
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
    /// Refuses bounds that cannot be.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        let Self { min, max, .. } = *self;
        if max == 0 {
            return Err(Error::invalid(format!("worker {name} has `max = 0` and could do nothing: set at least 1")));
        }
        if min > max {
            return Err(Error::invalid(format!(
                "worker {name} has `min = {min}`, which is above `max = {max}`: lower one or raise the other"
            )));
        }
        Ok(())
    }
}
