//! How an actor is deleted: one commit decides that nothing of it is stored any more, and then the actor leaves memory.

use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::actor::ActorWrites;

use crate::actor::cell::Held;
use crate::actor::gate::Output;
use crate::actor::site::Site;
use crate::actor::work::submit;
use crate::actor::{Actor, Context, deactivation};
use crate::call::chain::Chain;
use crate::call::contract::Reply;
use crate::call::current::{self, TurnKind};
use crate::call::finished::{Answer, Finished};

/// Deletes an actor from outside. One that does not exist is fine, and none of its code runs if it is not in memory.
pub(crate) async fn delete<T: Actor>(held: Held<'_, T>, chain: Option<Chain>) -> (Finished<Result<()>>, bool) {
    let site = held.site().clone();
    // Not only of one that is known: the answer of a call in which an actor has deleted itself outlives it.
    let is_stored = match site.gate.holds(&site) {
        Ok(is_stored) => is_stored,
        Err(error) => return (Finished::failed(error), held.give_back()),
    };
    let deleted = match is_stored {
        true => commit(&site, site.gate.failures(), Some(last_writes(&site)), Vec::new()).await,
        false => Ok(()),
    };
    match deleted {
        Ok(()) => (Finished::now(Ok(())), bury(held, chain).await),
        Err(error) => (Finished::failed(error), held.give_back()),
    }
}

/// Ends a turn in which an actor has deleted itself, with its last writes. What it sends leaves when the deletion is
/// durable, and so does the answer.
pub(crate) async fn with_turn<T: Actor, R: Reply>(
    mut held: Held<'_, T>,
    failures: u64,
    writes: Option<Box<ActorWrites>>,
    outputs: Vec<Output>,
    answer: Answer<R>,
) -> (Finished<R>, bool) {
    let site = held.site().clone();
    match commit(&site, failures, writes, outputs).await {
        Ok(()) => (Finished { answer, hold: None }, bury(held, None).await),
        Err(error) => {
            // It goes on from what is stored, and not from what the turn has made of it.
            held.spoil();
            (Finished::failed(error), held.give_back())
        }
    }
}

/// The last writes of an actor: nothing of it is left.
pub(crate) fn last_writes(site: &Site) -> Box<ActorWrites> {
    let mut writes = Box::new(ActorWrites::new(site.id.clone()));
    writes.delete_actor();
    writes
}

async fn commit(site: &Arc<Site>, failures: u64, writes: Option<Box<ActorWrites>>, outputs: Vec<Output>) -> Result<()> {
    match submit(site, failures, writes, outputs).await {
        Some(hold) => hold.opened().await,
        None => Ok(()),
    }
}

/// Takes an actor that is deleted out of memory; whoever waits for it is told. False, because then nobody waits.
async fn bury<T: Actor>(mut held: Held<'_, T>, chain: Option<Chain>) -> bool {
    let site = held.site().clone();
    deactivation::deactivate(&mut held, chain).await;
    held.retire_for_good(|| {
        Error::new(
            ErrorKind::NotFound,
            format!(
                "{site} was deleted while this call waited for it, and nothing happened: call again to make a new one"
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
        let is_own = current::site().is_some_and(|site| Arc::ptr_eq(&site, self.site()));
        if !is_own || current::kind() != Some(TurnKind::Exclusive) {
            return Err(Error::invalid(format!(
                "{} can delete itself only in a turn that has it to itself: call this from a method that takes `&mut self`",
                self.site()
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
        self.site().depart();
    }
}
