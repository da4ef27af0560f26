//! What happens in a turn: activation, the method, the seal.
//!
//! Only what runs the method itself depends on the method: the functions at the top. The rest is written once for an
//! actor, or once for all. A turn begins on the stack of whoever makes it, and most end there; one that has to wait for
//! something moves into a future of its own.

mod answers;
mod making;
mod turn;

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use mainstay_core::time;
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::actor::ActorWrites;

pub(crate) use self::making::revive;
use self::turn::{ActorTurn, Ending, Left};
use crate::actor::access::Access;
use crate::actor::cell::Held;
use crate::actor::gate::{self, Hold, Output};
use crate::actor::presence::Object;
use crate::actor::room::Room;
use crate::actor::site::Site;
use crate::actor::{Actor, TurnInfo};
use crate::call::arrival::{Call, Method};
use crate::call::contract::Outcome;
use crate::call::current::{Current, Remains, TurnKind};
use crate::call::finished::Finished;
use crate::call::host::Progress;
use crate::call::turn::{Nested, Subject, may_nest, panic_text};
use crate::observe::turn::TurnWatch;

/// Who sees to those that wait, when a turn has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Followers {
    /// The turn itself.
    Own,
    /// Whoever polls it.
    Others,
}

/// Carries a call out in a turn, as far as that goes at once.
#[inline]
pub(crate) fn start<T, R, A>(mut held: Held<'_, T>, access: A, call: Call, cx: &mut Context<'_>) -> Progress<R::Reply>
where
    T: Actor,
    R: Outcome,
    A: Access<T, R>,
{
    if !may_nest() {
        return Progress::Ready(Box::pin(carry_out(held.hand_over(), access, call, Followers::Own)));
    }
    let _nested = Nested::enter();
    let method = call.current.method.name();
    catch_unwind(AssertUnwindSafe(|| at_once(held, access, call, Followers::Own, cx))).unwrap_or_else(|panic| {
        // Outside of its method, as when the actor is dropped. It is not the fault of the caller.
        Progress::Finished(Finished::failed(Subject { method, whom: &T::NAME }.panicked(&*panic)))
    })
}

/// [`start`] where it does not matter how deep calls are nested.
///
/// Most turns need nothing before their method, and leave nothing to do behind it but the answer. They go by a short way;
/// whatever turns out to be more becomes an [`ActorTurn`].
#[inline]
pub(crate) fn at_once<T, R, A>(
    mut held: Held<'_, T>,
    access: A,
    call: Call,
    followers: Followers,
    cx: &mut Context<'_>,
) -> Progress<R::Reply>
where
    T: Actor,
    R: Outcome,
    A: Access<T, R>,
{
    let current = begin(&mut held, call, A::KIND);
    let is_plain = current.is_plain() && held.is_ready(A::KIND);
    let Some(object) = held.object.take_if(|_| is_plain) else {
        return in_full(ActorTurn::new(held, current, A::KIND, followers), access, cx);
    };
    let (method, running) = (current.method, time::coarse());
    let mut room = Room::new(method, || run(object, access, method));
    let mut slot = Some(current);
    let polled = Current::within(&mut slot, || Pin::new(&mut room).poll(cx));
    match (polled, slot) {
        (Poll::Ready((mut object, Ok(Ok(outcome)))), Some(current))
            if outcome.is_success()
                && is_quiet::<T>(held.site(), &current, A::KIND)
                && running.elapsed() < held.site().hall.settings.slow_turn =>
        {
            room.vacate(method);
            object.failures = current.failures;
            object.lent = current.end_quietly();
            held.object = Some(object);
            if held.put_back() && followers == Followers::Own {
                held.cell().drain(cx);
            }
            Progress::Finished(Finished::answered(outcome.into_answer()))
        }
        (polled, slot) => {
            let turn = ActorTurn::running(held, slot, method, running, A::KIND, followers);
            turn.go_on(polled, room, cx)
        }
    }
}

/// Carries out a turn that has begun, as far as that goes at once.
fn in_full<T, R, A>(mut turn: ActorTurn<'_, T>, access: A, cx: &mut Context<'_>) -> Progress<R::Reply>
where
    T: Actor,
    R: Outcome,
    A: Access<T, R>,
{
    let Some(object) = turn.ready() else {
        return Progress::Ready(Box::pin(prepared(turn.hand_over(), access)));
    };
    let mut room = Room::new(turn.method, || run(object, access, turn.method));
    let polled = turn.poll(Pin::new(&mut room), cx);
    turn.go_on(polled, room, cx)
}

