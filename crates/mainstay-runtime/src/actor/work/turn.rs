//! All of a turn but its method: what comes before it, and what becomes of it.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use mainstay_core::time::Coarse;
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::actor::ActorWrites;

use super::answers::{known_answer, record_answer, record_failure, refuse_if_full};
use super::making::{activate, restore};
use super::{Followers, Moving, ended, gather, missing, panicked_when, poll_on_stage, submit, turn_failed};
use crate::actor::cell::ActorGuard;
use crate::actor::deletion;
use crate::actor::gate::{self, Crowded, Hold, Output, TurnEffects};
use crate::actor::pooled_future::PooledFuture;
use crate::actor::presence::Object;
use crate::actor::{Actor, ActorOpening, Seal};
use crate::call::arrival::Method;
use crate::call::contract::{MethodResult, Reply};
use crate::call::current::{self, Current, TurnKind};
use crate::call::finished::{Finished, MethodAnswer};
use crate::call::idempotency::CallKey;
use crate::call::object_host::Progress;
use crate::observe::storage::activating;
use crate::observe::turn::TurnWatch;

/// A turn of an actor: all of it but the method.
pub(super) struct ActorTurn<'c, T: Actor> {
    pub(super) guard: ActorGuard<'c, T>,
    watch: TurnWatch,
    /// Taken out while the method is polled.
    current: Option<Box<Current>>,
    pub(super) method: &'static Method,
    kind: TurnKind,
    followers: Followers,
    /// What the activation before it has changed.
    writes: Option<Box<ActorWrites>>,
}

/// What a method left behind: its outcome, or the text of its panic.
pub(super) type Left<R> = Result<Result<R>, String>;

/// The end of a turn that takes some waiting.
pub(super) type Ending<R> = Pin<Box<dyn Future<Output = Finished<R>> + Send>>;

impl<'c, T: Actor> ActorTurn<'c, T> {
    pub(super) fn new(
        guard: ActorGuard<'c, T>,
        mut current: Box<Current>,
        kind: TurnKind,
        followers: Followers,
    ) -> Self {
        let (method, is_measured) = (current.method, current.arrived.take().is_some());
        let watch = TurnWatch::begin(method, is_measured);
        Self { guard, watch, current: Some(current), method, kind, followers, writes: None }
    }

    /// One whose method has run since a moment.
    pub(super) fn running(
        guard: ActorGuard<'c, T>,
        current: Option<Box<Current>>,
        method: &'static Method,
        since: Coarse,
        kind: TurnKind,
        followers: Followers,
    ) -> Self {
        let watch = TurnWatch::running(method, since);
        Self { guard, watch, current, method, kind, followers, writes: None }
    }

