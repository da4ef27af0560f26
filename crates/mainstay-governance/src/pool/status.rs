use serde::{Deserialize, Serialize};

use crate::owner::{Fence, OwnerState};
use crate::pool::BreakerState;

/// What a pool is like, as [`ResourcePool::status`](crate::pool::ResourcePool::status) has found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolStatus {
    /// How many members it has.
    pub size: u32,
    /// Rises whenever the size changes.
    pub version: u64,
    /// How many members are on their way out and may still be open.
    pub draining: u32,
    /// Its members, by their numbers.
    pub members: Vec<MemberReport>,
    /// How many jobs of this handle, and its clones, are under way or wait at a member.
    pub in_flight: usize,
    /// How many members are leased, in the whole cluster.
    pub leased: usize,
    /// How many wait for a lease, in the whole cluster.
    pub waiting: usize,
}

/// A member of a pool, as seen from a handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberReport {
    /// Its number.
    pub index: u32,
    /// How many jobs of this handle, and its clones, it has.
    pub in_flight: usize,
    /// What it says of itself; nothing if it is busy with a job or cannot be reached.
    pub status: Option<MemberStatus>,
}

/// What a member of a pool says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Whether it has its resource open.
    pub state: OwnerState,
    /// Whether it is given jobs.
    pub breaker: BreakerState,
    /// The token of its last opening.
    pub fence: Fence,
    /// How many jobs it has been given since it is in memory.
    pub jobs: u64,
    /// How often it has tried to open its resource since it is in memory.
    pub openings: u64,
}
