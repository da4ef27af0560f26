use mainstay_core::time::Duration;
use mainstay_core::{Error, Result};

/// How long an operation waits for its locks unless told otherwise.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(4);

/// The most bytes of an encoded value. With the value that it replaces it fits into a commit twice over.
pub const VALUE_BYTES_MAX: usize = 4 << 20;

/// The most bytes that a transaction writes: new values, and those that they replace. What it has written and taken back or
/// written over does not count.
pub const TRANSACTION_BYTES_MAX: usize = 15 << 20;

/// How a partition's state is kept. For a service these are settings, `state.lock_timeout` and so on, of its section of the
/// configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateOptions {
    /// How long an operation waits for its locks unless told otherwise.
    pub lock_timeout: Duration,
    /// The most bytes of values that are kept decoded, for reads that cost no decoding.
    ///
    /// On level none, where all state is in memory, values are kept decoded in the place of their bytes as long as those of
    /// all partitions that share a set count for less than this; the last values read of the others are kept here as well.
    pub cache_bytes: u64,
    /// How `transact` tries again.
    pub retry: RetryOptions,
}

impl StateOptions {
    /// Refuses options that contradict each other.
    ///
    /// # Errors
    /// `Invalid` with the names of both, as settings have them.
    pub fn check(&self) -> Result<()> {
        let RetryOptions { time_max, pause_first, pause_max, .. } = self.retry;
        if pause_first > pause_max {
            return Err(Error::invalid(format!(
                "state.retry.pause_first is {pause_first:?} and state.retry.pause_max is {pause_max:?}: the first pause may not be \
                 longer than the longest, so give state.retry.pause_max at least as much"
            )));
        }
        if pause_first >= time_max {
            return Err(Error::invalid(format!(
                "state.retry.pause_first is {pause_first:?} and state.retry.time_max is {time_max:?}, so that nothing would be tried \
                 again: give state.retry.time_max more, or set state.retry.tries_max to 1 if that is meant"
            )));
        }
        Ok(())
    }
}

impl Default for StateOptions {
    fn default() -> Self {
        Self { lock_timeout: LOCK_TIMEOUT, cache_bytes: 16 << 20, retry: RetryOptions::default() }
    }
}

/// How often and for how long a transaction is tried again, with pauses that double and are shortened by chance so that
/// those who met once do not meet again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryOptions {
    /// How often it is tried at most.
    pub tries_max: u32,
    /// After how long it is not tried again.
    pub time_max: Duration,
    /// The longest first pause.
    pub pause_first: Duration,
    /// The longest pause.
    pub pause_max: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            tries_max: 10,
            time_max: Duration::from_secs(30),
            pause_first: Duration::from_millis(4),
            pause_max: Duration::from_secs(1),
        }
    }
}
