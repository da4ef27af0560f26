use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::runtime::{Handle, Id};
use tokio::task::JoinHandle;

use super::runtime;
use super::scope::Scope;
use crate::time::{self, Duration, Elapsed};

/// Where tasks run: a runtime, and a scope of it. For what has to go on however and wherever somebody else drops it, and for
/// what others ask for who may be on another runtime, or on none.
#[derive(Debug, Clone)]
pub struct Home {
    runtime: Option<(Id, Handle)>,
    scope: Option<Scope>,
}

/// Nothing runs there any more: the runtime has ended, or the scope was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime on which this was to run has ended")
    }
}

impl std::error::Error for Gone {}

impl Home {
    /// Where a task would run that is started here and now.
    pub fn current() -> Self {
        let runtime = Handle::try_current().ok().map(|handle| (handle.id(), handle));
        Self { runtime, scope: Scope::current() }
    }

    /// The same runtime, and no scope: for what is on behalf of those who call, and ends with them.
    #[must_use]
    pub fn without_scope(self) -> Self {
        Self { scope: None, ..self }
    }

    /// True if there is a runtime.
    pub fn is_in_runtime(&self) -> bool {
        self.runtime.is_some()
    }

    /// True if whoever polls with this context does so on this runtime, or if none is known.
    #[inline]
    pub fn is_here(&self, cx: &Context<'_>) -> bool {
        match &self.runtime {
            Some((id, _)) => runtime::of(cx) == Some(*id),
            None => true,
        }
    }

    /// Starts a task there, whoever calls this. It is dropped and never runs if the runtime has ended or the scope was
    /// stopped, or if there is no runtime at all.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.start(future));
    }

    fn start<F>(&self, future: F) -> Option<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let runtime = self.runtime.as_ref().map(|(_, handle)| handle.clone());
        let runtime = runtime.or_else(|| Handle::try_current().ok())?;
        Some(match &self.scope {
            Some(scope) => scope.spawn_on(&runtime, future),
            // Not in the scope of whoever calls this.
            None => runtime.spawn(future),
        })
    }

    /// Runs a future there, whoever polls this: in place by one who is there, and else as a task. Dropping this drops
    /// the future.
    ///
    /// # Errors
    /// [`Gone`] if nothing runs there any more.
    ///
    /// # Panics
    /// Passes on a panic of the future.
    pub async fn run<F>(&self, future: F) -> Result<F::Output, Gone>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match poll_fn(|cx| Poll::Ready(self.is_here(cx))).await {
            true => Ok(future.await),
            false => self.run_apart(future).await,
        }
    }

    /// [`run`](Home::run) by one who is elsewhere.
    ///
    /// # Errors
    /// As [`run`](Home::run).
    ///
    /// # Panics
    /// As [`run`](Home::run).
    pub async fn run_apart<F>(&self, future: F) -> Result<F::Output, Gone>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let mut task = AbortOnDrop(self.start(future).ok_or(Gone)?);
        match (&mut task.0).await {
            Ok(output) => Ok(output),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(Gone),
        }
    }

    /// Waits for a length of time by the clock of this runtime, whoever polls this; not at all once it has ended.
    pub async fn sleep(&self, duration: Duration) {
        match poll_fn(|cx| Poll::Ready(self.is_here(cx))).await {
            true => time::sleep(duration).await,
            false => self.sleep_apart(duration).await,
        }
    }

    /// [`sleep`](Home::sleep) by one who is elsewhere. It is of no scope: it ends with who waits, and nobody else waits for it.
    async fn sleep_apart(&self, duration: Duration) {
        // Where nothing runs any more, time does not pass either.
        let _ = self.clone().without_scope().run_apart(time::sleep(duration)).await;
    }

    /// Waits for a future, but no longer than a length of time by the clock of this runtime, whoever polls this. The future is
    /// polled where this is.
    ///
    /// # Errors
    /// [`Elapsed`] if the time passed first, or if the runtime has ended; the future is dropped.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Result<F::Output, Elapsed> {
        if poll_fn(|cx| Poll::Ready(self.is_here(cx))).await {
            return time::timeout(limit, future).await;
        }
        let (mut future, mut over) = (pin!(future), pin!(self.sleep_apart(limit)));
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => over.as_mut().poll(cx).map(|()| Err(Elapsed)),
        })
        .await
    }
}

/// A task that ends with whoever waits for it.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
