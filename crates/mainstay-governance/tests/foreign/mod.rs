//! Callers that are not on the runtime of the node.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Where a caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// On a runtime of its own, which ends with it.
    OnOtherRuntime,
    /// On no runtime at all.
    OnNone,
}

impl Caller {
    pub(crate) const ALL: [Self; 2] = [Self::OnOtherRuntime, Self::OnNone];

    /// Runs a future there, on a thread of its own that has ended when this returns.
    pub(crate) fn run<F>(self, future: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let run = move || match self {
            Self::OnOtherRuntime => {
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
            }
            Self::OnNone => block_on(future),
        };
        thread::spawn(run).join().unwrap()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
