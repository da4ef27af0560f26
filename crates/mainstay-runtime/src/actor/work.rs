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
use crate::actor::actor_shared::ActorShared;
use crate::actor::cell::ActorGuard;
use crate::actor::gate::{self, Hold, Output};
use crate::actor::pooled_future::PooledFuture;
use crate::actor::presence::Object;
use crate::actor::{Actor, TurnInfo};
use crate::call::arrival::{Call, Method};
use crate::call::contract::MethodResult;
use crate::call::current::{Current, EndedTurn, TurnKind};
use crate::call::finished::Finished;
use crate::call::object_host::Progress;
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
pub(crate) fn start<T, R, A>(
    mut guard: ActorGuard<'_, T>,
    access: A,
    call: Call,
    cx: &mut Context<'_>,
) -> Progress<R::Reply>
where
    T: Actor,
    R: MethodResult,
    A: Access<T, R>,
{
    if !may_nest() {
        return Progress::Ready(Box::pin(carry_out(guard.hand_over(), access, call, Followers::Own)));
    }
    let _nested = Nested::enter();
    let method = call.current.method.name();
    catch_unwind(AssertUnwindSafe(|| at_once(guard, access, call, Followers::Own, cx))).unwrap_or_else(|panic| {
        // Outside of its method, as when the actor is dropped. It is not the fault of the caller.
        Progress::Finished(Finished::failed(Subject { method, target: &T::NAME }.panicked(&*panic)))
    })
}

/// [`start`] where it does not matter how deep calls are nested.
///
/// Most turns need nothing before their method, and leave nothing to do behind it but the answer. They go by a short way;
/// whatever turns out to be more becomes an [`ActorTurn`].
#[inline]
pub(crate) fn at_once<T, R, A>(
    mut guard: ActorGuard<'_, T>,
    access: A,
    call: Call,
    followers: Followers,
    cx: &mut Context<'_>,
) -> Progress<R::Reply>
where
    T: Actor,
    R: MethodResult,
    A: Access<T, R>,
{
    let current = begin(&mut guard, call, A::KIND);
    let is_plain = current.is_plain() && guard.is_ready(A::KIND);
    let Some(object) = guard.object.take_if(|_| is_plain) else {
        return in_full(ActorTurn::new(guard, current, A::KIND, followers), access, cx);
    };
    let (method, running) = (current.method, time::coarse());
    let mut future = PooledFuture::new(method, || run(object, access, method));
    let mut slot = Some(current);
    let polled = Current::within(&mut slot, || Pin::new(&mut future).poll(cx));
    match (polled, slot) {
        (Poll::Ready((mut object, Ok(Ok(outcome)))), Some(current))
            if outcome.is_success()
                && guard.actor_shared().partition.holds_lease()
                && is_quiet::<T>(guard.actor_shared(), &current, A::KIND)
                && running.elapsed() < guard.actor_shared().partition.settings.slow_turn =>
        {
            future.vacate(method);
            object.generation = current.generation;
            object.lent = current.end_quietly();
            guard.object = Some(object);
            if guard.put_back() && followers == Followers::Own {
                guard.cell().drain(cx);
            }
            Progress::Finished(Finished::answered(outcome.into_answer()))
        }
        (polled, slot) => {
            let turn = ActorTurn::running(guard, slot, method, running, A::KIND, followers);
            turn.go_on(polled, future, cx)
        }
    }
}

/// Carries out a turn that has begun, as far as that goes at once.
fn in_full<T, R, A>(mut turn: ActorTurn<'_, T>, access: A, cx: &mut Context<'_>) -> Progress<R::Reply>
where
    T: Actor,
    R: MethodResult,
    A: Access<T, R>,
{
    let Some(object) = turn.ready() else {
        return Progress::Ready(Box::pin(prepared(turn.hand_over(), access)));
    };
    let mut future = PooledFuture::new(turn.method, || run(object, access, turn.method));
    let polled = turn.poll(Pin::new(&mut future), cx);
    turn.go_on(polled, future, cx)
}

/// Makes a turn of a call.
#[inline]
fn begin<T: Actor>(guard: &mut ActorGuard<'_, T>, call: Call, kind: TurnKind) -> Box<Current> {
    let mut current = call.current;
    guard.actor_shared().partition.counters.method(current.method).invoked();
    let lent = guard.object.as_mut().and_then(|object| object.lent.take());
    let shared = lent.unwrap_or_else(|| guard.actor_shared().clone());
    // What a turn sees was read when the object was: a commit that has failed since is one that it stands on.
    current.begin(shared, kind, guard.generation());
    if kind != TurnKind::Exclusive {
        // One that shares the actor changes nothing, and is just called.
        current.key = None;
    }
    current
}

