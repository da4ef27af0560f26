use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use mainstay_core::time::{self, Instant};
use mainstay_core::{Error, ErrorKind, Result};

use crate::contract::Outcome;
use crate::host::Turn;
use crate::slot::Ticket;

/// How many calls may be polled inside each other on one stack. Each takes a few hundred bytes to some kilobytes of it;
/// the next one gets a task of its own.
const NESTED_MAX: u32 = 8;

thread_local! {
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

/// Carries a turn out. A caller that goes away does not take the turn with it: one that is not ready at once runs on in a
/// task of its own.
pub(crate) async fn carry_out<R: Outcome>(turn: Turn<R>, ticket: Ticket, deadline: Option<Instant>) -> R {
    let (scope, subject) = (ticket.scope().clone(), ticket.subject());
    let mut running = Running { turn, ticket };
    let is_nested_deep = NESTED.get() >= NESTED_MAX;
    if !is_nested_deep {
        let first = std::future::poll_fn(|cx| Poll::Ready(scope.within(|| running.poll_once(cx)))).await;
        if let Poll::Ready(result) = first {
            return result;
        }
    }
    let task = scope.spawn(running);
    let ended = match deadline {
        Some(deadline) => time::timeout_at(deadline, task).await,
        None => Ok(task.await),
    };
    R::failed(match ended {
        Ok(Ok(result)) => return result,
        Ok(Err(_)) => Error::new(
            ErrorKind::OutcomeUnknown,
            format!("{subject} was cut short, because its partition was closed: read before you repeat the call"),
        ),
        Err(time::Elapsed) => Error::new(
            ErrorKind::OutcomeUnknown,
            format!("{subject} is still running after the time limit: read before you repeat the call"),
        ),
    })
}

/// A turn with what it holds while it runs.
struct Running<R> {
    turn: Turn<R>,
    ticket: Ticket,
}

impl<R: Outcome> Running<R> {
    fn poll_once(&mut self, cx: &mut Context<'_>) -> Poll<R> {
        let _nested = Nested::enter();
        // A turn that has panicked is not polled again, and the object is shared by `&self` with other calls in any case.
        match catch_unwind(AssertUnwindSafe(|| self.turn.as_mut().poll(cx))) {
            Ok(polled) => polled,
            Err(panic) => Poll::Ready(R::failed(self.panicked(&*panic))),
        }
    }

    fn panicked(&self, panic: &(dyn std::any::Any + Send)) -> Error {
        let (subject, text) = (self.ticket.subject(), panic_text(panic));
        tracing::error!(%subject, panic = text, "a method panicked");
        Error::new(
            ErrorKind::OutcomeUnknown,
            format!("{subject} panicked: {text}; what it had committed by then stays, the rest did not happen"),
        )
    }
}

impl<R: Outcome> Future for Running<R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        self.poll_once(cx)
    }
}

/// Counts how deep calls are nested on this stack, also when they panic.
struct Nested;

impl Nested {
    fn enter() -> Self {
        NESTED.set(NESTED.get() + 1);
        Self
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Runs a future to its end and makes an error of a panic.
pub(crate) async fn catching<T>(what: &str, future: impl Future<Output = Result<T>>) -> Result<T> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled,
        Err(panic) => Poll::Ready(Err(Error::fatal(format!("{what} panicked: {}", panic_text(&*panic))))),
    })
    .await
}