    /// The same in hands that keep it; these have none any more.
    #[cold]
    pub(super) fn hand_over(&mut self) -> ActorTurn<'static, T> {
        let Self { method, kind, followers, .. } = *self;
        let (guard, watch) = (self.guard.hand_over(), self.watch.hand_over());
        let (mut current, writes) = (self.current.take(), self.writes.take());
        if let Some(current) = &mut current {
            current.count_deadline();
        }
        ActorTurn { guard, watch, current, method, kind, followers, writes }
    }

    /// What makes a repeated call the same one.
    #[inline]
    pub(super) fn key(&self) -> Option<&Arc<CallKey>> {
        self.current.as_ref().and_then(|current| current.key.as_ref())
    }

    /// The object, if there is nothing to do before the method can run.
    pub(super) fn ready(&mut self) -> Option<Object<T>> {
        if self.has_to_prepare() { None } else { self.guard.object.take() }
    }

    /// True if there is something to do before the method can run.
    pub(super) fn has_to_prepare(&self) -> bool {
        self.key().is_some() || !self.guard.is_ready(self.kind)
    }

    /// Looks for the answer that was given before, and activates the actor. Returns how the turn ends, if it does.
    pub(super) async fn prepare<R: Reply>(&mut self) -> Option<Finished<R>> {
        if let Some(finished) = self.answered_before().await {
            return Some(finished);
        }
        if !self.guard.is_fresh() && !self.guard.is_exclusive() {
            // A commit has failed since it was let in. An actor is made by who has it to itself, and others share this one.
            let error = gate::stale(self.guard.actor_shared());
            return Some(self.leave(Finished::failed(error)).await);
        }
        if !self.guard.is_fresh() {
            let shared = self.guard.actor_shared().clone();
            let trace = Current::take_trace(&mut self.current);
            let activated = {
                let mut activation = pin!(activating(&shared, activate(&mut self.guard)));
                poll_fn(|cx| trace.within(|| activation.as_mut().poll(cx))).await
            };
            if let Some(current) = &mut self.current {
                current.trace = trace;
            }
            match activated {
                Ok(changed) => self.writes = changed,
                Err(error) => return Some(self.leave(Finished::failed(error)).await),
            }
            let generation = self.guard.generation();
            if let Some(current) = &mut self.current {
                current.generation = generation;
            }
        }
        if self.kind == TurnKind::Shared && self.guard.is_exclusive() {
            self.guard.downgrade();
            self.guard.cell().clone().drained().await;
        }
        None
    }

    /// How a call ends that was answered before. The actor is not needed for it, and one that has deleted itself in that
    /// call must not come back.
    async fn answered_before<R: Reply>(&mut self) -> Option<Finished<R>> {
        let (shared, key) = (self.guard.actor_shared().clone(), self.key()?.clone());
        // Before the answer is looked up: it may stand on a commit that fails afterwards.
        let generation = shared.gate.generation();
        let finished = match known_answer::<R>(&shared, &key, self.method) {
            Ok(None) => match refuse_if_full(&shared, &key) {
                Ok(()) => return None,
                Err(error) => Finished::failed(error),
            },
            Ok(Some(reply)) => {
                self.watch.succeed();
                let hold = submit(&shared, generation, None, Vec::new()).await;
                Finished { answer: MethodAnswer::Now(reply), hold }
            }
            Err(error) => Finished::failed(error),
        };
        Some(self.leave(finished).await)
    }

    /// Polls the method.
    pub(super) fn poll<F: Future>(&mut self, running: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
        poll_on_stage(&mut self.watch, &mut self.current, running, cx)
    }

    /// Goes on with a turn whose method was polled.
    pub(super) fn go_on<R, F>(
        mut self,
        polled: Poll<(Object<T>, Left<R>)>,
        future: PooledFuture<F>,
        cx: &mut Context<'_>,
    ) -> Progress<R::Reply>
    where
        R: MethodResult,
        F: Future<Output = (Object<T>, Left<R>)> + Send + 'static,
    {
        let Poll::Ready((object, left)) = polled else {
            self.waits(cx);
            return Progress::Moving(Box::pin(Moving { future, ending: None, turn: self.hand_over() }));
        };
        future.vacate(self.method);
        match self.end_at_once(object, left, cx) {
            Ok(finished) => Progress::Finished(finished),
            Err(ending) => {
                let mut turn = self.hand_over();
                Progress::Moving(Box::pin(async move { turn.leave(ending.await).await }))
            }
        }
    }

    /// Ends the turn, if that takes no waiting: what it has changed is sealed, and those who wait get theirs.
    pub(super) fn end_at_once<R: MethodResult>(
        &mut self,
        mut object: Object<T>,
        left: Left<R>,
        cx: &mut Context<'_>,
    ) -> Result<Finished<R::Reply>, Ending<R::Reply>> {
        self.watch.ended(self.guard.actor_shared());
        let current::EndedTurn { shared, writes: changes, mut outputs, generation, key, has_handed_over, has_effects } =
            ended(self.current.take());
        object.lent = shared;
        self.guard.object = Some(object);
        let has_panicked = left.is_err();
        let (mut answer, is_success) = match left {
            Ok(Ok(outcome)) => {
                let is_success = outcome.is_success();
                (outcome.into_answer(), is_success)
            }
            Ok(Err(error)) => (MethodAnswer::Now(R::Reply::failed(error)), false),
            Err(panic) => (MethodAnswer::Now(R::Reply::failed(self.panicked(&panic))), false),
        };
        if !is_success {
            if self.writes.is_none() && !has_panicked {
                // The refusal was decided by what the actor knows, which is no longer so if another is primary.
                if let Err(error) = self.guard.actor_shared().partition.check_lease(has_effects) {
                    answer = MethodAnswer::Now(R::Reply::failed(error));
                }
            }
            let submitted = self.fail(generation, outputs, has_handed_over, (key.as_deref(), &answer), cx);
            return self.go_out(answer, generation, submitted, cx);
        }
        self.watch.succeed();
        let mut is_deleted = false;
        if self.kind == TurnKind::Exclusive {
            if let Some(object) = &mut self.guard.object {
                // It may have been read anew in the turn, after a save that failed.
                object.generation = generation;
            }
            is_deleted = changes.as_ref().is_some_and(|changes| changes.is_deleted());
        }
        if changes.is_some() || key.is_some() || (T::KEEPS && self.kind == TurnKind::Exclusive) {
            let is_new = self.writes.is_some();
            let sealed = catch_unwind(AssertUnwindSafe(|| self.seal(changes, key.as_deref(), &answer, &mut outputs)));
            let sealed = sealed.unwrap_or_else(|panic| {
                Err(panicked_when(self.guard.actor_shared(), "its state was being stored", &*panic))
            });
            if let Err(error) = sealed {
                let submitted = self.fail_sealed(is_new, generation, outputs, cx);
                return self.go_out(MethodAnswer::Now(R::Reply::failed(error)), generation, submitted, cx);
            }
        }
        if is_deleted {
            self.guard.actor_shared().is_in_passing.store(false, Ordering::Relaxed);
            return Err(self.delete(generation, outputs, answer));
        }
        if self.writes.is_none()
            && let Err(error) = self.guard.actor_shared().partition.check_lease(has_effects)
        {
            return Ok(self.unproven(error, outputs, cx));
        }
        if let MethodAnswer::Later(later) = &mut answer {
            later.has_effects = has_effects || self.writes.is_some();
        }
        let effects = TurnEffects { writes: self.writes.take(), outputs };
        let submitted = gate::submit(self.guard.actor_shared(), generation, effects, cx);
        self.go_out(answer, generation, submitted, cx)
    }

    /// Ends a turn that has changed nothing and whose answer must not leave: another may be primary.
    #[cold]
    fn unproven<R: Reply>(&mut self, error: Error, outputs: Vec<Output>, cx: &mut Context<'_>) -> Finished<R> {
        self.watch.fail();
        gate::release(self.guard.actor_shared(), outputs, || Err(error.clone()));
        self.left(Finished::failed(error), cx)
    }

    /// Lets the answer go with what was submitted. The actor is kept where there was no room for that, and where turns must not
    /// overlap with commits.
    fn go_out<R: Reply>(
        &mut self,
        answer: MethodAnswer<R>,
        generation: u64,
        submitted: Result<Option<Hold>, Box<Crowded>>,
        cx: &mut Context<'_>,
    ) -> Result<Finished<R>, Ending<R>> {
        let is_apart = self.kind == TurnKind::Exclusive && !self.guard.actor_shared().partition.overlap;
        let submitted = match submitted {
            Ok(hold) if hold.is_none() || !is_apart => return Ok(self.left(Finished { answer, hold }, cx)),
            submitted => submitted,
        };
        let shared = self.guard.actor_shared().clone();
        shared.is_in_passing.store(false, Ordering::Relaxed);
        Err(Box::pin(async move {
            let hold = match submitted {
                Ok(hold) => hold,
                Err(crowded) => {
                    let TurnEffects { writes, outputs } = crowded.over().await;
                    submit(&shared, generation, writes, outputs).await
                }
            };
            match hold {
                Some(hold) if is_apart => match hold.opened().await {
                    Ok(()) => Finished { answer, hold: None },
                    Err(error) => Finished::failed(error),
                },
                hold => Finished { answer, hold },
            }
        }))
    }

    /// Sees to a turn that waits: to those who come, and to whoever looks at one that takes too long.
    pub(super) fn waits(&mut self, cx: &mut Context<'_>) {
        let shared = self.guard.actor_shared();
        shared.is_in_passing.store(false, Ordering::Relaxed);
        self.watch.wait(shared, cx);
    }

    /// Collects what the turn has changed, with the answer that is to be given again. Of an actor that has deleted itself
    /// that answer is all there is.
    fn seal<R: Reply>(
        &mut self,
        changes: Option<Box<ActorWrites>>,
        key: Option<&CallKey>,
        answer: &MethodAnswer<R>,
        outputs: &mut Vec<Output>,
    ) -> Result<()> {
        if changes.as_ref().is_some_and(|changes| changes.is_deleted()) {
            self.writes = Some(deletion::last_writes(self.guard.actor_shared()));
            return record_answer(self.guard.actor_shared(), key, self.method, answer, &mut self.writes, outputs);
        }
        gather(&mut self.writes, changes)?;
        if self.kind == TurnKind::Exclusive {
            let (shared, actor) = self.guard.parts_mut();
            let actor = actor.ok_or_else(|| missing(shared))?;
            actor.seal(&mut Seal { shared, writes: &mut self.writes })?;
        }
        record_answer(self.guard.actor_shared(), key, self.method, answer, &mut self.writes, outputs)
    }

    /// Ends a turn that has failed: nothing of it happened.
    #[cold]
    fn fail<R: Reply>(
        &mut self,
        generation: u64,
        outputs: Vec<Output>,
        is_undone: bool,
        (key, answer): (Option<&CallKey>, &MethodAnswer<R>),
        cx: &mut Context<'_>,
    ) -> Result<Option<Hold>, Box<Crowded>> {
        let shared = self.guard.actor_shared().clone();
        gate::release(&shared, outputs, || Err(turn_failed(&shared)));
        if self.kind == TurnKind::Exclusive {
            restore(&mut self.guard, &ActorOpening { shared: &shared, is_undone });
        }
        record_failure(&shared, key, self.method, answer, &mut self.writes);
        gate::submit(&shared, generation, TurnEffects { writes: self.writes.take(), outputs: Vec::new() }, cx)
    }

    /// Ends a turn whose changes cannot be stored. Its method has succeeded and cannot take back what it did to plain fields,
    /// which may stand on what is not stored: the object is dropped, as after a commit that fails.
    #[cold]
    fn fail_sealed(
        &mut self,
        is_new: bool,
        generation: u64,
        outputs: Vec<Output>,
        cx: &mut Context<'_>,
    ) -> Result<Option<Hold>, Box<Crowded>> {
        self.watch.fail();
        let shared = self.guard.actor_shared().clone();
        gate::release(&shared, outputs, || Err(turn_failed(&shared)));
        if self.kind == TurnKind::Exclusive {
            self.guard.spoil();
        }
        let known = is_new.then(|| {
            let mut known = ActorWrites::new(shared.id.clone());
            known.mark_known();
            Box::new(known)
        });
        gate::submit(&shared, generation, TurnEffects { writes: known, outputs: Vec::new() }, cx)
    }

    #[cold]
    fn panicked(&mut self, panic: &str) -> Error {
        self.guard.spoil();
        let (shared, method) = (self.guard.actor_shared(), self.method.name());
        tracing::error!(actor = %shared, method, panic, "a method panicked");
        let what = match self.kind {
            TurnKind::Shared => "the actor is reset",
            _ => "nothing of this call was saved, and the actor was reset",
        };
        Error::new(ErrorKind::Fatal, format!("`{method}` of {shared} panicked: {panic}; {what}"))
    }

    /// Ends a turn in which the actor has deleted itself.
    #[cold]
    fn delete<R: Reply>(&mut self, generation: u64, outputs: Vec<Output>, answer: MethodAnswer<R>) -> Ending<R> {
        let (guard, writes, followers) = (self.guard.hand_over(), self.writes.take(), self.followers);
        Box::pin(async move {
            let cell = guard.cell().clone();
            let (finished, is_wanted) = deletion::with_turn(guard, generation, writes, outputs, answer).await;
            if is_wanted && followers == Followers::Own {
                cell.drained().await;
            }
            finished
        })
    }

    /// Gives the actor back to those who wait.
    pub(super) fn left<R>(&mut self, finished: Finished<R>, cx: &mut Context<'_>) -> Finished<R> {
        self.watch.over(self.guard.actor_shared());
        // Before those who wait have their turns: it and its span are over.
        drop(self.current.take());
        if self.guard.put_back() && self.followers == Followers::Own {
            self.guard.cell().drain(cx);
        }
        finished
    }

    /// [`left`](ActorTurn::left) after some waiting.
    pub(super) async fn leave<R>(&mut self, finished: Finished<R>) -> Finished<R> {
        let mut finished = Some(finished);
        poll_fn(|cx| finished.take().map_or(Poll::Pending, |finished| Poll::Ready(self.left(finished, cx)))).await
    }
}

/// Also a turn that is cut short.
impl<T: Actor> Drop for ActorTurn<'_, T> {
    fn drop(&mut self) {
        self.watch.over(self.guard.actor_shared());
        // Before the actor is free again, because it is part of the chain until then.
        drop(self.current.take());
    }
}