/// True if there is nothing to store or send at the end of a turn, and nothing to wait for.
#[inline]
fn is_quiet<T: Actor>(shared: &ActorShared, current: &Current, kind: TurnKind) -> bool {
    !(T::KEEPS && kind == TurnKind::Exclusive) && current.is_quiet() && shared.gate.is_open_for(current.generation)
}

/// Carries a call out in a turn.
pub(crate) fn carry_out<T, R, A>(
    mut guard: ActorGuard<'static, T>,
    access: A,
    call: Call,
    followers: Followers,
) -> impl Future<Output = Finished<R::Reply>> + Send + 'static
where
    T: Actor,
    R: MethodResult,
    A: Access<T, R>,
{
    let mut current = begin(&mut guard, call, A::KIND);
    current.count_deadline();
    prepared(ActorTurn::new(guard, current, A::KIND, followers), access)
}

/// Carries out a turn that has begun, with all that comes before its method.
async fn prepared<T, R, A>(mut turn: ActorTurn<'static, T>, access: A) -> Finished<R::Reply>
where
    T: Actor,
    R: MethodResult,
    A: Access<T, R>,
{
    if R::ANSWERS_LATER && turn.key().is_some() {
        // Before it has run in vain, and called others on its way.
        let error = answers::kept_for_nobody(turn.guard.actor_shared(), turn.method.name());
        return turn.leave(Finished::failed(error)).await;
    }
    if turn.has_to_prepare()
        && let Some(finished) = Box::pin(turn.prepare()).await
    {
        return finished;
    }
    let Some(object) = turn.guard.object.take() else {
        let error = missing(turn.guard.actor_shared());
        return turn.leave(Finished::failed(error)).await;
    };
    Moving { future: PooledFuture::new(turn.method, || run(object, access, turn.method)), ending: None, turn }.await
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
    R: MethodResult,
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
                let outcome = outcome.ok_or_else(|| missing(object.active().presence.actor_shared()))?;
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
struct Moving<T: Actor, R: MethodResult, F> {
    // In this order: the object is gone before its actor is free.
    future: PooledFuture<F>,
    ending: Option<Ending<R::Reply>>,
    turn: ActorTurn<'static, T>,
}

impl<T: Actor, R: MethodResult, F> Unpin for Moving<T, R, F> {}

impl<T, R, F> Future for Moving<T, R, F>
where
    T: Actor,
    R: MethodResult,
    F: Future<Output = (Object<T>, Left<R>)>,
{
    type Output = Finished<R::Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Finished<R::Reply>> {
        let Self { future, ending, turn } = &mut *self;
        let ending = match ending {
            Some(ending) => ending,
            None => {
                let Poll::Ready((object, left)) = turn.poll(Pin::new(future), cx) else {
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
fn unless_panicking<R>(shared: &ActorShared, when: &str, work: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked_when(shared, when, &*panic)))
}

#[cold]
fn panicked_when(shared: &ActorShared, when: &str, panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic_text(panic);
    tracing::error!(actor = %shared, panic = text, "an actor panicked when {when}");
    Error::fatal(format!("{shared} panicked when {when}: {text}; nothing of this turn was saved"))
}

/// What is left of a turn that has ended.
#[inline]
pub(crate) fn ended(current: Option<Box<Current>>) -> EndedTurn {
    // It is there: whoever polls a turn puts it back.
    current.map(Current::end).unwrap_or_default()
}

/// [`gate::submit`] by one who keeps the actor until there is future.
pub(crate) async fn submit(
    shared: &Arc<ActorShared>,
    generation: u64,
    writes: Option<Box<ActorWrites>>,
    outputs: Vec<Output>,
) -> Option<Hold> {
    let mut effects = gate::TurnEffects { writes, outputs };
    loop {
        let mut slot = Some(effects);
        let submitted = poll_fn(|cx| match slot.take() {
            Some(effects) => Poll::Ready(gate::submit(shared, generation, effects, cx)),
            None => Poll::Pending,
        });
        match submitted.await {
            Ok(hold) => return hold,
            Err(crowded) => effects = crowded.over().await,
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

fn turn_failed(shared: &ActorShared) -> Error {
    Error::new(
        ErrorKind::Retry,
        format!("the turn of {shared} that was to send this has failed, and nothing of it happened"),
    )
}

fn missing(shared: &ActorShared) -> Error {
    Error::fatal(format!("{shared} is not there after its activation: this is a defect of the runtime"))
}
