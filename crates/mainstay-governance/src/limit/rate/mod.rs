//! A token bucket whose tokens are given to processes in shares.

mod actor;
mod bucket;
mod limiter;
mod pool;
mod rate_limit;

pub(super) use actor::RateLimitActor;
pub use limiter::RateLimiter;
pub use rate_limit::RateLimit;
