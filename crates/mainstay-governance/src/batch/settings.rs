use std::time::Duration;

use mainstay::{Error, Result};

use super::write_time::{self, WRITE_TIME_LIMIT, WRITE_TIME_MAX_DEFAULT};
use super::{RetryPolicy, SplitPolicy};
use crate::as_services::AsServices;
use crate::settings::{BATCHES, in_force};

/// How a [`BatchExecutor`](super::BatchExecutor) batches.
///
/// The defaults suit a file or a database: as large as what gathers while the batch before is written, one at a time, and
/// a failure is the callers'.
#[derive(Debug, Clone)]
pub struct BatchSettings {
    /// The most items of a batch. One that has as many is written, whatever `linger` says.
    pub items_max: usize,
    /// The most bytes of a batch, as the executor's [`ItemSize`](super::ItemSize) counts them; `None` is no limit. An item
    /// that is larger has a batch to itself.
    pub bytes_max: Option<usize>,
    /// How long the first item of a batch may wait for others. Zero: not at all, and what gathers while a batch is being
    /// written is the next one.
    pub linger: Duration,
    /// How many batches may be in flight at once. With one, items are written in the order in which they were accepted. With
    /// several, batches begin in that order, and may end in another. One that is small beside what is in flight waits a moment
    /// (5 ms at the most) for others to end, and takes along what comes then.
    pub in_flight_max: usize,
    /// How many items may wait for their batch to begin. Beyond, `submit` waits and `try_submit` is refused.
    pub waiting_items_max: usize,
    /// How many bytes may wait for their batch to begin; `None` is no limit.
    pub waiting_bytes_max: Option<usize>,
    /// How long a writer may take for one batch. One that takes longer is given up: its batch fails with `OutcomeUnknown`,
    /// and is written again only if `retry` says so of that. One that blocks its thread is given up a second later, and is not
    /// tried again.
    pub write_time_max: Duration,
    /// When a batch that failed is tried again.
    pub retry: RetryPolicy,
    /// When a batch that failed for good is split, to find the items that cannot be written.
    pub split: SplitPolicy,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self {
            items_max: 1024,
            bytes_max: None,
            linger: Duration::ZERO,
            in_flight_max: 1,
            waiting_items_max: 16 << 10,
            waiting_bytes_max: None,
            write_time_max: WRITE_TIME_MAX_DEFAULT,
            retry: RetryPolicy::default(),
            split: SplitPolicy::default(),
        }
    }
}

impl BatchSettings {
    /// The most items that a batch or the line before it may be set to have.
    pub const ITEMS_LIMIT: usize = 1 << 24;

    /// The most bytes that a batch or the line before it may be set to have.
    pub const BYTES_LIMIT: usize = 1 << 30;

    /// The most batches in flight: each is a task.
    pub const IN_FLIGHT_LIMIT: usize = 1 << 10;

    /// The longest time that an item may be made to wait for others.
    pub const LINGER_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

    /// The longest time that a writer may be given for one batch.
    pub const WRITE_TIME_LIMIT: Duration = WRITE_TIME_LIMIT;

    /// Says whether batches can be made like this.
    ///
    /// # Errors
    /// `Invalid`, naming the setting and what it may be.
    pub fn check(&self) -> Result<()> {
        within("items_max", Some(self.items_max), Self::ITEMS_LIMIT)?;
        within("waiting_items_max", Some(self.waiting_items_max), Self::ITEMS_LIMIT)?;
        within("in_flight_max", Some(self.in_flight_max), Self::IN_FLIGHT_LIMIT)?;
        within("bytes_max", self.bytes_max, Self::BYTES_LIMIT)?;
        within("waiting_bytes_max", self.waiting_bytes_max, Self::BYTES_LIMIT)?;
        if self.linger > Self::LINGER_LIMIT {
            return Err(Error::invalid(format!("linger is {:?}: use at most a day", self.linger)));
        }
        write_time::check(self.write_time_max)?;
        self.retry.check()?;
        self.split.check()
    }

    /// The same, and over it what operators have set for the executor of this name in `[governance.batches.NAME]`. The node is to
    /// [serve](super::serve) executors.
    ///
    /// # Errors
    /// `Invalid` if what was set does not go together with this.
    pub fn in_force(self, node: &impl AsServices, name: &str) -> Result<Self> {
        in_force(node.services(), BATCHES, name, self)
    }

    /// True if a batch is never written a second time, whole or in parts.
    pub(super) fn writes_once(&self) -> bool {
        self.retry.attempts_max <= 1 && self.split.writes_max == 0
    }

    /// True if it matters how large an item is.
    pub(crate) fn counts_bytes(&self) -> bool {
        self.bytes_max.is_some() || self.waiting_bytes_max.is_some()
    }
}

fn within(name: &str, value: Option<usize>, limit: usize) -> Result<()> {
    match value {
        Some(value) if !(1..=limit).contains(&value) => {
            Err(Error::invalid(format!("{name} is {value}: use 1 to {limit}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_named() {
        BatchSettings::default().check().unwrap();
        let refused = |change: fn(&mut BatchSettings), text: &str| {
            let mut settings = BatchSettings::default();
            change(&mut settings);
            let error = settings.check().unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        };
        refused(|settings| settings.items_max = 0, "items_max is 0: use 1 to 16777216");
        refused(|settings| settings.in_flight_max = 0, "in_flight_max is 0");
        refused(|settings| settings.waiting_items_max = usize::MAX, "waiting_items_max");
        refused(|settings| settings.bytes_max = Some(0), "bytes_max");
        refused(|settings| settings.linger = Duration::MAX, "linger");
        refused(|settings| settings.write_time_max = Duration::ZERO, "write_time_max is 0ns");
        refused(|settings| settings.write_time_max = Duration::MAX, "write_time_max");
        refused(|settings| settings.retry.attempts_max = 0, "retry.attempts_max is 0");
        refused(|settings| settings.split.writes_max = usize::MAX, "split.writes_max");
    }
}
