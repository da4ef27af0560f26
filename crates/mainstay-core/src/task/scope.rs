use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};

use super::runtime;

tokio::task_local! {
    static CURRENT: Scope;
}

/// A group of tasks that are stopped together. It belongs to the runtime in which it was made, or else to the one from which
/// its first task was started: its tasks run there, whoever starts them.
#[derive(Debug, Clone)]
pub struct Scope {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Where its tasks run, once that is known.
    runtime: OnceLock<Handle>,
    next: AtomicU64,
    running: Mutex<Running>,
    /// How many tasks have not been dropped yet.
    alive: AtomicU64,
    ended: Notify,
}

/// The tasks of a scope by number, each with its handle once it is known; `None` when the scope has been stopped and
/// nothing starts in it any more.
pub(super) type Running = Option<BTreeMap<u64, Option<AbortHandle>>>;

impl Scope {
    /// An empty scope.
    pub fn new() -> Self {
        let running = Mutex::new(Some(BTreeMap::new()));
        let (next, alive) = (AtomicU64::new(0), AtomicU64::new(0));
        let runtime = Handle::try_current().map_or_else(|_| OnceLock::new(), OnceLock::from);
        Self { inner: Arc::new(Inner { runtime, next, running, alive, ended: Notify::new() }) }
    }

    /// The scope of the task that this is part of.
    pub(super) fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Starts a task in this scope, on the runtime of the scope. In a scope that was stopped the task never runs, nor does it
    /// on a runtime that has ended.
    ///
    /// # Panics
    /// If the scope has no runtime yet and there is none here.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let runtime = self.inner.runtime.get_or_init(Handle::current);
        self.spawn_on(runtime, future)
    }

    pub(super) fn spawn_on<F>(&self, runtime: &Handle, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
        if let Some(tasks) = self.running().as_mut() {
            tasks.insert(number, None);
        }
        self.inner.alive.fetch_add(1, Ordering::SeqCst);
        let member = Member { future, leave: Leave { scope: self.clone(), number } };
        // Not under the lock: a runtime that is shutting down drops the task at once, which takes the lock to leave the scope.
        let handle = runtime.spawn(CURRENT.scope(self.clone(), async move {
            // Moved in whole, because a task that never runs drops what it has taken one by one in the order of its use.
            let member = member;
            let Member { leave, future } = member;
            poll_fn(|cx| {
                runtime::learn(cx);
                Poll::Ready(())
            })
            .await;
            if leave.scope.is_stopped() {
                // Never polled again: it is aborted where it was started.
                return std::future::pending().await;
            }
            future.await
        }));
        match self.running().as_mut() {
            // The entry is gone if the task has ended already.
            Some(tasks) => {
                if let Some(entry) = tasks.get_mut(&number) {
                    *entry = Some(handle.abort_handle());
                }
            }
            None => handle.abort(),
        }
        handle
    }

    /// Stops every task of the scope where it stands, and refuses new ones.
    pub fn stop(&self) {
        let tasks = self.running().take();
        for task in tasks.into_iter().flat_map(BTreeMap::into_values).flatten() {
            task.abort();
        }
    }

    /// Waits until no task of the scope is left, which is when whatever they held has been let go. Not for a task of the
    /// scope itself, which would wait for its own end.
    pub async fn ended(&self) {
        loop {
            // Listens before it looks, so that the last task cannot end in between.
            let mut ended = std::pin::pin!(self.inner.ended.notified());
            ended.as_mut().enable();
            if self.alive() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// True once the scope has been stopped.
    pub fn is_stopped(&self) -> bool {
        self.running().is_none()
    }

    /// Runs a future as if it were a task of this scope: what it starts belongs here.
    pub async fn enter<F: Future>(&self, future: F) -> F::Output {
        CURRENT.scope(self.clone(), future).await
    }

    /// Runs a function as if it were part of a task of this scope: what it starts belongs here.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), work)
    }

    /// How many tasks have not been dropped yet.
    pub(super) fn alive(&self) -> u64 {
        self.inner.alive.load(Ordering::SeqCst)
    }

    pub(super) fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        // A panic while the lock is held leaves the map whole: it is only inserted to and removed from.
        self.inner.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self::new()
    }
}

/// A task that has not run yet. Its fields are dropped in their order: a task has left when all that it held is free.
struct Member<F> {
    future: F,
    leave: Leave,
}

/// Takes a task out of its scope when it ends, in whatever way.
struct Leave {
    scope: Scope,
    number: u64,
}

impl Drop for Leave {
    fn drop(&mut self) {
        if let Some(tasks) = self.scope.running().as_mut() {
            tasks.remove(&self.number);
        }
        if self.scope.inner.alive.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.scope.inner.ended.notify_waiters();
        }
    }
}
