//! What happens in a turn: activation, the method, the seal.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use mainstay_core::time;
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::actor::{ActorWrites, Answer as StoredAnswer};

use crate::actor::cell::{Held, Object};
use crate::actor::deletion;
use crate::actor::gate::{self, Hold, Output};
use crate::actor::presence::Active;
use crate::actor::site::Site;
use crate::actor::{Actor, ActorOpening, Seal, TurnInfo};
use crate::call::arrival::Call;
use crate::call::contract::{Outcome, Reply};
use crate::call::current::{Current, TurnKind};
use crate::call::finished::{Answer, Finished};
use crate::call::host::{ExclusiveMethod, SharedMethod};
use crate::call::turn::panic_text;
use crate::observe::storage::loading;
use crate::observe::turn::TurnWatch;

/// A call that has the actor to itself, and what waits behind it.
pub(crate) async fn exclusive_call<T, R, M>(held: Held<T>, method: M, call: Call) -> Finished<R::Reply>
where
    T: Actor,
    R: Outcome,
    M: ExclusiveMethod<T, R>,
{
    let cell = held.cell().clone();
    let (finished, is_wanted) = exclusive(held, method, call).await;
    if is_wanted {
        cell.drained().await;
    }
    finished
}

/// A call that shares the actor, and what waits behind it.
pub(crate) async fn shared_call<T, R, M>(held: Held<T>, method: M, call: Call) -> Finished<R::Reply>
where
    T: Actor,
    R: Outcome,
    M: SharedMethod<T, R>,
{
    let cell = held.cell().clone();
    let (finished, is_wanted) = shared(held, method, call).await;
    if is_wanted {
        cell.drained().await;
    }
    finished
}

/// A letter's turn; whoever polls it sees to the next.
pub(crate) async fn exclusive_turn<T, R, M>(held: Held<T>, method: M, call: Call) -> Finished<R::Reply>
where
    T: Actor,
    R: Outcome,
    M: ExclusiveMethod<T, R>,
{
    exclusive(held, method, call).await.0
}

/// A letter's turn; whoever polls it sees to the next.
pub(crate) async fn shared_turn<T, R, M>(held: Held<T>, method: M, call: Call) -> Finished<R::Reply>
where
    T: Actor,
    R: Outcome,
    M: SharedMethod<T, R>,
{
    shared(held, method, call).await.0
}

