use std::time::Duration;

use mainstay::{Error, Result};

use crate::batch::RetryPolicy;
use crate::batch::write_time::{self, WRITE_TIME_MAX_DEFAULT};

/// How a [`DurableBatch`](super::DurableBatch) batches.
#[derive(Debug, Clone)]
pub struct DurableSettings {
    /// The most items of a batch. As many are written at once, whatever `linger` says.
    pub items_max: u64,
    /// The most bytes of a batch, as [`DurableWriter::size`](super::DurableWriter::size) counts them. An item that is
    /// larger is written alone.
    pub bytes_max: u64,
    /// How long an item may wait for others. Zero: not at all, and what gathers while a batch is being written is the next
    /// one.
    pub linger: Duration,
    /// How many items may wait; beyond is `Overloaded`, and more than that at once `TooLarge`.
    pub waiting_items_max: u64,
    /// How many bytes may wait, as [`DurableWriter::size`](super::DurableWriter::size) counts them; beyond is `Overloaded`.
    pub waiting_bytes_max: u64,
    /// How long a writer may take for one batch, with the opening before it. One that takes longer is given up: what it has
    /// open is dropped, and its items, which may have been written, are written again with the numbers that they have.
    pub write_time_max: Duration,
    /// How long to wait before a write that failed is tried again. There is no last attempt: `attempts_max` is not used.
    pub retry: RetryPolicy,
    /// How many items that cannot be written may be set aside. Then the line waits until some were taken out.
    pub dead_letters_max: usize,
    /// How often is looked after a line that does not move, also after a restart.
    pub look_after: Duration,
    /// Whether an actor that leaves memory writes what it has. It is written once more when the actor is back, and so costs
    /// twice; whoever looks at the outside sees it earlier.
    pub writes_when_leaving: bool,
}

impl Default for DurableSettings {
    fn default() -> Self {
        Self {
            items_max: 1024,
            bytes_max: 4 << 20,
            linger: Duration::ZERO,
            waiting_items_max: 64 << 10,
            waiting_bytes_max: 256 << 20,
            write_time_max: WRITE_TIME_MAX_DEFAULT,
            retry: RetryPolicy::default(),
            dead_letters_max: 100,
            look_after: Duration::from_secs(1),
            writes_when_leaving: true,
        }
    }
}

impl DurableSettings {
    /// The most items that a line may be set to have.
    pub const ITEMS_LIMIT: u64 = 1 << 32;

    /// The most items that may be set aside: their numbers are one entry of the actor's state.
    pub const DEAD_LETTERS_LIMIT: usize = 10_000;

    /// The most items of a batch: it is read in one turn.
    pub const BATCH_LIMIT: u64 = 1 << 16;

    /// Says whether actors can batch like this.
    ///
    /// # Errors
    /// `Invalid`, naming the setting and what it may be.
    pub fn check(&self) -> Result<()> {
        let counts = [
            ("items_max", self.items_max, Self::BATCH_LIMIT),
            ("bytes_max", self.bytes_max, u64::MAX),
            ("waiting_items_max", self.waiting_items_max, Self::ITEMS_LIMIT),
            ("waiting_bytes_max", self.waiting_bytes_max, u64::MAX),
            ("dead_letters_max", self.dead_letters_max as u64 + 1, Self::DEAD_LETTERS_LIMIT as u64 + 1),
        ];
        for (name, value, limit) in counts {
            if !(1..=limit).contains(&value) {
                return Err(Error::invalid(format!("{name} is {value}: use 1 to {limit}")));
            }
        }
        let day = Duration::from_secs(24 * 60 * 60);
        if self.linger > day || !(Duration::from_millis(1)..=day).contains(&self.look_after) {
            return Err(Error::invalid(format!(
                "linger is {:?} and look_after is {:?}: use at most a day, and at least 1 ms for the second",
                self.linger, self.look_after
            )));
        }
        write_time::check(self.write_time_max)?;
        self.retry.check()
    }
}
