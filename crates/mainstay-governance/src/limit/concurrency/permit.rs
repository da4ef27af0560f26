use std::fmt;
use std::sync::Arc;

use super::limiter::LimiterCore;

/// Permits that are out. They are back when this is dropped.
#[must_use = "the permits are back when this is dropped"]
pub struct Permit {
    shared: Arc<LimiterCore>,
    permits: u64,
    /// The lease that they were taken under.
    lease: u64,
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.permits)
    }
}

impl Permit {
    pub(super) fn new(shared: Arc<LimiterCore>, permits: u64, lease: u64) -> Self {
        Self { shared, permits, lease }
    }

    /// How many they are.
    pub fn permits(&self) -> u64 {
        self.permits
    }

    /// True if the lease that they stand on has run out: this process was cut off or stood still for so long that others may
    /// have been given them. They stay lost.
    pub fn is_lost(&self) -> bool {
        self.shared.left_of(self.lease).is_zero()
    }

    /// Returns when the lease that they stand on has run out. Whoever must not go on then waits for this beside the work.
    pub async fn lost(&self) {
        loop {
            let left = self.shared.left_of(self.lease);
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        LimiterCore::put(&self.shared, self.permits);
    }
}