async fn exclusive<T, R, M>(mut held: Held<T>, method: M, mut call: Call) -> (Finished<R::Reply>, bool)
where
    T: Actor,
    R: Outcome,
    M: ExclusiveMethod<T, R>,
{
    let site = held.site().clone();
    let mut watch = TurnWatch::begin(&site, &mut call);
    let mut writes = None;
    if !held.is_fresh() {
        // In a box of its own, because it is large and rare.
        match Box::pin(watch.activating(activate(&mut held))).await {
            Ok(changed) => writes = changed,
            Err(error) => return (Finished::failed(error), held.give_back()),
        }
    }
    let Call { method: called, chain, deadline, key, .. } = call;
    // As of when the object was read: a commit that has failed since is one that the turn stands on.
    let failures = held.failures();
    if let Some(key) = &key {
        match known_answer::<R::Reply>(&site, key, called.name()) {
            Ok(None) => {}
            Ok(Some(reply)) => {
                watch.succeed();
                let hold = submit(&site, failures, writes, Vec::new()).await;
                return (Finished { answer: Answer::Now(reply), hold }, held.give_back());
            }
            Err(error) => return (Finished::failed(error), held.give_back()),
        }
    }
    let mut current = Some(Current::new(Some(site.clone()), called.name(), chain, deadline).seeing(held.failures()));
    let Some(actor) = held.actor_mut() else { return (Finished::failed(missing(&site)), held.give_back()) };
    let info = TurnInfo { method: called.name(), is_exclusive: true };
    let running = async {
        if let Some(hooks) = &T::LIFECYCLE {
            (hooks.before)(actor, info).await?;
        }
        let outcome = method.invoke(actor).await;
        if let Some(hooks) = &T::LIFECYCLE
            && outcome.is_success()
        {
            (hooks.after)(actor, info).await?;
        }
        Ok::<R, Error>(outcome)
    };
    let outcome = in_turn(&mut current, watch.run(running)).await;
    let (outputs, failures, changes) = ended(current);
    let (reply, is_kept) = match outcome {
        Err(panic) => {
            held.spoil();
            tracing::error!(actor = %site, method = called.name(), panic, "a method panicked");
            let error = Error::new(
                ErrorKind::Fatal,
                format!(
                    "`{}` of {site} panicked: {panic}; nothing of this call was saved, and the actor was reset",
                    called.name()
                ),
            );
            (Answer::Now(R::Reply::failed(error)), false)
        }
        Ok(Err(error)) => (Answer::Now(R::Reply::failed(error)), false),
        Ok(Ok(outcome)) => {
            let is_success = outcome.is_success();
            (outcome.into_answer(), is_success)
        }
    };
    if !is_kept {
        outputs.into_iter().for_each(|output| output(Err(turn_failed(&site))));
        undo(&mut held);
        let hold = submit(&site, failures, writes, Vec::new()).await;
        return (Finished { answer: reply, hold }, held.give_back());
    }
    if let Some(object) = &mut held.object {
        // It may have been read anew in the turn, after a save that failed.
        object.failures = failures;
    }
    watch.succeed();
    if changes.as_ref().is_some_and(|changes| changes.is_deleted()) {
        return deletion::with_turn(held, failures, outputs, reply).await;
    }
    let is_new = writes.is_some();
    let sealed = gather(&mut writes, changes)
        .and_then(|()| seal(&mut held, &mut writes))
        .and_then(|()| record_answer(&site, key.as_deref(), called.name(), &reply, &mut writes));
    if let Err(error) = sealed {
        watch.fail();
        outputs.into_iter().for_each(|output| output(Err(turn_failed(&site))));
        undo_sealed(&mut held);
        let known = is_new.then(|| {
            let mut known = ActorWrites::new(site.id.clone());
            known.mark_known();
            Box::new(known)
        });
        let hold = submit(&site, failures, known, Vec::new()).await;
        return (Finished { hold, ..Finished::failed(error) }, held.give_back());
    }
    let hold = submit(&site, failures, writes, outputs).await;
    match hold {
        Some(hold) if !site.hall.overlap => {
            let finished = match Box::pin(hold.opened()).await {
                Ok(()) => Finished { answer: reply, hold: None },
                Err(error) => Finished::failed(error),
            };
            (finished, held.give_back())
        }
        hold => (Finished { answer: reply, hold }, held.give_back()),
    }
}

