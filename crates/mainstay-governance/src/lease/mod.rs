//! Leases: what an actor gives to a process for a time, and has back when the process is not heard of any more.
//!
//! Both sides count by [`now`], a clock that goes on while a machine is suspended. A holder counts from before the call that asks
//! for the lease or renews it ([`HeldLease`]). The actor counts from when that call arrives, and for a [`margin`] longer
//! ([`LeaseTable`]). So a holder has stopped to rely on a lease before the actor gives away what it was for.
//!
//! An actor that was activated anew does not know its leases. It lets each run for as long as it may have, and a holder that renews
//! meanwhile keeps what it has: how that is told apart is the business of the users of this module.

mod granted;
mod held;

use std::time::Duration;

use mainstay::actor::suspended;
use tokio::time::Instant;

pub(crate) use granted::{GrantedLease, LeaseTable};
pub(crate) use held::HeldLease;

/// How often a lease is renewed within its length, so that one renewal may be lost without consequence.
const RENEWALS_PER_LEASE: u32 = 3;

/// The current moment on a clock that goes on while the machine is suspended: others have seen that time pass, and may have
/// been given what was held here. To be compared with what it has shown before, and not to be slept for.
pub(crate) fn now() -> Instant {
    Instant::now() + suspended()
}

/// The pause between two renewals of a lease.
pub(crate) fn renewal_pause(length: Duration) -> Duration {
    length / RENEWALS_PER_LEASE
}

/// How much longer than its holder the actor counts a lease as good: a quarter, which is more than clocks differ in speed.
pub(crate) const fn margin(length: Duration) -> Duration {
    Duration::from_millis(length.as_millis() as u64 / 4)
}