/// Makes a turn of a call.
#[inline]
fn begin<T: Actor>(held: &mut Held<'_, T>, call: Call, kind: TurnKind) -> Box<Current> {
    let mut current = call.current;
    held.site().hall.ledger.method(current.method).invoked();
    let lent = held.object.as_mut().and_then(|object| object.lent.take());
    let site = lent.unwrap_or_else(|| held.site().clone());
    // What a turn sees was read when the object was: a commit that has failed since is one that it stands on.
    current.begin(site, kind, held.failures());
    if kind != TurnKind::Exclusive {
        // One that shares the actor changes nothing, and is just called.
        current.key = None;
    }
    current
}

/// True if there is nothing to store or send at the end of a turn, and nothing to wait for.
#[inline]
fn is_quiet<T: Actor>(site: &Site, current: &Current, kind: TurnKind) -> bool {
    !(T::KEEPS && kind == TurnKind::Exclusive) && current.is_quiet() && site.gate.is_open_for(current.failures)
}

/// Carries a call out in a turn.
pub(crate) fn carry_out<T, R, A>(
    mut held: Held<'static, T>,
    access: A,
    call: Call,
    followers: Followers,
) -> impl Future<Output = Finished<R::Reply>> + Send + 'static
where
    T: Actor,
    R: Outcome,
    A: Access<T, R>,
{
    let mut current = begin(&mut held, call, A::KIND);
    current.count_deadline();
    prepared(ActorTurn::new(held, current, A::KIND, followers), access)
}

/// Carries out a turn that has begun, with all that comes before its method.
async fn prepared<T, R, A>(mut turn: ActorTurn<'static, T>, access: A) -> Finished<R::Reply>
where
    T: Actor,
    R: Outcome,
    A: Access<T, R>,
{
    if R::ANSWERS_LATER && turn.key().is_some() {
        // Before it has run in vain, and called others on its way.
        let error = answers::kept_for_nobody(turn.held.site(), turn.method.name());
        return turn.leave(Finished::failed(error)).await;
    }
    if turn.has_to_prepare()
        && let Some(finished) = Box::pin(turn.prepare()).await
    {
        return finished;
    }
    let Some(object) = turn.held.object.take() else {
        let error = missing(turn.held.site());
        return turn.leave(Finished::failed(error)).await;
    };
    Moving { room: Room::new(turn.method, || run(object, access, turn.method)), ending: None, turn }.await
}

/// Runs a method with the hooks around it. Returns the object, and what the method has left.
#[allow(clippy::manual_async_fn, reason = "an `async fn` would have room for its arguments twice")]
#[inline]
fn run<T, R, A>(
    mut object: Object<T>,
    access: A,
    method: &'static Method,
) -> impl Future<Output = (Object<T>, Left<R>)> + Send
where
    T: Actor,
    R: Outcome,
    A: Access<T, R>,
{
    async move {
        let left = {
            let mut running = pin!(async {
                let info = TurnInfo { method: method.name(), is_exclusive: A::KIND == TurnKind::Exclusive };
                if let Some(hooks) = &T::LIFECYCLE {
                    (hooks.before)(&object.active().actor, info).await?;
                }
                // Awaited where it is made: to move it costs as much as to run a short one.
                let outcome = match A::target(&mut object) {
                    Some(target) => Some(access.invoke(target).await),
                    None => None,
                };
                let outcome = outcome.ok_or_else(|| missing(object.active().presence.site()))?;
                if let Some(hooks) = &T::LIFECYCLE
                    && outcome.is_success()
                {
                    (hooks.after)(&object.active().actor, info).await?;
                }
                Ok::<R, Error>(outcome)
            });
            // Here, and not around all of it: a panic must not drop the object on its way, which may panic as well.
            poll_fn(|cx| poll_caught(|| running.as_mut().poll(cx))).await
        };
        (object, left)
    }
}

/// A turn that goes on until it ends.
struct Moving<T: Actor, R: Outcome, F> {
    // In this order: the object is gone before its actor is free.
    room: Room<F>,
    ending: Option<Ending<R::Reply>>,
    turn: ActorTurn<'static, T>,
}

impl<T: Actor, R: Outcome, F> Unpin for Moving<T, R, F> {}

impl<T, R, F> Future for Moving<T, R, F>
where
    T: Actor,
    R: Outcome,
    F: Future<Output = (Object<T>, Left<R>)>,
{
    type Output = Finished<R::Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Finished<R::Reply>> {
        let Self { room, ending, turn } = &mut *self;
        let ending = match ending {
            Some(ending) => ending,
            None => {
                let Poll::Ready((object, left)) = turn.poll(Pin::new(room), cx) else {
                    turn.waits(cx);
                    return Poll::Pending;
                };
                match turn.end_at_once(object, left, cx) {
                    Ok(finished) => return Poll::Ready(finished),
                    Err(rest) => ending.insert(rest),
                }
            }
        };
        let finished = ready!(ending.as_mut().poll(cx));
        Poll::Ready(turn.left(finished, cx))
    }
}

/// Polls what runs in a turn.
#[inline]
fn poll_on_stage<F: Future>(
    watch: &mut TurnWatch,
    current: &mut Option<Box<Current>>,
    running: Pin<&mut F>,
    cx: &mut Context<'_>,
) -> Poll<F::Output> {
    watch.start();
    let trace = Current::take_trace(current);
    let polled = Current::within(current, || trace.within(|| running.poll(cx)));
    if let Some(current) = current {
        current.trace = trace;
    }
    polled
}

/// Polls code of the application. What has panicked is not polled again, and the object that it has seen is dropped.
#[inline]
fn poll_caught<R>(poll: impl FnOnce() -> Poll<R>) -> Poll<Result<R, String>> {
    match catch_unwind(AssertUnwindSafe(poll)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
        Err(panic) => Poll::Ready(Err(panic_text(&*panic).to_owned())),
    }
}

/// Runs something that an actor does beside its calls; an error is the text of its panic.
pub(crate) async fn in_turn<R>(
    current: &mut Option<Box<Current>>,
    method: impl Future<Output = R>,
) -> Result<R, String> {
    let mut method = pin!(method);
    poll_fn(|cx| Current::within(current, || poll_caught(|| method.as_mut().poll(cx)))).await
}

/// Runs code of the application that is part of no method; a panic in it is an error.
fn unless_panicking<R>(site: &Site, when: &str, work: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked_when(site, when, &*panic)))
}

