use std::time::Duration;

use mainstay::service::Services;
use mainstay::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::owner::Resource;
use crate::pool::{BreakerSettings, Pick};
use crate::settings::{POOLS, in_force};

/// How many members a pool may have at most. Every handle to it has a place for each.
pub const MEMBERS_MAX: u32 = 1024;

/// How long a pool may take to drain the members that go before whoever has asked for it is told that it takes longer. It
/// goes on in any case.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(10 * 60);

/// How many callers may wait for a lease at most, whatever the settings say.
pub const WAITING_MAX: usize = 1 << 20;

/// How a pool behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSettings {
    /// How many members a pool has that is used for the first time, 1 to [`MEMBERS_MAX`]. It is stored then, and does not
    /// change when this does: later the size is what [`resize`](crate::pool::ResourcePool::resize) has made of it, and
    /// [`status`](crate::pool::ResourcePool::status) says what that is.
    pub initial_size: u32,
    /// Who decides which member does a job.
    pub coordination: Coordination,
    /// How a caller picks a member, where the caller does.
    pub pick: Pick,
    /// When a member is left alone.
    pub breaker: BreakerSettings,
    /// How leases are given, where the coordinator does.
    pub leases: LeaseSettings,
}

/// Who decides which member of a pool does a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Coordination {
    /// The caller: it knows the members, and goes to one directly. The fastest, for jobs that stand alone. The default.
    #[default]
    Client,
    /// The pool's coordinator: it leases members to callers one by one, with priorities, and knows who waits. For whoever
    /// needs a member for more than one job, and where who comes first matters more than what a job costs.
    Server,
}

/// The longest that a lease may last without being renewed.
pub const LEASE_TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How members are leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseSettings {
    /// A lease ends after this time, of at most [`LEASE_TIME_MAX`], unless its holder renews it, which its handle does by itself. A holder that has died keeps
    /// its member for at most this long.
    pub time: Duration,
    /// How many may wait; beyond is `Overloaded`.
    pub waiting_max: usize,
    /// Whoever waits gains a level of priority each time this passes, so that nobody waits for ever.
    pub ageing: Duration,
}

/// How a pool of a resource behaves on a node.
///
/// # Errors
/// `Invalid` if a pool cannot behave like this.
pub(super) fn pool_settings<R: Resource>(resource: &R, services: &Services) -> Result<PoolSettings> {
    let settings = in_force(services, POOLS, R::NAME, resource.pool_settings())?;
    settings.check()?;
    Ok(settings)
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            initial_size: 5,
            coordination: Coordination::Client,
            pick: Pick::LeastLoaded,
            breaker: BreakerSettings::default(),
            leases: LeaseSettings::default(),
        }
    }
}

impl Default for LeaseSettings {
    fn default() -> Self {
        Self { time: Duration::from_secs(10), waiting_max: 10_000, ageing: Duration::from_secs(5) }
    }
}

impl PoolSettings {
    /// Says whether a pool can behave like this.
    ///
    /// # Errors
    /// `Invalid`, naming the setting and what it may be.
    pub fn check(&self) -> Result<()> {
        check_size(self.initial_size)?;
        self.breaker.check()?;
        let LeaseSettings { time, waiting_max, ageing } = self.leases;
        for (name, length) in [("time", time), ("ageing", ageing)] {
            if !(Duration::from_millis(1)..=LEASE_TIME_MAX).contains(&length) {
                return Err(Error::invalid(format!("{name} of leases is {length:?}: use a millisecond to a day")));
            }
        }
        match (1..=WAITING_MAX).contains(&waiting_max) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "waiting_max of leases is {waiting_max}: use 1 to WAITING_MAX of {WAITING_MAX}"
            ))),
        }
    }
}

/// Refuses a size that a pool cannot have.
pub(crate) fn check_size(size: u32) -> Result<()> {
    match (1..=MEMBERS_MAX).contains(&size) {
        true => Ok(()),
        false => Err(Error::invalid(format!("a pool of {size} cannot be: use 1 to MEMBERS_MAX of {MEMBERS_MAX}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold_and_what_cannot_be_is_named() {
        PoolSettings::default().check().unwrap();
        let refused = |change: fn(&mut PoolSettings)| {
            let mut settings = PoolSettings::default();
            change(&mut settings);
            settings.check().unwrap_err().to_string()
        };
        assert_eq!(
            refused(|settings| settings.initial_size = 0),
            "a pool of 0 cannot be: use 1 to MEMBERS_MAX of 1024"
        );
        assert!(refused(|settings| settings.initial_size = 1025).contains("a pool of 1025"));
        assert!(refused(|settings| settings.leases.time = Duration::ZERO).starts_with("time of leases is 0ns"));
        assert!(refused(|settings| settings.leases.waiting_max = 0).starts_with("waiting_max of leases is 0"));
        assert!(refused(|settings| settings.breaker.failures_max = 0).starts_with("failures_max of a breaker"));
    }
}
