use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

use super::Gone;

/// Blocking work that was [started](start_blocking). It goes on if this is dropped.
///
/// It is ready with [`Gone`] if the runtime ended before the work began, and if it is polled again after it was ready.
#[derive(Debug)]
#[must_use = "the outcome of the work is lost if it is not awaited"]
pub struct Blocking<T>(Work<T>);

#[derive(Debug)]
enum Work<T> {
    Done(Option<T>),
    Running(JoinHandle<T>),
}

// The value is never pinned.
impl<T> Unpin for Blocking<T> {}

/// Starts blocking work as [`blocking`](super::blocking) does it, for one that keeps the outcome in a field until it is there.
///
/// # Panics
/// Passes on a panic of `work`, when it is polled or here.
pub fn start_blocking<F, T>(work: F) -> Blocking<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Blocking(match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread => {
            Work::Running(runtime.spawn_blocking(work))
        }
        _ => Work::Done(Some(work())),
    })
}

impl<T> Future for Blocking<T> {
    type Output = Result<T, Gone>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let joined = match &mut self.0 {
            Work::Done(value) => return Poll::Ready(value.take().ok_or(Gone)),
            Work::Running(running) => ready!(Pin::new(running).poll(cx)),
        };
        self.0 = Work::Done(None);
        Poll::Ready(match joined {
            Ok(value) => Ok(value),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(Gone),
        })
    }
}
