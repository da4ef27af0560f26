//! What happens in a turn: activation, the method, the seal.
//!
//! Only what runs the method itself depends on the method: the functions at the top. The rest is written once for an
//! actor, or once for all. A turn begins on the stack of whoever makes it, and most end there; one that has to wait for
//! something moves into a future of its own.

mod answers;
mod making;

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use mainstay_core::time::{self, Coarse};
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::actor::ActorWrites;

use self::answers::{known_answer, record_answer};
use self::making::{activate, restore};
use crate::actor::access::Access;
use crate::actor::cell::{Held, Object};
use crate::actor::deletion;
use crate::actor::gate::{self, Hold, Output};
use crate::actor::room::Room;
use crate::actor::site::Site;
use crate::actor::{Actor, ActorOpening, Seal, TurnInfo};
use crate::call::arrival::{Call, Method};
use crate::call::contract::{Outcome, Reply};
use crate::call::current::{Current, Remains, TurnKind};
use crate::call::finished::{Answer, Finished};
use crate::call::host::Progress;
use crate::call::turn::{Nested, Subject, may_nest, panic_text};
use crate::observe::storage::activating;
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
    let method = call.method.name();
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
    let mut room = Room::new(method, run(object, access, method));
    let mut slot = Some(current);
    let polled = poll_caught(|| Current::within(&mut slot, || Pin::new(&mut room).poll(cx)));
    match (polled, slot) {
        (Poll::Ready(Ok((object, Ok(outcome)))), Some(current))
            if outcome.is_success()
                && is_quiet::<T>(held.site(), &current, A::KIND)
                && running.elapsed() < held.site().hall.settings.slow_turn =>
        {
            room.vacate(method);
            held.object = Some(Object { failures: current.failures, ..object });
            held.lent = current.end_quietly();
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
    let mut room = Room::new(turn.method, run(object, access, turn.method));
    let polled = turn.poll(&mut room, cx);
    turn.go_on(polled, room, cx)
}

/// Makes a turn of a call.
#[inline]
fn begin<T: Actor>(held: &mut Held<'_, T>, call: Call, kind: TurnKind) -> Box<Current> {
    let mut current = call.into_current();
    held.site().hall.ledger.method(current.method).invoked();
    let site = held.lent.take().unwrap_or_else(|| held.site().clone());
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
    let current = begin(&mut held, call, A::KIND);
    prepared(ActorTurn::new(held, current, A::KIND, followers), access)
}

/// Carries out a turn that has begun, with all that comes before its method.
async fn prepared<T, R, A>(mut turn: ActorTurn<'static, T>, access: A) -> Finished<R::Reply>
where
    T: Actor,
    R: Outcome,
    A: Access<T, R>,
{
    if turn.has_to_prepare()
        && let Some(finished) = Box::pin(turn.prepare()).await
    {
        return finished;
    }
    let Some(object) = turn.held.object.take() else {
        let error = missing(turn.held.site());
        return turn.leave(Finished::failed(error)).await;
    };
    Moving { room: Room::new(turn.method, run(object, access, turn.method)), ending: None, turn }.await
}

/// Runs a method with the hooks around it. Returns the object, and the outcome.
#[allow(clippy::manual_async_fn, reason = "an `async fn` would have room for its arguments twice")]
fn run<T, R, A>(
    mut object: Object<T>,
    access: A,
    method: &'static Method,
) -> impl Future<Output = (Object<T>, Result<R>)> + Send
where
    T: Actor,
    R: Outcome,
    A: Access<T, R>,
{
    async move {
        let info = TurnInfo { method: method.name(), is_exclusive: A::KIND == TurnKind::Exclusive };
        if let Some(hooks) = &T::LIFECYCLE
            && let Err(error) = (hooks.before)(&object.possession.active().actor, info).await
        {
            return (object, Err(error));
        }
        let outcome = match access.invoke(&mut object.possession).await {
            Some(outcome) => outcome,
            None => {
                let error = missing(object.possession.active().presence.site());
                return (object, Err(error));
            }
        };
        if let Some(hooks) = &T::LIFECYCLE
            && outcome.is_success()
            && let Err(error) = (hooks.after)(&object.possession.active().actor, info).await
        {
            return (object, Err(error));
        }
        (object, Ok(outcome))
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
    F: Future<Output = (Object<T>, Result<R>)> + 'static,
{
    type Output = Finished<R::Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Finished<R::Reply>> {
        let Self { room, ending, turn } = &mut *self;
        let ending = match ending {
            Some(ending) => ending,
            None => {
                let Poll::Ready(left) = turn.poll(room, cx) else {
                    turn.waits(cx);
                    return Poll::Pending;
                };
                if left.is_err() {
                    turn.held.cell().let_go(|| room.clear());
                }
                match turn.end_at_once(left, cx) {
                    Ok(finished) => return Poll::Ready(finished),
                    Err(rest) => ending.insert(rest),
                }
            }
        };
        let finished = ready!(ending.as_mut().poll(cx));
        Poll::Ready(turn.left(finished, cx))
    }
}

/// A turn of an actor: all of it but the method.
struct ActorTurn<'c, T: Actor> {
    held: Held<'c, T>,
    watch: TurnWatch,
    /// Taken out while the method is polled.
    current: Option<Box<Current>>,
    method: &'static Method,
    kind: TurnKind,
    followers: Followers,
    /// What the activation before it has changed.
    writes: Option<Box<ActorWrites>>,
}

/// What a method left behind: the object and its outcome, or the text of its panic.
type Left<T, R> = Result<(Object<T>, Result<R>), String>;

/// The end of a turn that takes some waiting.
type Ending<R> = Pin<Box<dyn Future<Output = Finished<R>> + Send>>;

impl<'c, T: Actor> ActorTurn<'c, T> {
    fn new(held: Held<'c, T>, mut current: Box<Current>, kind: TurnKind, followers: Followers) -> Self {
        let (method, is_measured) = (current.method, current.arrived.take().is_some());
        let watch = TurnWatch::begin(method, is_measured);
        Self { held, watch, current: Some(current), method, kind, followers, writes: None }
    }

    /// One whose method has run since a moment.
    fn running(
        held: Held<'c, T>,
        current: Option<Box<Current>>,
        method: &'static Method,
        since: Coarse,
        kind: TurnKind,
        followers: Followers,
    ) -> Self {
        let watch = TurnWatch::running(method, since);
        Self { held, watch, current, method, kind, followers, writes: None }
    }

    /// The same in hands that keep it; these have none any more.
    #[cold]
    fn hand_over(&mut self) -> ActorTurn<'static, T> {
        let Self { method, kind, followers, .. } = *self;
        let (held, watch) = (self.held.hand_over(), self.watch.hand_over());
        let (mut current, writes) = (self.current.take(), self.writes.take());
        if let Some(current) = &mut current {
            current.count_deadline();
        }
        ActorTurn { held, watch, current, method, kind, followers, writes }
    }

    /// What makes a repeated call the same one.
    #[inline]
    fn key(&self) -> Option<&Arc<str>> {
        self.current.as_ref().and_then(|current| current.key.as_ref())
    }

    /// The object, if there is nothing to do before the method can run.
    fn ready(&mut self) -> Option<Object<T>> {
        if self.has_to_prepare() { None } else { self.held.object.take() }
    }

    /// True if there is something to do before the method can run.
    fn has_to_prepare(&self) -> bool {
        self.key().is_some() || !self.held.is_ready(self.kind)
    }

    /// Activates the actor, and looks for the answer that was given before. Returns how the turn ends, if it does.
    async fn prepare<R: Reply>(&mut self) -> Option<Finished<R>> {
        if !self.held.is_fresh() && !self.held.is_exclusive() {
            // A commit has failed since it was let in. An actor is made by who has it to itself, and others share this one.
            let error = gate::stale(self.held.site());
            return Some(self.leave(Finished::failed(error)).await);
        }
        if !self.held.is_fresh() {
            let site = self.held.site().clone();
            let trace = self.current.as_mut().map(|current| std::mem::take(&mut current.trace)).unwrap_or_default();
            let activated = {
                let mut activation = pin!(activating(&site, activate(&mut self.held)));
                poll_fn(|cx| trace.within(|| activation.as_mut().poll(cx))).await
            };
            if let Some(current) = &mut self.current {
                current.trace = trace;
            }
            match activated {
                Ok(changed) => self.writes = changed,
                Err(error) => return Some(self.leave(Finished::failed(error)).await),
            }
            let failures = self.held.failures();
            if let Some(current) = &mut self.current {
                current.failures = failures;
            }
        }
        if self.kind == TurnKind::Shared && self.held.is_exclusive() {
            self.held.downgrade();
            self.held.cell().clone().drained().await;
        }
        let key = self.key()?.clone();
        match known_answer::<R>(self.held.site(), &key, self.method.name()) {
            Ok(None) => None,
            Ok(Some(reply)) => {
                self.watch.succeed();
                let hold = submit(self.held.site(), self.held.failures(), self.writes.take(), Vec::new()).await;
                Some(self.leave(Finished { answer: Answer::Now(reply), hold }).await)
            }
            Err(error) => Some(self.leave(Finished::failed(error)).await),
        }
    }

    /// Polls the method. One that has panicked is not polled again, and the object that it has seen goes with it.
    fn poll<R, F>(&mut self, room: &mut Room<F>, cx: &mut Context<'_>) -> Poll<Left<T, R>>
    where
        F: Future<Output = (Object<T>, Result<R>)> + 'static,
    {
        let Self { watch, current, .. } = self;
        poll_caught(|| poll_on_stage(watch, current, Pin::new(room), cx))
    }

    /// Goes on with a turn whose method was polled.
    fn go_on<R, F>(mut self, polled: Poll<Left<T, R>>, mut room: Room<F>, cx: &mut Context<'_>) -> Progress<R::Reply>
    where
        R: Outcome,
        F: Future<Output = (Object<T>, Result<R>)> + Send + 'static,
    {
        let left = match polled {
            Poll::Ready(left) => left,
            Poll::Pending => {
                self.waits(cx);
                return Progress::Moving(Box::pin(Moving { room, ending: None, turn: self.hand_over() }));
            }
        };
        if left.is_err() {
            self.held.cell().let_go(|| room.clear());
        }
        room.vacate(self.method);
        match self.end_at_once(left, cx) {
            Ok(finished) => Progress::Finished(finished),
            Err(ending) => {
                let mut turn = self.hand_over();
                Progress::Moving(Box::pin(async move { turn.leave(ending.await).await }))
            }
        }
    }

    /// Ends the turn, if that takes no waiting: what it has changed is sealed, and those who wait get theirs.
    fn end_at_once<R: Outcome>(
        &mut self,
        left: Left<T, R>,
        cx: &mut Context<'_>,
    ) -> Result<Finished<R::Reply>, Ending<R::Reply>> {
        self.watch.ended(self.held.site());
        let Remains { site, writes: changes, outputs, failures, key } = ended(self.current.take());
        self.held.lent = site;
        let left = left.map(|(object, outcome)| {
            self.held.object = Some(object);
            outcome
        });
        let (answer, is_success) = match left {
            Ok(Ok(outcome)) => {
                let is_success = outcome.is_success();
                (outcome.into_answer(), is_success)
            }
            Ok(Err(error)) => (Answer::Now(R::Reply::failed(error)), false),
            Err(panic) => (Answer::Now(R::Reply::failed(self.panicked(&panic))), false),
        };
        if !is_success {
            let hold = self.fail(failures, outputs, cx);
            return Ok(self.left(Finished { answer, hold }, cx));
        }
        self.watch.succeed();
        if self.kind == TurnKind::Exclusive {
            if let Some(object) = &mut self.held.object {
                // It may have been read anew in the turn, after a save that failed.
                object.failures = failures;
            }
            if changes.as_ref().is_some_and(|changes| changes.is_deleted()) {
                self.held.site().is_in_passing.store(false, Ordering::Relaxed);
                return Err(self.delete(failures, outputs, answer));
            }
        }
        if changes.is_some() || key.is_some() || (T::KEEPS && self.kind == TurnKind::Exclusive) {
            let is_new = self.writes.is_some();
            let sealed = catch_unwind(AssertUnwindSafe(|| self.seal(changes, key.as_deref(), &answer)));
            let sealed = sealed
                .unwrap_or_else(|panic| Err(panicked_when(self.held.site(), "its state was being stored", &*panic)));
            if let Err(error) = sealed {
                let hold = self.fail_sealed(is_new, failures, outputs, cx);
                return Ok(self.left(Finished { hold, ..Finished::failed(error) }, cx));
            }
        }
        let hold = gate::submit(self.held.site(), failures, self.writes.take(), outputs, cx);
        match hold {
            Some(hold) if self.kind == TurnKind::Exclusive && !self.held.site().hall.overlap => {
                self.held.site().is_in_passing.store(false, Ordering::Relaxed);
                Err(Box::pin(async move {
                    match hold.opened().await {
                        Ok(()) => Finished { answer, hold: None },
                        Err(error) => Finished::failed(error),
                    }
                }))
            }
            hold => Ok(self.left(Finished { answer, hold }, cx)),
        }
    }

    /// Sees to a turn that waits: to those who come, and to whoever looks at one that takes too long.
    fn waits(&mut self, cx: &mut Context<'_>) {
        let site = self.held.site();
        site.is_in_passing.store(false, Ordering::Relaxed);
        self.watch.wait(site, cx);
    }

    /// Collects what the turn has changed, with the answer that is to be given again.
    fn seal<R: Reply>(
        &mut self,
        changes: Option<Box<ActorWrites>>,
        key: Option<&str>,
        answer: &Answer<R>,
    ) -> Result<()> {
        gather(&mut self.writes, changes)?;
        if self.kind == TurnKind::Exclusive {
            let (site, actor) = self.held.parts_mut();
            let actor = actor.ok_or_else(|| missing(site))?;
            actor.seal(&mut Seal { site, writes: &mut self.writes })?;
        }
        record_answer(self.held.site(), key, self.method.name(), answer, &mut self.writes)
    }

    /// Ends a turn that has failed: nothing of it happened.
    #[cold]
    fn fail(&mut self, failures: u64, outputs: Vec<Output>, cx: &mut Context<'_>) -> Option<Hold> {
        let site = self.held.site().clone();
        outputs.into_iter().for_each(|output| output(Err(turn_failed(&site))));
        if self.kind == TurnKind::Exclusive {
            restore(&mut self.held, &ActorOpening { site: &site, is_undone: false });
        }
        gate::submit(&site, failures, self.writes.take(), Vec::new(), cx)
    }

    /// Ends a turn whose changes cannot be stored. Some fields have handed over what is not committed.
    #[cold]
    fn fail_sealed(&mut self, is_new: bool, failures: u64, outputs: Vec<Output>, cx: &mut Context<'_>) -> Option<Hold> {
        self.watch.fail();
        let site = self.held.site().clone();
        outputs.into_iter().for_each(|output| output(Err(turn_failed(&site))));
        if self.kind == TurnKind::Exclusive {
            restore(&mut self.held, &ActorOpening { site: &site, is_undone: true });
        }
        let known = is_new.then(|| {
            let mut known = ActorWrites::new(site.id.clone());
            known.mark_known();
            Box::new(known)
        });
        gate::submit(&site, failures, known, Vec::new(), cx)
    }

    #[cold]
    fn panicked(&mut self, panic: &str) -> Error {
        self.held.spoil();
        let (site, method) = (self.held.site(), self.method.name());
        tracing::error!(actor = %site, method, panic, "a method panicked");
        let what = match self.kind {
            TurnKind::Shared => "the actor is reset",
            _ => "nothing of this call was saved, and the actor was reset",
        };
        Error::new(ErrorKind::Fatal, format!("`{method}` of {site} panicked: {panic}; {what}"))
    }

    /// Ends a turn in which the actor has deleted itself.
    #[cold]
    fn delete<R: Reply>(&mut self, failures: u64, outputs: Vec<Output>, answer: Answer<R>) -> Ending<R> {
        let (held, followers) = (self.held.hand_over(), self.followers);
        Box::pin(async move {
            let cell = held.cell().clone();
            let (finished, is_wanted) = deletion::with_turn(held, failures, outputs, answer).await;
            if is_wanted && followers == Followers::Own {
                cell.drained().await;
            }
            finished
        })
    }

    /// Gives the actor back to those who wait.
    fn left<R>(&mut self, finished: Finished<R>, cx: &mut Context<'_>) -> Finished<R> {
        self.watch.over(self.held.site());
        // Before those who wait have their turns: it and its span are over.
        drop(self.current.take());
        if self.held.put_back() && self.followers == Followers::Own {
            self.held.cell().drain(cx);
        }
        finished
    }

    /// [`left`](ActorTurn::left) after some waiting.
    async fn leave<R>(&mut self, finished: Finished<R>) -> Finished<R> {
        let mut finished = Some(finished);
        poll_fn(|cx| finished.take().map_or(Poll::Pending, |finished| Poll::Ready(self.left(finished, cx)))).await
    }
}

/// Also a turn that is cut short.
impl<T: Actor> Drop for ActorTurn<'_, T> {
    fn drop(&mut self) {
        self.watch.over(self.held.site());
        // Before the actor is free again, because it is part of the chain until then.
        drop(self.current.take());
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
    let trace = current.as_mut().map(|current| std::mem::take(&mut current.trace)).unwrap_or_default();
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

pub(crate) async fn submit(
    site: &Arc<Site>,
    failures: u64,
    writes: Option<Box<ActorWrites>>,
    outputs: Vec<Output>,
) -> Option<Hold> {
    let mut parts = Some((writes, outputs));
    poll_fn(|cx| {
        let (writes, outputs) = parts.take().unwrap_or_default();
        Poll::Ready(gate::submit(site, failures, writes, outputs, cx))
    })
    .await
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