async fn shared<T, R, M>(mut held: Held<T>, method: M, mut call: Call) -> (Finished<R::Reply>, bool)
where
    T: Actor,
    R: Outcome,
    M: SharedMethod<T, R>,
{
    let site = held.site().clone();
    let mut watch = TurnWatch::begin(&site, &mut call);
    let mut writes = None;
    if !held.is_fresh() {
        // In a box of its own, because it is large and rare.
        match Box::pin(watch.activating(activate(&mut held))).await {
            Ok(changed) => writes = changed,
            Err(error) => return (Finished::failed(error), held.give_back()),
        }
    }
    if held.is_exclusive() {
        held.downgrade();
        held.cell().clone().drained().await;
    }
    let Call { method: called, chain, deadline, .. } = call;
    let current = Current::new(Some(site.clone()), called.name(), chain, deadline);
    let mut current = Some(current.of_kind(TurnKind::Shared).seeing(held.failures()));
    let Some(object) = &held.object else { return (Finished::failed(missing(&site)), held.give_back()) };
    let actor = &object.active.actor;
    let info = TurnInfo { method: called.name(), is_exclusive: false };
    let running = async {
        if let Some(hooks) = &T::LIFECYCLE {
            (hooks.before)(actor, info).await?;
        }
        let outcome = method.invoke(actor).await;
        if let Some(hooks) = &T::LIFECYCLE
            && outcome.is_success()
        {
            (hooks.after)(actor, info).await?;
        }
        Ok::<R, Error>(outcome)
    };
    let outcome = in_turn(&mut current, watch.run(running)).await;
    let (outputs, failures, changes) = ended(current);
    let (answer, outputs) = match outcome {
        Err(panic) => {
            held.spoil();
            tracing::error!(actor = %site, method = called.name(), panic, "a method panicked");
            let error = Error::new(
                ErrorKind::Fatal,
                format!("`{}` of {site} panicked: {panic}; the actor is reset", called.name()),
            );
            (Answer::Now(R::Reply::failed(error)), Err(outputs))
        }
        Ok(Err(error)) => (Answer::Now(R::Reply::failed(error)), Err(outputs)),
        Ok(Ok(outcome)) => {
            let outputs = if outcome.is_success() { Ok(outputs) } else { Err(outputs) };
            (outcome.into_answer(), outputs)
        }
    };
    let is_success = outputs.is_ok();
    let outputs = outputs.unwrap_or_else(|outputs| {
        outputs.into_iter().for_each(|output| output(Err(turn_failed(&site))));
        Vec::new()
    });
    if is_success {
        watch.succeed();
    }
    if let Err(error) = gather(&mut writes, changes.filter(|_| is_success)) {
        return (Finished::failed(error), held.give_back());
    }
    let hold = submit(&site, failures, writes, outputs).await;
    (Finished { answer, hold }, held.give_back())
}

/// Runs the method of a turn; an error is the text of its panic.
pub(crate) async fn in_turn<R>(current: &mut Option<Current>, method: impl Future<Output = R>) -> Result<R, String> {
    let mut method = pin!(method);
    poll_fn(|cx| {
        // A method that has panicked is not polled again, and the object that it has seen is dropped.
        let polled = Current::within(current, || catch_unwind(AssertUnwindSafe(|| method.as_mut().poll(cx))));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
            Err(panic) => Poll::Ready(Err(panic_text(&*panic).to_owned())),
        }
    })
    .await
}

