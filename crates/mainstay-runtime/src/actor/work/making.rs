//! How the object of an actor is made from what is stored, and goes back to that.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstay_core::{Error, Result};
use mainstay_state::actor::ActorWrites;

use super::{ended, gather, poll_caught, poll_on_stage, submit, turn_failed, unless_panicking};
use crate::actor::actor_shared::ActorShared;
use crate::actor::cell::ActorGuard;
use crate::actor::gate::{self, Hold};
use crate::actor::presence::Object;
use crate::actor::revival;
use crate::actor::{Actor, ActorOpening, Context, Kept as _, Seal};
use crate::call::current::{Current, EndedTurn, TurnKind};
use crate::observe::storage::activating;
use crate::observe::trace::Trace;
use crate::observe::turn::{ACTIVATE, ActivationWatch};
use crate::open_field::OpenActor;

/// Makes the object. Returns what its activation has changed.
pub(super) async fn activate<T: Actor>(guard: &mut ActorGuard<'_, T>) -> Result<Option<Box<ActorWrites>>> {
    guard.object = None;
    let shared = guard.actor_shared().clone();
    // Of the one before: what this one sets up before it fails is no reason to come back.
    let is_wanted = shared.revival.is_wanted();
    let activated = make(guard, &shared).await;
    shared.revival.forget();
    if activated.is_err() {
        // What it has read of its state is not in memory.
        shared.unload();
        if is_wanted {
            shared.revival.want();
            revival::begin(guard.cell());
        }
    }
    activated
}

/// Activates an actor that has lost its object, and does nothing else.
pub(crate) async fn revive<T: Actor>(mut guard: ActorGuard<'static, T>) -> Result<()> {
    let shared = guard.actor_shared().clone();
    let revived = match activating(&shared, activate(&mut guard)).await {
        Ok(writes) => {
            // Nobody waits for it: if it fails, the object is lost once more.
            drop(submit(&shared, guard.generation(), writes, Vec::new()).await);
            Ok(())
        }
        Err(error) => Err(error),
    };
    guard.give_back();
    revived
}

async fn make<T: Actor>(guard: &mut ActorGuard<'_, T>, shared: &Arc<ActorShared>) -> Result<Option<Box<ActorWrites>>> {
    let generation = shared.gate.generation();
    let mut writes = None;
    match shared.gate.is_known(shared)? {
        true => {
            shared.gate.note_known(generation);
            let (partition, store) = (&shared.partition, shared.partition.store()?);
            partition.memory_budget.stray_fields.look(&store, &partition.address.service, &shared.id, T::FIELDS);
        }
        false => Seal { shared, writes: &mut writes }.writes().mark_known(),
    }
    let opening = ActorOpening { shared, is_undone: false };
    let making = match T::OPEN {
        OpenActor::Now(open) => {
            Making::Made(unless_panicking(shared, "it was being made", || opening.load(|| open(&opening)))?)
        }
        OpenActor::Later(open) => {
            let context = Context::open(&opening, "")?;
            Making::Later(open(opening, context))
        }
    };
    let actor = match making {
        Making::Made(actor) if T::LIFECYCLE.is_none() => actor,
        making => {
            let staged = async {
                let mut actor = match making {
                    Making::Made(actor) => actor,
                    Making::Later(opening) => opening.await?,
                };
                if let Some(hooks) = &T::LIFECYCLE {
                    (hooks.activate)(&mut actor).await?;
                }
                Ok(actor)
            };
            stage(shared, staged, &mut writes).await?
        }
    };
    guard.object = Some(Object::new(actor, shared, generation));
    Ok(writes)
}

/// How far the making of an object has come before its activation.
enum Making<'s, T> {
    Made(T),
    /// Some of its fields are yet to be opened.
    Later(Pin<Box<dyn Future<Output = Result<T>> + Send + 's>>),
}

/// Does what an actor does when it is activated, as a turn. What that has changed is in `writes`, or submitted if it has to be
/// before the turn that comes now.
async fn stage<T: Actor>(
    shared: &Arc<ActorShared>,
    staged: impl Future<Output = Result<T>>,
    writes: &mut Option<Box<ActorWrites>>,
) -> Result<T> {
    let generation = shared.gate.generation();
    let mut current = Current::new(&ACTIVATE, shared.partition.activation_deadline());
    current.count_deadline();
    current.trace = Trace::of_actor(shared, &ACTIVATE);
    current.begin(shared.clone(), TurnKind::Activation, generation);
    let mut current = Some(current);
    let mut watching = ActivationWatch::begin(shared);
    let outcome = {
        let mut running = pin!(staged);
        let mut caught = pin!(poll_fn(|cx| poll_caught(|| running.as_mut().poll(cx))));
        poll_fn(|cx| {
            let polled = poll_on_stage(&mut watching.watch, &mut current, caught.as_mut(), cx);
            if polled.is_pending() {
                shared.is_in_passing.store(false, Ordering::Relaxed);
                watching.watch.wait(shared, cx);
            }
            polled
        })
        .await
    };
    watching.watch.ended(shared);
    let EndedTurn { writes: changes, outputs, .. } = ended(current);
    let is_staged = changes.is_some();
    let result = outcome.unwrap_or_else(|panic| Err(Error::fatal(format!("`activate` of {shared} panicked: {panic}"))));
    let result = result.and_then(|mut actor| {
        gather(writes, changes)?;
        actor.seal(&mut Seal { shared, writes })?;
        Ok(actor)
    });
    let actor = match result {
        Ok(actor) => actor,
        Err(error) => {
            gate::release(shared, outputs, || Err(turn_failed(shared)));
            return Err(error.about(format_args!("{shared} cannot be activated")));
        }
    };
    watching.watch.succeed();
    drop(watching);
    // The turn that comes now looks for it behind the gate, and goes back to it if it fails. That the actor is known is
    // left to the turn's own commit.
    let is_changed = writes.as_ref().is_some_and(|writes| writes.bytes() > 0);
    if (is_changed || is_staged || !outputs.is_empty())
        && let Some(Hold::Failed(error)) = submit(shared, generation, writes.take(), outputs).await
    {
        return Err(Error::new(error.kind(), format!("{shared} cannot be activated: {error}")));
    }
    Ok(actor)
}

/// Goes back to what is stored. An actor that cannot be read again is made anew.
pub(super) fn restore<T: Actor>(guard: &mut ActorGuard<'_, T>, opening: &ActorOpening<'_>) {
    let shared = opening.shared;
    let (_, Some(actor)) = guard.parts_mut() else { return };
    if let Err(error) = unless_panicking(shared, "its state was being read again", || actor.restore(opening)) {
        tracing::warn!(actor = %shared, ?error, "an actor cannot be restored after a failed turn, and is activated anew");
        guard.spoil();
    }
}
