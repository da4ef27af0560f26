use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use mainstay_core::time;
use mainstay_core::{Error, ErrorKind, Result};

use crate::call::arrival::Deadline;
use crate::call::contract::Reply;
use crate::call::finished::{Finished, MethodAnswer};
use crate::call::object_host::{Progress, Queued, Turn};
use crate::call::turn_scope::TurnScope;

/// The bound on calls that are polled inside each other on one stack. Each takes a few hundred bytes to some kilobytes; the
/// next one gets a task of its own.
const NESTED_MAX: u32 = 8;

thread_local! {
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

/// A method and its target, for error texts.
pub(crate) struct Subject<'c> {
    pub(crate) method: &'static str,
    pub(crate) target: &'c (dyn fmt::Display + Sync),
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of {}", self.method, self.target)
    }
}

impl Subject<'_> {
    pub(crate) fn cut_short(&self) -> Error {
        Error::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "{self} was cancelled, because its partition was closed: read the state before you repeat the call"
            ),
        )
    }

    pub(crate) fn late(&self) -> Error {
        Error::new(
            ErrorKind::OutcomeUnknown,
            format!("{self} is still running after the time limit: read the state before you repeat the call"),
        )
    }

    pub(crate) fn panicked(&self, panic: &(dyn std::any::Any + Send)) -> Error {
        let text = panic_text(panic);
        tracing::error!(subject = %self, panic = text, "a method panicked");
        Error::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "{self} panicked: {text}; its commits before the panic stay, the rest is rolled back: read the state before you repeat the call"
            ),
        )
    }
}

/// Drives a turn to its end, from whatever progress it has made.
pub(crate) async fn drive_turn<R: Reply>(
    turn: Progress<R>,
    turn_scope: TurnScope,
    subject: &Subject<'_>,
    deadline: &mut Deadline,
) -> Result<Finished<R>> {
    match turn {
        Progress::Ready(turn) => poll_inline(turn, turn_scope, subject, deadline).await,
        Progress::Moving(turn) => run_in_task(turn, turn_scope, subject, deadline).await,
        Progress::Finished(finished) => Ok(finished),
    }
}

/// Polls a turn on the caller's stack. If the first poll is pending, the turn moves to a task of its own, so that a caller
/// that is dropped does not cancel it.
async fn poll_inline<R: Reply>(
    mut turn: Turn<R>,
    turn_scope: TurnScope,
    subject: &Subject<'_>,
    deadline: &mut Deadline,
) -> Result<Finished<R>> {
    if may_nest() {
        let first = poll_fn(|cx| {
            Poll::Ready(match &turn_scope {
                // An actor's turn enters the scope itself.
                TurnScope::Actor(_) => poll_nested(&mut turn, cx),
                // Tasks that a service or a worker spawns belong to its partition or pool.
                TurnScope::Partition(_) | TurnScope::Pool(_) => {
                    turn_scope.scope().within(|| poll_nested(&mut turn, cx))
                }
            })
        })
        .await;
        match first {
            Ok(Poll::Ready(finished)) => return Ok(finished),
            Ok(Poll::Pending) => {}
            Err(panic) => return Err(subject.panicked(&*panic)),
        }
    }
    run_in_task(turn, turn_scope, subject, deadline).await
}

/// Runs a turn in a task of its own.
async fn run_in_task<R: Reply>(
    mut turn: Turn<R>,
    turn_scope: TurnScope,
    subject: &Subject<'_>,
    deadline: &mut Deadline,
) -> Result<Finished<R>> {
    let task = turn_scope.scope().clone().spawn(async move {
        let _turn_scope = turn_scope;
        // Unwind safe: a turn that panicked is not polled again, and shares its object by `&self` only.
        poll_fn(|cx| match poll_nested(&mut turn, cx) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(finished)) => Poll::Ready(Ok(finished)),
            Err(panic) => Poll::Ready(Err(panic)),
        })
        .await
    });
    let ended = match deadline.moment() {
        Some(moment) => time::timeout_at(moment, task).await,
        None => Ok(task.await),
    };
    match ended {
        Ok(Ok(Ok(finished))) => Ok(finished),
        Ok(Ok(Err(panic))) => Err(subject.panicked(&*panic)),
        Ok(Err(_)) => Err(subject.cut_short()),
        Err(time::Elapsed) => Err(subject.late()),
    }
}

