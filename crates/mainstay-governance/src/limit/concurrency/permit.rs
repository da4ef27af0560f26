use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use super::limiter::Shared;

/// Permits that are out. They are back when this is dropped.
#[must_use = "the permits are back when this is dropped"]
pub struct Permit {
    shared: Arc<Shared>,
    permits: u64,
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.permits)
    }
}

impl Permit {
    pub(super) fn new(shared: Arc<Shared>, permits: u64) -> Self {
        Self { shared, permits }
    }

    /// How many they are.
    pub fn permits(&self) -> u64 {
        self.permits
    }

    /// True if the lease that they stand on has run out: this process was cut off for so long that others may have
    /// been given them.
    pub fn is_lost(&self) -> bool {
        Instant::now() >= self.shared.valid_until()
    }

    /// Returns when the lease that they stand on has run out. Whoever must not go on then waits for this beside the work.
    pub async fn lost(&self) {
        loop {
            let until = self.shared.valid_until();
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        Shared::put(&self.shared, self.permits);
    }
}
