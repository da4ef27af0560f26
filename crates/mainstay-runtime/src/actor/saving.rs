//! Saving in the middle of a turn.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use mainstay_core::{Error, Result};
use mainstay_state::actor::ActorWrites;
use tokio::task::coop::consume_budget;

use crate::actor::actor_shared::ActorShared;
use crate::actor::gate::{self, Hold, TurnEffects};
use crate::actor::kept::Kept as _;
use crate::actor::{Actor, ActorOpening, Context, Seal};
use crate::call::current::{self, TurnKind};

/// Commits what an actor has changed so far in its turn.
pub(crate) async fn save<T: Actor>(actor: &mut T, shared: &Arc<ActorShared>) -> Result<()> {
    refuse_if_leaving(shared)?;
    // One that has nothing to store never waits, and others of the runtime must have a chance all the same.
    consume_budget().await;
    let mut writes = current::take_writes();
    let sealed = actor.seal(&mut Seal { shared, writes: &mut writes });
    let is_first = shared.gate.is_settled(current::generation());
    let result = commit(shared, writes, sealed).await;
    if result.is_err() {
        actor.restore(&ActorOpening { shared, is_undone: true })?;
        // If turns before this one were lost as well, what is no state is still what they have made of it. What stands on
        // that is refused at the end of the turn, and the object is made anew, as after any commit that fails.
        if is_first {
            current::refresh();
        }
    }
    result
}

/// Commits what has been changed so far in the turn of an actor, as far as its context knows of it: all but the fields.
pub(crate) async fn save_reached(context: &mut Context) -> Result<()> {
    let shared = &context.shared.clone();
    if !current::shared().is_some_and(|current| Arc::ptr_eq(&current, shared)) {
        return Err(Error::invalid(format!("`save` of {shared} is for a method of that actor, in its turn")));
    }
    refuse_if_leaving(shared)?;
    consume_budget().await;
    // The fields stand on the turns before. Those are waited for, so that what fails after this leaves the fields right.
    if let Some(hold) = shared.gate.hold(shared, current::generation())
        && let Err(error) = hold.opened().await
    {
        context.pages.clear(shared);
        return Err(error);
    }
    let mut writes = current::take_writes();
    let sealed = context.seal(&mut Seal { shared, writes: &mut writes });
    let result = commit(shared, writes, sealed).await;
    if result.is_err() {
        context.restore(&ActorOpening { shared, is_undone: true })?;
        current::refresh();
    }
    result
}

/// Refuses to save an actor that is on its way out.
fn refuse_if_leaving(shared: &Arc<ActorShared>) -> Result<()> {
    if current::kind() == Some(TurnKind::Deactivation) {
        return Err(current::leaving(shared));
    }
    if current::changed(|writes| writes.is_deleted().then_some(())).is_some() {
        return Err(Error::invalid(format!("{shared} is deleted with this turn, and there is nothing to save of it")));
    }
    Ok(())
}

async fn commit(shared: &Arc<ActorShared>, writes: Option<Box<ActorWrites>>, sealed: Result<()>) -> Result<()> {
    let outputs = current::take_outputs();
    if let Err(error) = sealed {
        // What was to leave stands on what is not saved.
        gate::release(shared, outputs, || Err(error.clone()));
        return Err(error);
    }
    if writes.is_some() || !outputs.is_empty() {
        current::note_effects();
    }
    match submit(shared, current::generation(), TurnEffects { writes, outputs }).await {
        Some(hold) => hold.opened().await,
        None => Ok(()),
    }
}

/// [`gate::submit`] by a turn that may give up waiting for room, and goes on.
async fn submit(shared: &Arc<ActorShared>, generation: u64, mut effects: TurnEffects) -> Option<Hold> {
    loop {
        let mut slot = Some(effects);
        let submitted = poll_fn(|cx| match slot.take() {
            Some(effects) => Poll::Ready(gate::submit(shared, generation, effects, cx)),
            None => Poll::Pending,
        });
        let (kept, room) = match submitted.await {
            Ok(hold) => return hold,
            Err(crowded) => crowded.parts(),
        };
        let mut kept = Unsubmitted { shared, effects: Some(kept) };
        room.await;
        // It is there: nobody else takes it.
        effects = kept.effects.take()?;
    }
}

/// What a save has taken from its turn, and has found no room for. The fields have handed it over: if the save is given up
/// meanwhile, the turn has it again.
struct Unsubmitted<'s> {
    shared: &'s Arc<ActorShared>,
    effects: Option<TurnEffects>,
}

impl Drop for Unsubmitted<'_> {
    fn drop(&mut self) {
        if let Some(TurnEffects { writes, outputs }) = self.effects.take() {
            current::give_back(self.shared, writes, outputs);
        }
    }
}