/// Waits for the reply of a queued call.
pub(crate) async fn await_queued<R>(
    queued: Queued<R>,
    subject: &Subject<'_>,
    deadline: &mut Deadline,
) -> Result<Finished<R>> {
    let Queued { answer, is_claimed } = queued;
    let waited = match deadline.moment() {
        Some(moment) => time::timeout_at(moment, answer).await,
        None => Ok(answer.await),
    };
    match waited {
        Ok(Ok(finished)) => Ok(finished),
        Ok(Err(_)) => Err(subject.cut_short()),
        Err(time::Elapsed) if is_claimed.swap(true, Ordering::AcqRel) => Err(subject.late()),
        Err(time::Elapsed) => Err(Error::new(
            ErrorKind::Timeout,
            format!(
                "{subject} was not begun within the time limit, because calls before it took too long: nothing happened, retry"
            ),
        )),
    }
}

/// Waits until the reply of a turn may leave: until the turn is durable, and until a deferred reply was given. An error is one of
/// the runtime; those of the method are in the reply.
pub(crate) async fn conclude<R: Reply>(
    finished: Finished<R>,
    subject: &Subject<'_>,
    deadline: &mut Deadline,
) -> Result<R> {
    let Finished { answer, hold } = finished;
    if let Some(hold) = hold {
        let opened = match deadline.moment() {
            Some(moment) => time::timeout_at(moment, hold.opened()).await,
            None => Ok(hold.opened().await),
        };
        match opened {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(error),
            Err(time::Elapsed) => return Err(subject.late()),
        }
    }
    let later = match answer {
        MethodAnswer::Now(reply) => return Ok(reply),
        MethodAnswer::Failed(error) => return Err(error),
        MethodAnswer::Later(later) => later,
    };
    let answered = match deadline.moment() {
        Some(moment) => time::timeout_at(moment, later.answer()).await,
        None => Ok(later.answer().await),
    };
    match answered {
        Ok(Some(reply)) => Ok(reply),
        Ok(None) => Err(Error::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "{subject} has a deferred reply whose responder was dropped, by the method or because the actor was deactivated: \
                 read the state before you repeat the call"
            ),
        )),
        Err(time::Elapsed) => Err(Error::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "{subject} has a deferred reply that was not given within the time limit: read the state before you repeat the call"
            ),
        )),
    }
}

type Polled<R> = std::thread::Result<Poll<R>>;

fn poll_nested<R>(turn: &mut Turn<R>, cx: &mut Context<'_>) -> Polled<Finished<R>> {
    let _nested = Nested::enter();
    catch_unwind(AssertUnwindSafe(|| turn.as_mut().poll(cx)))
}

/// True if another call may be polled on this stack.
#[inline]
pub(crate) fn may_nest() -> bool {
    NESTED.get() < NESTED_MAX
}

/// Counts the nesting of polled calls on this stack, also through panics.
pub(crate) struct Nested;

impl Nested {
    #[inline]
    pub(crate) fn enter() -> Self {
        NESTED.set(NESTED.get() + 1);
        Self
    }
}

impl Drop for Nested {
    #[inline]
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Awaits a future, and turns a panic into an error.
pub(crate) async fn catching<T>(what: &str, future: impl Future<Output = Result<T>>) -> Result<T> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled,
        Err(panic) => Poll::Ready(Err(Error::fatal(format!("{what} panicked: {}", panic_text(&*panic))))),
    })
    .await
}