#[cold]
fn panicked_when(site: &Site, when: &str, panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic_text(panic);
    tracing::error!(actor = %site, panic = text, "an actor panicked when {when}");
    Error::fatal(format!("{site} panicked when {when}: {text}; nothing of this turn was saved"))
}

/// What is left of a turn that has ended.
#[inline]
pub(crate) fn ended(current: Option<Box<Current>>) -> Remains {
    // It is there: whoever polls a turn puts it back.
    current.map(Current::end).unwrap_or_default()
}

/// [`gate::submit`] by one who keeps the actor until there is room.
pub(crate) async fn submit(
    site: &Arc<Site>,
    failures: u64,
    writes: Option<Box<ActorWrites>>,
    outputs: Vec<Output>,
) -> Option<Hold> {
    let mut remains = gate::Remains { writes, outputs };
    loop {
        let mut slot = Some(remains);
        let submitted = poll_fn(|cx| match slot.take() {
            Some(remains) => Poll::Ready(gate::submit(site, failures, remains, cx)),
            None => Poll::Pending,
        });
        match submitted.await {
            Ok(hold) => return hold,
            Err(crowded) => remains = crowded.over().await,
        }
    }
}

/// Adds later changes to earlier ones.
fn gather(writes: &mut Option<Box<ActorWrites>>, later: Option<Box<ActorWrites>>) -> Result<()> {
    match (writes.as_mut(), later) {
        (_, None) => Ok(()),
        (Some(writes), Some(later)) => writes.merge(*later),
        (None, later) => {
            *writes = later;
            Ok(())
        }
    }
}

fn turn_failed(site: &Site) -> Error {
    Error::new(
        ErrorKind::Retry,
        format!("the turn of {site} that was to send this has failed, and nothing of it happened"),
    )
}

fn missing(site: &Site) -> Error {
    Error::fatal(format!("{site} is not there after its activation: this is a defect of the runtime"))
}
