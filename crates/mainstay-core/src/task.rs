//! The one place that starts tasks.
//!
//! A task belongs to the [`Scope`] that was current when it was started, and so do the tasks that it starts.
//! Stopping a scope stops all of them at once: that is how a node shuts down, and how a simulation kills one.
#![allow(clippy::disallowed_methods, reason = "this is the module that provides them")]

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::AbortHandle;
pub use tokio::task::{JoinError, JoinHandle};

tokio::task_local! {
    static CURRENT: Scope;
}

/// A group of tasks that are stopped together.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: AtomicU64,
    // `None` once the scope has been stopped: nothing starts in it any more.
    running: Mutex<Option<BTreeMap<u64, AbortHandle>>>,
}

impl Scope {
    /// An empty scope.
    pub fn new() -> Self {
        let scope = Self::default();
        *scope.running() = Some(BTreeMap::new());
        scope
    }

    /// Starts a task in this scope. In a scope that was stopped the task never runs.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
        let ended = Arc::new(AtomicBool::new(false));
        let leave = Leave { scope: self.clone(), number, ended: ended.clone() };
        // Outside the lock: a runtime that is shutting down drops the task on the spot, and `leave` takes the lock.
        let handle = tokio::spawn(CURRENT.scope(self.clone(), async move {
            let _leave = leave;
            future.await
        }));
        match self.running().as_mut() {
            Some(_) if ended.load(Ordering::Acquire) => {}
            Some(tasks) => drop(tasks.insert(number, handle.abort_handle())),
            None => handle.abort(),
        }
        handle
    }

    /// Stops every task of the scope where it stands, and refuses new ones.
    pub fn stop(&self) {
        let tasks = self.running().take();
        for task in tasks.into_iter().flatten() {
            task.1.abort();
        }
    }

    /// Runs a future as if it were a task of this scope: what it starts belongs here.
    pub async fn enter<F: Future>(&self, future: F) -> F::Output {
        CURRENT.scope(self.clone(), future).await
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<BTreeMap<u64, AbortHandle>>> {
        // A panic while the lock is held leaves the map whole: it is only inserted to and removed from.
        self.inner.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Leave {
    scope: Scope,
    number: u64,
    ended: Arc<AtomicBool>,
}

impl Drop for Leave {
    fn drop(&mut self) {
        // Before the lock: who inserts the task looks at it with the lock held.
        self.ended.store(true, Ordering::Release);
        if let Some(tasks) = self.scope.running().as_mut() {
            tasks.remove(&self.number);
        }
    }
}

/// Starts a task in the current scope, or without one if there is none.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match CURRENT.try_with(Scope::clone) {
        Ok(scope) => scope.spawn(future),
        Err(_) => tokio::spawn(future),
    }
}

/// Runs blocking work off the runtime's threads; on a single-threaded runtime, which is what a simulation uses, it
/// runs in place so that the order of things depends on nothing but the seed.
///
/// # Panics
/// Passes on a panic of `work`.
pub async fn blocking<F, T>(work: F) -> T
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    if tokio::runtime::Handle::current().runtime_flavor() == tokio::runtime::RuntimeFlavor::CurrentThread {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // Only a runtime that is shutting down cancels blocking work, and then nobody polls this future again.
        Err(_) => std::future::pending().await,
    }
}
