//! The one place that starts tasks.
//!
//! A task belongs to the [`Scope`] that was current when it was started, and so do the tasks that it starts.
//! Stopping a scope stops all of them at once: that is how a node shuts down, and how a simulation kills one.
#![allow(clippy::disallowed_methods, reason = "this is the module that provides them")]

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
pub use tokio::task::{JoinError, JoinHandle};

tokio::task_local! {
    static CURRENT: Scope;
}

/// A group of tasks that are stopped together.
#[derive(Debug, Clone)]
pub struct Scope {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    next: AtomicU64,
    running: Mutex<Running>,
    /// How many tasks have not been dropped yet.
    alive: AtomicU64,
    ended: Notify,
}

/// The tasks of a scope by number, each with its handle once it is known; `None` when the scope has been stopped and
/// nothing starts in it any more.
type Running = Option<BTreeMap<u64, Option<AbortHandle>>>;

impl Scope {
    /// An empty scope.
    pub fn new() -> Self {
        let running = Mutex::new(Some(BTreeMap::new()));
        let (next, alive) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { inner: Arc::new(Inner { next, running, alive, ended: Notify::new() }) }
    }

    /// Starts a task in this scope. In a scope that was stopped the task never runs.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
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
        // Not under the lock: a runtime that is shutting down, or that does not exist, drops the task at once, which
        // takes the lock to leave the scope.
        let handle = tokio::spawn(CURRENT.scope(self.clone(), async move {
            // Moved in whole, because a task that never runs drops what it has taken one by one in the order of its use.
            let member = member;
            let Member { leave, future } = member;
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
            if self.inner.alive.load(Ordering::SeqCst) == 0 {
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

    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
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

/// Where tasks run: a runtime, and a scope of it. For what has to go on however and wherever somebody else drops it.
#[derive(Debug, Clone)]
pub struct Home {
    runtime: Option<Handle>,
    scope: Option<Scope>,
}

impl Home {
    /// Where a task would run that is started here and now.
    pub fn current() -> Self {
        Self { runtime: Handle::try_current().ok(), scope: CURRENT.try_with(Scope::clone).ok() }
    }

    /// Starts a task there, whoever calls this. It is dropped and never runs if the runtime has ended or the scope was
    /// stopped, or if there is no runtime at all.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let Some(runtime) = self.runtime.clone().or_else(|| Handle::try_current().ok()) else { return };
        let _entered = runtime.enter();
        match &self.scope {
            Some(scope) => drop(scope.spawn(future)),
            // Not in the scope of whoever calls this.
            None => drop(tokio::spawn(future)),
        }
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

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// Says when it is dropped, which is when the task that owns it is.
    struct Guard(Option<oneshot::Sender<()>>);

    impl Drop for Guard {
        fn drop(&mut self) {
            let _ = self.0.take().map(|sender| sender.send(()));
        }
    }

    fn guard() -> (Guard, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Guard(Some(sender)), receiver)
    }

    #[tokio::test]
    async fn a_task_runs_and_leaves_its_scope() {
        let scope = Scope::default();
        assert_eq!(scope.spawn(async { 5 }).await.unwrap(), 5);
        assert!(scope.running().as_ref().unwrap().is_empty());
    }

    #[tokio::test]
    async fn stopping_a_scope_stops_what_its_tasks_have_started() {
        let scope = Scope::new();
        let (outer, outer_dropped) = guard();
        let (inner, inner_dropped) = guard();
        let (started, is_started) = oneshot::channel();
        let task = scope.spawn(async move {
            let _outer = outer;
            drop(spawn(async move {
                let _inner = inner;
                let _ = started.send(());
                std::future::pending::<()>().await;
            }));
            std::future::pending::<()>().await;
        });
        is_started.await.unwrap();
        scope.stop();
        assert!(task.await.unwrap_err().is_cancelled());
        outer_dropped.await.unwrap();
        inner_dropped.await.unwrap();
        assert!(scope.is_stopped());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_scope_has_ended_when_all_that_its_tasks_held_is_free() {
        let scope = Scope::new();
        scope.ended().await;
        let held = Arc::new(());
        for _ in 0..50 {
            let held = held.clone();
            drop(scope.spawn(async move {
                let _held = held;
                std::future::pending::<()>().await;
            }));
        }
        scope.stop();
        scope.ended().await;
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[tokio::test]
    async fn a_task_that_never_ran_leaves_after_what_it_held() {
        struct LooksAtItsScope(Scope, Arc<AtomicU64>);
        impl Drop for LooksAtItsScope {
            fn drop(&mut self) {
                self.1.store(self.0.inner.alive.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        }
        let scope = Scope::new();
        let seen = Arc::new(AtomicU64::new(0));
        let held = LooksAtItsScope(scope.clone(), seen.clone());
        let task = scope.spawn(async move {
            let _held = held;
        });
        scope.stop();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(seen.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_runs_in_a_scope_that_was_stopped() {
        let scope = Scope::new();
        scope.stop();
        for _ in 0..200 {
            assert!(scope.spawn(async { panic!("ran in a stopped scope") }).await.unwrap_err().is_cancelled());
        }
        let nested = scope.enter(async { spawn(async { panic!("ran in a stopped scope") }).await }).await;
        assert!(nested.unwrap_err().is_cancelled());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_scope_that_is_stopped_while_tasks_start_keeps_none_running() {
        for _ in 0..50 {
            let scope = Scope::new();
            let other = scope.clone();
            let starter =
                tokio::spawn(
                    async move { (0..20).map(|_| other.spawn(std::future::pending::<()>())).collect::<Vec<_>>() },
                );
            scope.stop();
            for task in starter.await.unwrap() {
                assert!(task.await.unwrap_err().is_cancelled());
            }
        }
    }

    #[tokio::test]
    async fn what_a_function_starts_belongs_to_the_scope_that_it_runs_within() {
        let scope = Scope::new();
        let task = scope.within(|| spawn(std::future::pending::<()>()));
        let free = spawn(async { 1 });
        scope.stop();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(free.await.unwrap(), 1);
    }

    #[test]
    fn what_is_at_home_elsewhere_runs_there_whoever_starts_it() {
        let runtime = |_: u8| tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (own, other) = (runtime(1), runtime(2));
        let (home, scope) = (Scope::new(), Scope::new());
        let home = own.block_on(home.enter(async { Home::current() }));
        // From another runtime, from a scope that was stopped, and from no runtime at all.
        let (sender, mut receiver) = tokio::sync::mpsc::channel(3);
        let start = |number: u8| {
            let sender = sender.clone();
            home.spawn(async move {
                let _ = sender.send((number, Handle::current().id())).await;
            });
        };
        other.block_on(async { start(1) });
        drop(other);
        scope.stop();
        own.block_on(scope.enter(async { start(2) }));
        start(3);
        let (id, mut got) = (own.handle().id(), [1, 2, 3].map(|_| own.block_on(receiver.recv()).unwrap()));
        got.sort_by_key(|(number, _)| *number);
        assert_eq!(got, [1, 2, 3].map(|number| (number, id)));
    }

    #[tokio::test]
    async fn nothing_runs_in_a_home_that_is_gone() {
        let scope = Scope::new();
        let home = scope.enter(async { Home::current() }).await;
        scope.stop();
        let (held, dropped) = guard();
        let (ran, has_run) = oneshot::channel();
        home.spawn(async move {
            let _held = held;
            ran.send(()).unwrap();
        });
        dropped.await.unwrap();
        has_run.await.unwrap_err();
    }

    #[tokio::test]
    async fn scopes_are_apart_and_what_has_none_runs_on() {
        let (one, two) = (Scope::new(), Scope::new());
        let (release, released) = oneshot::channel::<()>();
        let survivor = two.spawn(released);
        let free = spawn(async { 1 });
        one.stop();
        release.send(()).unwrap();
        survivor.await.unwrap().unwrap();
        assert_eq!(free.await.unwrap(), 1);
    }

    #[test]
    fn a_task_that_is_started_while_its_runtime_ends_is_dropped_and_blocks_nobody() {
        struct StartsOnDrop(Scope);
        impl Drop for StartsOnDrop {
            fn drop(&mut self) {
                drop(self.0.spawn(async {}));
            }
        }
        let scope = Scope::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let starts = StartsOnDrop(scope.clone());
        runtime.block_on(async {
            drop(tokio::spawn(async move {
                let _starts = starts;
                std::future::pending::<()>().await;
            }));
            tokio::task::yield_now().await;
        });
        drop(runtime);
        assert!(scope.running().as_ref().unwrap().is_empty());
    }

    #[test]
    fn blocking_work_runs_in_place_on_one_thread_and_apart_from_it_on_many() {
        let here = std::thread::current().id();
        let one = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(one.block_on(blocking(|| std::thread::current().id())), here);
        let many = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        assert_ne!(many.block_on(blocking(|| std::thread::current().id())), here);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_panic_in_blocking_work_is_passed_on() {
        let caller = tokio::spawn(blocking(|| panic!("at work")));
        assert!(caller.await.unwrap_err().is_panic());
    }
}
