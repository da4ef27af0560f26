//! A few owners of a resource, shared by all callers.

mod resource_pool;

mod reach;

mod roster;

mod pick;

mod lease;

mod priority;

mod settings;

mod status;

mod interface;

mod names;

mod coordinator;

mod leases;

mod line;

mod member;

mod breaker;

pub use breaker::{BreakerSettings, BreakerState};
pub use coordinator::PoolCoordinator;
pub use lease::Lease;
pub use member::PoolMember;
pub use pick::Pick;
pub use priority::Priority;
pub use reach::Reach;
pub use resource_pool::ResourcePool;
pub use settings::{Coordination, DRAIN_TIME_MAX, LeaseSettings, MEMBERS_MAX, PoolSettings, WAITING_MAX};
pub use status::{MemberReport, MemberStatus, PoolStatus};
