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
use crate::call::finished::{Answer, Finished};
use crate::call::ground::Ground;
use crate::call::host::{Progress, Queued, Turn};

/// How many calls may be polled inside each other on one stack. Each takes a few hundred bytes to some kilobytes of it;
/// the next one gets a task of its own.
const NESTED_MAX: u32 = 8;

thread_local! {
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

/// A method of somebody, in words.
pub(crate) struct Subject<'c> {
    pub(crate) method: &'static str,
    pub(crate) whom: &'c (dyn fmt::Display + Sync),
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of {}", self.method, self.whom)
    }
}

impl Subject<'_> {
    pub(crate) fn cut_short(&self) -> Error {
        Error::new(
            ErrorKind::OutcomeUnknown,
            format!("{self} was cut short, because its partition was closed: read before you repeat the call"),
        )
    }

    pub(crate) fn late(&self) -> Error {
        Error::new(
            ErrorKind::OutcomeUnknown,
            format!("{self} is still running after the time limit: read before you repeat the call"),
        )
    }

    pub(crate) fn panicked(&self, panic: &(dyn std::any::Any + Send)) -> Error {
        let text = panic_text(panic);
        tracing::error!(subject = %self, panic = text, "a method panicked");
        Error::new(
            ErrorKind::OutcomeUnknown,
            format!("{self} panicked: {text}; what it had committed by then stays, the rest did not happen"),
        )
    }
}

/// Goes on with a turn that has come so far.
pub(crate) async fn go_on<R: Reply>(
    turn: Progress<R>,
    ground: Ground,
    subject: &Subject<'_>,
    deadline: &mut Deadline,
) -> Result<Finished<R>> {
    match turn {
        Progress::Ready(turn) => carry_out(turn, ground, subject, deadline).await,
        Progress::Moving(turn) => carry_on(turn, ground, subject, deadline).await,
        Progress::Finished(finished) => Ok(finished),
    }
}

/// Carries a turn out. A caller that goes away does not take the turn with it: one that is not ready at once runs on in a
/// task of its own.
async fn carry_out<R: Reply>(
    mut turn: Turn<R>,
    ground: Ground,
    subject: &Subject<'_>,
    deadline: &mut Deadline,
) -> Result<Finished<R>> {
    if may_nest() {
        let first = poll_fn(|cx| {
            Poll::Ready(match &ground {
                // What an actor starts is seen to by its turn.
                Ground::Actor(_) => poll_nested(&mut turn, cx),
                // What a service or a worker starts belongs to its partition or pool.
                Ground::Partition(_) | Ground::Pool(_) => ground.scope().within(|| poll_nested(&mut turn, cx)),
            })
        })
        .await;
        match first {
            Ok(Poll::Ready(finished)) => return Ok(finished),
            Ok(Poll::Pending) => {}
            Err(panic) => return Err(subject.panicked(&*panic)),
        }
    }
    carry_on(turn, ground, subject, deadline).await
}

/// Carries a turn out in a task of its own.
async fn carry_on<R: Reply>(
    mut turn: Turn<R>,
    ground: Ground,
    subject: &Subject<'_>,
    deadline: &mut Deadline,
) -> Result<Finished<R>> {
    let task = ground.scope().clone().spawn(async move {
        let _ground = ground;
        // One that has panicked is not polled again, and what it has seen is shared by `&self` in any case.
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

/// Waits for the answer of a call that is carried out by others.
pub(crate) async fn wait_in_line<R>(
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
                "{subject} was not begun within the time limit, because others were before it: nothing happened, retry"
            ),
        )),
    }
}

/// Waits until the answer of a turn may be known: when the turn is durable, and when the answer has been given.
pub(crate) async fn conclude<R: Reply>(finished: Finished<R>, subject: &Subject<'_>, deadline: &mut Deadline) -> R {
    let Finished { answer, hold } = finished;
    if let Some(hold) = hold {
        let opened = match deadline.moment() {
            Some(moment) => time::timeout_at(moment, hold.opened()).await,
            None => Ok(hold.opened().await),
        };
        match opened {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return R::failed(error),
            Err(time::Elapsed) => return R::failed(subject.late()),
        }
    }
    let later = match answer {
        Answer::Now(reply) => return reply,
        Answer::Later(later) => later,
    };
    let answered = match deadline.moment() {
        Some(moment) => time::timeout_at(moment, later.answer()).await,
        None => Ok(later.answer().await),
    };
    match answered {
        Ok(Some(reply)) => reply,
        Ok(None) => R::failed(Error::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "{subject} was to be answered later, and was forgotten: its actor was deactivated, or dropped the responder"
            ),
        )),
        Err(time::Elapsed) => R::failed(Error::new(
            ErrorKind::OutcomeUnknown,
            format!(
                "{subject} was to be answered later, and was not within the time limit: read before you repeat the call"
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

/// Counts how deep calls are nested on this stack, also when they panic.
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
