//! How an actor leaves memory.

use std::sync::Arc;

use mainstay_core::time;
use parking_lot::Mutex;

use crate::actor::Actor;
use crate::actor::cell::Held;
use crate::actor::hall::HallCore;
use crate::actor::presence::Active;
use crate::actor::site::Site;
use crate::actor::work::{ended, in_turn, submit};
use crate::call::arrival::{Deadline, Method, Source};
use crate::call::chain::Chain;
use crate::call::current::{Current, Remains, TurnKind};

static DEACTIVATE: Method = Method::own("deactivate", Source::Call);

/// Takes an actor out of memory that is held by one alone, and its place out of the hall unless somebody waits for it.
/// True if somebody does: the actor is activated anew for them.
pub(crate) async fn leave<T: Actor>(mut held: Held<'_, T>, chain: Option<Chain>) -> bool {
    settle(held.site()).await;
    deactivate(&mut held, chain).await;
    held.retire()
}

/// Waits until everything that the actor has done is durable, or is known not to be.
pub(crate) async fn settle(site: &Arc<Site>) {
    while let Some(hold) = site.gate.hold(site, site.gate.failures()) {
        // Whoever made the turn is told; what matters here is that it is over.
        let _ = hold.opened().await;
    }
}

/// Runs what an actor does when it leaves memory, and drops it. One that is not what is stored, because a commit has failed,
/// is only dropped. The chain is what led to it, if that was a call.
pub(crate) async fn deactivate<T: Actor>(held: &mut Held<'_, T>, chain: Option<Chain>) {
    let Some(object) = held.object.take() else { return };
    let site = held.site().clone();
    if object.failures != site.gate.failures() {
        return;
    }
    let Some(hooks) = &T::LIFECYCLE else { return };
    // Whoever shared it has ended, because it is held by one alone.
    let Some(Active { mut actor, presence }) = object.into_active() else { return };
    let grace = site.hall.settings.deactivation_grace;
    let mut current = Current::new(&DEACTIVATE, Deadline::new(grace, None));
    current.chain = chain;
    current.begin(site.clone(), TurnKind::Deactivation, site.gate.failures());
    let mut current = Some(current);
    match time::timeout(grace, in_turn(&mut current, (hooks.deactivate)(&mut actor))).await {
        Ok(Ok(())) => {
            // Answers that were owed, and whatever else is no change of the actor itself.
            let Remains { outputs, failures, .. } = ended(current);
            drop(submit(&site, failures, None, outputs).await);
        }
        Ok(Err(panic)) => tracing::error!(actor = %site, panic, "`deactivate` panicked"),
        Err(time::Elapsed) => {
            let grace_ms = grace.as_millis() as u64;
            tracing::warn!(actor = %site, grace_ms, "`deactivate` has not ended within the grace period and is dropped");
        }
    }
    drop(actor);
    drop(presence);
}

/// Takes actors out of memory, so many at a time. Each is `take`n when its time has come, so that one that waits for others
/// can be called until then; one that cannot be taken stays.
pub(crate) async fn leave_each<T, C, F>(hall: &Arc<HallCore>, actors: Vec<C>, at_once: usize, take: F)
where
    T: Actor,
    C: Send + 'static,
    F: Fn(C) -> Option<Held<'static, T>> + Clone + Send + 'static,
{
    let workers = if T::LIFECYCLE.is_some() { at_once.min(actors.len()) } else { 1 };
    let actors = Arc::new(Mutex::new(actors.into_iter()));
    let workers: Vec<_> = (0..workers)
        .map(|_| {
            let (actors, take) = (actors.clone(), take.clone());
            hall.scope.spawn(async move {
                loop {
                    let Some(next) = actors.lock().next() else { return };
                    let Some(held) = take(next) else { continue };
                    let cell = held.cell().clone();
                    if leave(held, None).await {
                        let scope = cell.site().hall.scope.clone();
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
