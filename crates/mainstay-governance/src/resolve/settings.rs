use std::ops::RangeInclusive;
use std::time::Duration;

use mainstay::{Error, Result};

use super::policy::Policy;

/// How a resolver is used from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolverSettings {
    /// How many actors share the entities. It is decided when the resolver is opened first, and stays.
    pub shards: u32,
    /// What becomes of entities that nobody knows.
    pub policy: Policy,
    /// How long this process may rely on what it knows without hearing from the map. A move waits for a process that is
    /// gone for a quarter longer than this.
    pub lease: Duration,
    /// How many entities this process remembers.
    pub remembered_max: usize,
}

impl Default for ResolverSettings {
    fn default() -> Self {
        Self { shards: 16, policy: Policy::Refuse, lease: Duration::from_secs(3), remembered_max: 100_000 }
    }
}

impl ResolverSettings {
    /// How many shards there may be.
    pub const SHARDS: RangeInclusive<u32> = 1..=1024;

    /// How long a lease may be.
    pub const LEASES: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(60);

    pub(crate) fn check(&self) -> Result<()> {
        if !Self::SHARDS.contains(&self.shards) {
            return Err(Error::invalid(format!("shards is {}: use 1 to {}", self.shards, Self::SHARDS.end())));
        }
        if !Self::LEASES.contains(&self.lease) {
            return Err(Error::invalid(format!("lease is {:?}: use 50 ms to 60 s", self.lease)));
        }
        if self.remembered_max == 0 {
            return Err(Error::invalid("remembered_max is 0: use at least 1"));
        }
        Ok(())
    }
}
