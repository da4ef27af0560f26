//! How an actor leaves memory.

use std::sync::Arc;

use mainstay_core::time;
use parking_lot::Mutex;

use crate::actor::Actor;
use crate::actor::actor_shared::ActorShared;
use crate::actor::actor_table::ActorPartition;
use crate::actor::cell::{ActorGuard, drop_caught};
use crate::actor::presence::Active;
use crate::actor::work::{ended, in_turn, submit};
use crate::call::arrival::{Deadline, Method, TurnSource};
use crate::call::chain::Chain;
use crate::call::current::{Current, EndedTurn, TurnKind};

static DEACTIVATE: Method = Method::own("deactivate", TurnSource::Call);

/// Takes an actor out of memory that is held by one alone, and its place out of the partition unless somebody waits for it.
/// True if somebody does: the actor is activated anew for them.
pub(crate) async fn leave<T: Actor>(mut guard: ActorGuard<'_, T>, chain: Option<Chain>) -> bool {
    settle(guard.actor_shared()).await;
    deactivate(&mut guard, chain).await;
    guard.retire()
}

/// Waits until everything that the actor has done is durable, or is known not to be.
pub(crate) async fn settle(shared: &Arc<ActorShared>) {
    while let Some(hold) = shared.gate.hold(shared, shared.gate.generation()) {
        // Whoever made the turn is told; what matters here is that it is over.
        let _ = hold.opened().await;
    }
}

/// Runs what an actor does when it leaves memory, and drops it. One that is not what is stored, because a commit has failed,
/// is only dropped. The chain is what led to it, if that was a call.
pub(crate) async fn deactivate<T: Actor>(guard: &mut ActorGuard<'_, T>, chain: Option<Chain>) {
    let Some(object) = guard.object.take() else { return };
    let shared = guard.actor_shared().clone();
    let is_as_stored = object.generation == shared.gate.generation();
    let (Some(hooks), true) = (&T::LIFECYCLE, is_as_stored) else { return drop_caught(&shared, object) };
    // Whoever shared it has ended, because it is held by one alone.
    let Some(Active { mut actor, presence }) = object.into_active() else { return };
    let grace = shared.partition.settings.deactivation_grace;
    let mut current = Current::new(&DEACTIVATE, Deadline::new(grace, None));
    current.chain = chain;
    current.begin(shared.clone(), TurnKind::Deactivation, shared.gate.generation());
    let mut current = Some(current);
    match time::timeout(grace, in_turn(&mut current, (hooks.deactivate)(&mut actor))).await {
        Ok(Ok(())) => {
            // Answers that were owed, and whatever else is no change of the actor itself.
            let EndedTurn { outputs, generation, .. } = ended(current);
            drop(submit(&shared, generation, None, outputs).await);
        }
        Ok(Err(panic)) => tracing::error!(actor = %shared, panic, "`deactivate` panicked"),
        Err(time::Elapsed) => {
            let grace_ms = grace.as_millis() as u64;
            tracing::warn!(actor = %shared, grace_ms, "`deactivate` has not ended within the grace period and is dropped");
        }
    }
    drop_caught(&shared, actor);
    drop(presence);
}

/// Takes actors out of memory, so many at a time. Each is `take`n when its time has come, so that one that waits for others
/// can be called until then; one that cannot be taken stays.
pub(crate) async fn leave_each<T, C, F>(partition: &Arc<ActorPartition>, actors: Vec<C>, at_once: usize, take: F)
where
    T: Actor,
    C: Send + 'static,
    F: Fn(C) -> Option<ActorGuard<'static, T>> + Clone + Send + 'static,
{
    let workers = if T::LIFECYCLE.is_some() { at_once.min(actors.len()) } else { 1 };
    let actors = Arc::new(Mutex::new(actors.into_iter()));
    let workers: Vec<_> = (0..workers)
        .map(|_| {
            let (actors, take) = (actors.clone(), take.clone());
            partition.scope.spawn(async move {
                loop {
                    let Some(next) = actors.lock().next() else { return };
                    let Some(guard) = take(next) else { continue };
                    let cell = guard.cell().clone();
                    if leave(guard, None).await {
                        let scope = cell.actor_shared().partition.scope.clone();
                        drop(scope.spawn(cell.drained()));
                    }
                    // A million of them without a hook would otherwise keep a thread to themselves.
                    tokio::task::consume_budget().await;
                }
            })
        })
        .collect();
    for worker in workers {
        // An error means that the partition is closed, which drops what is left.
        let _ = worker.await;
    }
}
