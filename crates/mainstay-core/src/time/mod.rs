//! The one source of time.
//!
//! It is tokio's clock, which a simulation pauses and moves by itself: nothing else in the workspace may ask the
//! operating system what time it is (`clippy.toml` sees to that). [`now`] measures how long something takes; [`wall`] is
//! the time of day, for what must outlive the process.
#![allow(clippy::disallowed_methods, reason = "this is the module that provides them")]

use std::future::Future;

mod boot;
mod clock;
mod coarse;
mod suspended;
mod wall;

pub use boot::{BootTime, boot};
pub use clock::{start_thread_wall, wall, wall_set};
pub use coarse::{Coarse, coarse};
pub use suspended::{suspend_thread, suspended};
pub use wall::WallTime;

pub use std::time::Duration;
pub use tokio::time::Instant;

/// The current moment on the monotonic clock.
pub fn now() -> Instant {
    Instant::now()
}

/// Waits for a length of time.
pub async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Waits until a moment.
pub async fn sleep_until(deadline: Instant) {
    tokio::time::sleep_until(deadline).await;
}

/// The time limit passed before the future was ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

/// Waits for a future, but no longer than a length of time.
///
/// # Errors
/// [`Elapsed`] if the time passed first; the future is dropped.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    tokio::time::timeout(duration, future).await.map_err(|_| Elapsed)
}

/// Waits for a future, but no longer than until a moment.
///
/// # Errors
/// [`Elapsed`] if the moment came first; the future is dropped.
pub async fn timeout_at<F: Future>(deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
    tokio::time::timeout_at(deadline, future).await.map_err(|_| Elapsed)
}
