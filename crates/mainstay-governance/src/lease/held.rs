use std::time::Duration;

use tokio::time::Instant;

/// A lease in the process that holds it. A renewal that comes after its end begins another lease, of the next number: what has
/// been over once is not taken back by an answer that comes late.
#[derive(Debug, Clone)]
pub(crate) struct HeldLease {
    until: Instant,
    number: u64,
}

impl HeldLease {
    /// The number of the first lease.
    pub(crate) const FIRST: u64 = 0;

    /// A lease that was asked for at a moment.
    pub(crate) fn begun(asked: Instant, length: Duration) -> Self {
        Self { until: asked + length, number: Self::FIRST }
    }

    pub(crate) fn is_held(&self, now: Instant) -> bool {
        now < self.until
    }

    /// Which lease it is: another one after each that has run out.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How long the lease of a number is good; zero if that has run out.
    pub(crate) fn left_of(&self, number: u64, now: Instant) -> Duration {
        if number == self.number { self.until.saturating_duration_since(now) } else { Duration::ZERO }
    }

    /// Takes note of a renewal that was asked for at a moment. False if the lease had run out before.
    pub(crate) fn renew(&mut self, asked: Instant, length: Duration, now: Instant) -> bool {
        let was_held = self.is_held(now);
        self.number += u64::from(!was_held);
        self.until = asked + length;
        was_held
    }

    /// Gives it up.
    pub(crate) fn end(&mut self, now: Instant) {
        self.until = self.until.min(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(3);

    #[test]
    fn a_late_renewal_begins_another_lease() {
        let now = Instant::now();
        let mut lease = HeldLease::begun(now, LENGTH);
        assert!(lease.renew(now + LENGTH / 3, LENGTH, now + LENGTH / 2));
        let over = now + LENGTH / 3 + LENGTH;
        assert_eq!(lease.left_of(HeldLease::FIRST, now + LENGTH), LENGTH / 3);
        assert!(!lease.is_held(over) && lease.left_of(HeldLease::FIRST, over).is_zero());
        assert!(!lease.renew(over, LENGTH, over) && lease.is_held(over));
        assert!(lease.left_of(HeldLease::FIRST, over).is_zero() && lease.left_of(lease.number(), over) == LENGTH);
    }

    #[test]
    fn a_lease_that_was_given_up_is_over() {
        let now = Instant::now();
        let mut lease = HeldLease::begun(now, LENGTH);
        lease.end(now);
        lease.end(now + LENGTH);
        assert!(!lease.is_held(now) && !lease.renew(now, LENGTH, now));
    }
}
