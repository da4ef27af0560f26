//! The one place that starts tasks.
//!
//! A task belongs to the [`Scope`] that was current when it was started, and so do the tasks that it starts.
//! Stopping a scope stops all of them at once: that is how a node shuts down, and how a simulation kills one.
//!
//! A scope belongs to the runtime in which it was made, and a [`Home`] says the same for what is no task: the work of a
//! node runs on the runtime of the node, whoever asks for it, on whatever executor.
#![allow(clippy::disallowed_methods, reason = "this is the module that provides them")]

mod blocking;
mod budget;
mod home;
mod runtime;
mod scope;

use std::future::Future;

pub use tokio::task::{JoinError, JoinHandle};

pub use blocking::{Blocking, start_blocking};
pub(crate) use budget::reset as reset_budget;
pub use budget::{poll_budget, take_budget, yield_for_budget};
pub use home::{Gone, Home};
pub use scope::Scope;

/// Starts a task in the current scope, or without one if there is none.
///
/// # Panics
/// Without a scope, where there is no runtime.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match Scope::current() {
        Some(scope) => scope.spawn(future),
        None => tokio::spawn(future),
    }
}

/// Runs blocking work off the runtime's threads. It runs in place on a single-threaded runtime, which is what a simulation
/// uses, so that the order of things depends on nothing but the seed; and where there is no runtime, whose threads
/// could be kept from other work.
///
/// # Panics
/// Passes on a panic of `work`.
pub async fn blocking<F, T>(work: F) -> T
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match start_blocking(work).await {
        Ok(value) => value,
        // Only a runtime that is shutting down cancels blocking work, and then nobody polls this future again.
        Err(Gone) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
