//! A number of permits that are out at once, given to processes in shares.

mod actor;
mod desk;
mod limiter;
mod limiters;
mod permit;
mod shares;

pub(super) use actor::ConcurrencyLimitActor;
pub use limiter::ConcurrencyLimiter;
pub(super) use limiters::Limiters;
pub use permit::Permit;
pub use shares::PERMITS_MAX;