pub(crate) fn ended(current: Option<Current>) -> (Vec<Output>, u64, Option<Box<ActorWrites>>) {
    // It is there: whoever polls a turn puts it back.
    current
        .map(|mut current| (std::mem::take(&mut current.outputs), current.failures, current.writes.take()))
        .unwrap_or_default()
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

/// Makes the object. Returns what its activation has changed.
async fn activate<T: Actor>(held: &mut Held<T>) -> Result<Option<Box<ActorWrites>>> {
    held.object = None;
    let site = held.site().clone();
    let activated = make(held, &site).await;
    if activated.is_err() {
        // What it has read of its state is not in memory.
        site.unload();
    }
    activated
}

async fn make<T: Actor>(held: &mut Held<T>, site: &Arc<Site>) -> Result<Option<Box<ActorWrites>>> {
    let failures = site.gate.failures();
    let mut writes = None;
    if !site.gate.is_known(site)? {
        Seal { site, writes: &mut writes }.writes().mark_known();
    }
    let mut actor = loading(site, || T::open(&ActorOpening { site, is_undone: false }))?;
    if let Some(hooks) = &T::LIFECYCLE {
        let current = Current::new(Some(site.clone()), "activate", None, site.hall.activation_deadline());
        let mut current = Some(current.of_kind(TurnKind::Activation));
        let mut watch = TurnWatch::of_activation(site);
        let outcome = in_turn(&mut current, watch.run((hooks.activate)(&mut actor))).await;
        let (outputs, _, changes) = ended(current);
        let is_staged = changes.is_some();
        let result =
            outcome.unwrap_or_else(|panic| Err(Error::fatal(format!("`activate` of {site} panicked: {panic}"))));
        let result = result.and_then(|()| gather(&mut writes, changes));
        let result = result.and_then(|()| actor.seal(&mut Seal { site, writes: &mut writes }));
        if let Err(error) = result {
            outputs.into_iter().for_each(|output| output(Err(turn_failed(site))));
            return Err(Error::new(error.kind(), format!("{site} cannot be activated: {error}")).with_source(error));
        }
        watch.succeed();
        // The turn that comes now looks for it behind the gate, and goes back to it if it fails. That the actor is known is
        // left to the turn's own commit.
        let is_changed = writes.as_ref().is_some_and(|writes| writes.bytes() > 0);
        if (is_changed || is_staged || !outputs.is_empty())
            && let Some(Hold::Failed(error)) = submit(site, failures, writes.take(), outputs).await
        {
            return Err(Error::new(error.kind(), format!("{site} cannot be activated: {error}")));
        }
    }
    held.object = Some(Object { active: Arc::new(Active::new(actor, site)), failures });
    Ok(writes)
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

fn seal<T: Actor>(held: &mut Held<T>, writes: &mut Option<Box<ActorWrites>>) -> Result<()> {
    let site = held.site().clone();
    let actor = held.actor_mut().ok_or_else(|| missing(&site))?;
    actor.seal(&mut Seal { site: &site, writes })
}

/// Drops what a failed turn has changed.
fn undo<T: Actor>(held: &mut Held<T>) {
    let site = held.site().clone();
    restore(held, &ActorOpening { site: &site, is_undone: false });
}

/// Drops what a turn has changed whose seal failed half way: some fields have handed over what is not committed.
fn undo_sealed<T: Actor>(held: &mut Held<T>) {
    let site = held.site().clone();
    restore(held, &ActorOpening { site: &site, is_undone: true });
}

/// Goes back to what is stored. An actor that cannot be read again is made anew.
fn restore<T: Actor>(held: &mut Held<T>, opening: &ActorOpening<'_>) {
    let site = opening.site;
    let Some(actor) = held.actor_mut() else { return };
    if let Err(error) = actor.restore(opening) {
        tracing::warn!(actor = %site, ?error, "an actor cannot be restored after a failed turn, and is activated anew");
        held.spoil();
    }
}

/// The answer that a call with this key was given before.
fn known_answer<R: Reply>(site: &Site, key: &str, method: &str) -> Result<Option<R>> {
    let Some(answer) = site.gate.answer(site, key)? else { return Ok(None) };
    if answer.expires <= time::wall() {
        return Ok(None);
    }
    if answer.method != method {
        return Err(Error::invalid(format!(
            "idempotency key {key:?} of {site} was used for `{}` before, and now for `{method}`: use another key",
            answer.method
        )));
    }
    R::decode(&answer.reply).map(Some).map_err(|error| {
        let text =
            format!("the answer to the first call of {site}.{method} with idempotency key {key:?} cannot be read");
        Error::new(error.kind(), text).with_source(error)
    })
}

/// Keeps the answer with what the turn has changed.
fn record_answer<R: Reply>(
    site: &Arc<Site>,
    key: Option<&str>,
    method: &str,
    answer: &Answer<R>,
    writes: &mut Option<Box<ActorWrites>>,
) -> Result<()> {
    let Some(key) = key else { return Ok(()) };
    let Answer::Now(reply) = answer else {
        return Err(Error::invalid(format!(
            "`{method}` of {site} answers later, and so its answer cannot be kept with the turn: call it without an idempotency key"
        )));
    };
    let expires = time::wall().saturating_add(site.hall.settings.idempotency_retention);
    let answer = StoredAnswer { method: method.to_owned(), reply: reply.encode()?.into(), expires };
    Seal { site, writes }.writes().put_answer(key, answer)
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
