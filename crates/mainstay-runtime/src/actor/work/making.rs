//! How the object of an actor is made from what is stored, and goes back to that.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstay_core::{Error, Result};
use mainstay_state::actor::ActorWrites;

use super::{ended, gather, poll_caught, poll_on_stage, submit, turn_failed, unless_panicking};
use crate::actor::cell::Held;
use crate::actor::gate::{self, Hold};
use crate::actor::presence::Object;
use crate::actor::revival;
use crate::actor::site::Site;
use crate::actor::{Actor, ActorOpening, Context, Kept as _, Seal};
use crate::call::current::{Current, Remains, TurnKind};
use crate::observe::storage::activating;
use crate::observe::trace::Trace;
use crate::observe::turn::{ACTIVATE, ActivationWatch};
use crate::opened::OpenActor;

/// Makes the object. Returns what its activation has changed.
pub(super) async fn activate<T: Actor>(held: &mut Held<'_, T>) -> Result<Option<Box<ActorWrites>>> {
    held.object = None;
    let site = held.site().clone();
    // Of the one before: what this one sets up before it fails is no reason to come back.
    let is_wanted = site.revival.is_wanted();
    let activated = make(held, &site).await;
    site.revival.forget();
    if activated.is_err() {
        // What it has read of its state is not in memory.
        site.unload();
        if is_wanted {
            site.revival.want();
            revival::begin(held.cell());
        }
    }
    activated
}

/// Activates an actor that has lost its object, and does nothing else.
pub(crate) async fn revive<T: Actor>(mut held: Held<'static, T>) -> Result<()> {
    let site = held.site().clone();
    let revived = match activating(&site, activate(&mut held)).await {
        Ok(writes) => {
            // Nobody waits for it: if it fails, the object is lost once more.
            drop(submit(&site, held.failures(), writes, Vec::new()).await);
            Ok(())
        }
        Err(error) => Err(error),
    };
    held.give_back();
    revived
}

async fn make<T: Actor>(held: &mut Held<'_, T>, site: &Arc<Site>) -> Result<Option<Box<ActorWrites>>> {
    let failures = site.gate.failures();
    let mut writes = None;
    match site.gate.is_known(site)? {
        true => {
            site.gate.note_known(failures);
            let (hall, store) = (&site.hall, site.hall.store()?);
            hall.population.stray_fields.look(&store, &hall.address.service, &site.id, T::FIELDS);
        }
        false => Seal { site, writes: &mut writes }.writes().mark_known(),
    }
    let opening = ActorOpening { site, is_undone: false };
    let making = match T::OPEN {
        OpenActor::Now(open) => {
            Making::Made(unless_panicking(site, "it was being made", || opening.load(|| open(&opening)))?)
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
            stage(site, staged, &mut writes).await?
        }
    };
    held.object = Some(Object::new(actor, site, failures));
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
    site: &Arc<Site>,
    staged: impl Future<Output = Result<T>>,
    writes: &mut Option<Box<ActorWrites>>,
) -> Result<T> {
    let failures = site.gate.failures();
    let mut current = Current::new(&ACTIVATE, site.hall.activation_deadline());
    current.count_deadline();
    current.trace = Trace::of_actor(site, &ACTIVATE);
    current.begin(site.clone(), TurnKind::Activation, failures);
    let mut current = Some(current);
    let mut watching = ActivationWatch::begin(site);
    let outcome = {
        let mut running = pin!(staged);
        let mut caught = pin!(poll_fn(|cx| poll_caught(|| running.as_mut().poll(cx))));
        poll_fn(|cx| {
            let polled = poll_on_stage(&mut watching.watch, &mut current, caught.as_mut(), cx);
            if polled.is_pending() {
                site.is_in_passing.store(false, Ordering::Relaxed);
                watching.watch.wait(site, cx);
            }
            polled
        })
        .await
    };
    watching.watch.ended(site);
    let Remains { writes: changes, outputs, .. } = ended(current);
    let is_staged = changes.is_some();
    let result = outcome.unwrap_or_else(|panic| Err(Error::fatal(format!("`activate` of {site} panicked: {panic}"))));
    let result = result.and_then(|mut actor| {
        gather(writes, changes)?;
        actor.seal(&mut Seal { site, writes })?;
        Ok(actor)
    });
    let actor = match result {
        Ok(actor) => actor,
        Err(error) => {
            gate::release(site, outputs, || Err(turn_failed(site)));
            return Err(error.about(format_args!("{site} cannot be activated")));
        }
    };
    watching.watch.succeed();
    drop(watching);
    // The turn that comes now looks for it behind the gate, and goes back to it if it fails. That the actor is known is
    // left to the turn's own commit.
    let is_changed = writes.as_ref().is_some_and(|writes| writes.bytes() > 0);
    if (is_changed || is_staged || !outputs.is_empty())
        && let Some(Hold::Failed(error)) = submit(site, failures, writes.take(), outputs).await
    {
        return Err(Error::new(error.kind(), format!("{site} cannot be activated: {error}")));
    }
    Ok(actor)
}

/// Goes back to what is stored. An actor that cannot be read again is made anew.
pub(super) fn restore<T: Actor>(held: &mut Held<'_, T>, opening: &ActorOpening<'_>) {
    let site = opening.site;
    let (_, Some(actor)) = held.parts_mut() else { return };
    if let Err(error) = unless_panicking(site, "its state was being read again", || actor.restore(opening)) {
        tracing::warn!(actor = %site, ?error, "an actor cannot be restored after a failed turn, and is activated anew");
        held.spoil();
    }
}
