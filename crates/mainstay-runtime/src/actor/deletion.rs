//! How an actor is deleted: one commit decides that nothing of it is stored any more, and then the actor leaves memory.

use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::actor::ActorWrites;

use crate::actor::actor_shared::ActorShared;
use crate::actor::cell::ActorGuard;
use crate::actor::gate::Output;
use crate::actor::work::submit;
use crate::actor::{Actor, Context, deactivation};
use crate::call::chain::Chain;
use crate::call::contract::Reply;
use crate::call::current::{self, TurnKind};
use crate::call::finished::{Finished, MethodAnswer};

/// Deletes an actor from outside. One that does not exist is fine, and none of its code runs if it is not in memory.
pub(crate) async fn delete<T: Actor>(guard: ActorGuard<'_, T>, chain: Option<Chain>) -> (Finished<Result<()>>, bool) {
    let shared = guard.actor_shared().clone();
    // Not only of one that is known: the answer of a call in which an actor has deleted itself outlives it.
    let is_stored = match shared.gate.holds(&shared) {
        Ok(is_stored) => is_stored,
        Err(error) => return (Finished::failed(error), guard.give_back()),
    };
    let deleted = match is_stored {
        true => commit(&shared, shared.gate.generation(), Some(last_writes(&shared)), Vec::new()).await,
        false => Ok(()),
    };
    match deleted {
        Ok(()) => (Finished::now(Ok(())), bury(guard, chain).await),
        Err(error) => (Finished::failed(error), guard.give_back()),
    }
}

/// Ends a turn in which an actor has deleted itself, with its last writes. What it sends leaves when the deletion is
/// durable, and so does the answer.
pub(crate) async fn with_turn<T: Actor, R: Reply>(
    mut guard: ActorGuard<'_, T>,
    generation: u64,
    writes: Option<Box<ActorWrites>>,
    outputs: Vec<Output>,
    answer: MethodAnswer<R>,
) -> (Finished<R>, bool) {
    let shared = guard.actor_shared().clone();
    match commit(&shared, generation, writes, outputs).await {
        Ok(()) => (Finished { answer, hold: None }, bury(guard, None).await),
        Err(error) => {
            // It goes on from what is stored, and not from what the turn has made of it.
            guard.spoil();
            (Finished::failed(error), guard.give_back())
        }
    }
}

/// The last writes of an actor: nothing of it is left.
pub(crate) fn last_writes(shared: &ActorShared) -> Box<ActorWrites> {
    let mut writes = Box::new(ActorWrites::new(shared.id.clone()));
    writes.delete_actor();
    writes
}

async fn commit(
    shared: &Arc<ActorShared>,
    generation: u64,
    writes: Option<Box<ActorWrites>>,
    outputs: Vec<Output>,
) -> Result<()> {
    match submit(shared, generation, writes, outputs).await {
        Some(hold) => hold.opened().await,
        None => Ok(()),
    }
}

/// Takes an actor that is deleted out of memory; whoever waits for it is told. False, because then nobody waits.
async fn bury<T: Actor>(mut guard: ActorGuard<'_, T>, chain: Option<Chain>) -> bool {
    let shared = guard.actor_shared().clone();
    deactivation::deactivate(&mut guard, chain).await;
    guard.retire_for_good(|| {
        Error::new(
            ErrorKind::NotFound,
            format!(
                "{shared} was deleted while this call waited for it, and nothing happened: call again to make a new one"
            ),
        )
    })
}

impl Context {
    /// Deletes this actor with the turn: its state, its reminders, the answers that are kept for idempotency keys and the
    /// subscriptions to its events. The other changes of the turn do not count; if the turn fails, nothing is deleted.
    ///
    /// If this turn is a call with an idempotency key, its own answer is the one thing that stays, until it expires: a retry
    /// gets it, and makes no new actor.
    ///
    /// The answer of the turn leaves when the deletion is durable. Then `deactivate` runs, and calls that wait get `NotFound`.
    /// A call that comes later finds a new actor.
    ///
    /// # Errors
    /// `Invalid` outside of a turn of this actor that has it to itself.
    pub fn delete(&self) -> Result<()> {
        let is_own = current::shared().is_some_and(|shared| Arc::ptr_eq(&shared, self.actor_shared()));
        if !is_own || current::kind() != Some(TurnKind::Exclusive) {
            self.shared.partition.check_attached(format_args!("to delete {}", self.shared))?;
            return Err(Error::invalid(format!(
                "{} can delete itself only in a turn that has it to itself: call this from a method that takes `&mut self`",
                self.actor_shared()
            )));
        }
        current::change(|writes| {
            writes.delete_actor();
            Ok(())
        })
    }

    /// Takes this actor out of memory when the turn has ended, and before those who wait get theirs: they find it activated
    /// anew, with its state as it was saved.
    pub fn deactivate(&self) {
        self.actor_shared().depart();
    }
}
