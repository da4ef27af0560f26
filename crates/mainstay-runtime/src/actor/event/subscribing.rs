use std::sync::Arc;

use mainstay_core::time;
use mainstay_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::actor::Actor;
use crate::actor::actor_shared::ActorShared;
use crate::actor::cell::ActorCell;
use crate::actor::context::Context;
use crate::actor::event::definition::Event;
use crate::actor::event::events::Events;
use crate::actor::event::handler::EventMethod;
use crate::actor::event::received::Received;
use crate::actor::internal::run_turn;
use crate::call::arrival::Method;
use crate::call::proxy::Proxy;
use crate::call::turn::catching;
use mainstay_core::Backoff;

/// How many subscriptions an active actor may have; beyond it is `Overloaded`. Each has a task.
pub(crate) const SUBSCRIPTIONS_PER_ACTOR_MAX: usize = 1024;

/// What the turn of an event is called in messages and hooks.
static ON_EVENT: Method = Method::new("Events", "on_event");

impl Context {
    /// Subscribes the actor to events of another, or of itself: each is handled in a turn of this actor, one after
    /// another in the order in which they were published. What the handler changes is saved like that of a method. If it
    /// fails, nothing of its turn happened, the error is logged, and the next event is handled.
    ///
    /// The subscription ends with the activation: make it in [`Lifecycle::activate`](crate::Lifecycle::activate). What waits
    /// to be handled then is not handled by the next activation, and what is published in between is not counted as missed:
    /// keep [`Received::sequence`] in the state where a gap matters. After a panic or a failed commit, an actor that had
    /// subscriptions is activated anew by itself.
    ///
    /// The handler is an async method of the actor, `ctx.subscribe(&ship, Self::moved)` for an
    /// `async fn moved(&mut self, moved: Received<Moved>) -> Result<()>`, or an async closure:
    ///
    /// ```
    /// # use mainstay_runtime::{Actor, Context, Event, Proxy, Received};
    /// # use mainstay_core::Result;
    /// # fn subscribe<Radar, Ship, Moved>(ctx: &Context, ship: &Ship) -> Result<()>
    /// # where Radar: Actor + Extend<Moved>, Ship: Proxy, Moved: Event {
    /// ctx.subscribe(ship, async |radar: &mut Radar, moved: Received<Moved>| {
    ///     radar.extend([moved.event]);
    ///     Ok(())
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Proxy::events`]; `Invalid` if the handler is not one of this actor's type.
    pub fn subscribe<A, P, E, F>(&self, publisher: &P, handler: F) -> Result<()>
    where
        A: Actor,
        P: Proxy,
        E: Event,
        F: for<'a> EventMethod<'a, A, E> + Sync + 'static,
    {
        if self.shared.cell::<ActorCell<A>>().is_none() {
            self.shared.partition.check_attached(format_args!("a subscription of {}", self.shared))?;
            return Err(Error::invalid(format!(
                "{} cannot handle events by {}: give a handler that takes its own type",
                self.shared,
                std::any::type_name::<A>()
            )));
        }
        let events = publisher.events::<E>()?;
        let mut tasks = self.listeners.tasks.lock();
        if tasks.len() >= SUBSCRIPTIONS_PER_ACTOR_MAX {
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "{} has {SUBSCRIPTIONS_PER_ACTOR_MAX} subscriptions already (SUBSCRIPTIONS_PER_ACTOR_MAX): let \
                     several actors share the work",
                    self.shared
                ),
            ));
        }
        let task = self.shared.partition.scope.spawn(listen(self.shared.clone(), events, handler));
        tasks.push(task.abort_handle());
        Ok(())
    }
}

/// The subscriptions of an activation: they end when it does.
#[derive(Default)]
pub(crate) struct Listeners {
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Listeners {
    pub(crate) fn are_there(&self) -> bool {
        !self.tasks.lock().is_empty()
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.tasks.get_mut().iter().for_each(AbortHandle::abort);
    }
}

/// Handles what comes, one after another.
async fn listen<A, E, F>(shared: Arc<ActorShared>, mut events: Events<E>, handler: F)
where
    A: Actor,
    E: Event,
    F: for<'a> EventMethod<'a, A, E> + Sync + 'static,
{
    while !events.is_ended() {
        // An event is cloned by code of the application, or decoded by it, and so is what the handler has captured. A panic there
        // costs this event, and not the subscription.
        let handled = catching("handling an event", async {
            match events.next().await {
                Ok(received) => handle(&shared, received, &handler).await,
                Err(error) => tracing::debug!(actor = %shared, ?events, ?error, "a subscription was told"),
            }
            Ok(())
        });
        if let Err(error) = handled.await {
            tracing::error!(actor = %shared, ?events, ?error, "an event is lost");
        }
    }
}

/// Handles an event in a turn. One that finds the mailbox full waits: meanwhile the subscription's own buffer fills.
async fn handle<A, E, F>(shared: &Arc<ActorShared>, received: Received<E>, handler: &F)
where
    A: Actor,
    E: Event,
    F: for<'a> EventMethod<'a, A, E> + Sync + 'static,
{
    let sequence = received.sequence;
    let unhandled = Arc::new(Mutex::new(Some(received)));
    let mut backoff = Backoff::default().retries();
    while let Some(cell) = shared.cell::<ActorCell<A>>() {
        let (handler, unhandled_here) = (handler.clone(), unhandled.clone());
        let turn = run_turn(&cell, &ON_EVENT, move |actor: &mut A| {
            let received = unhandled_here.lock().take();
            Box::pin(async move {
                match received {
                    Some(received) => handler.run(actor, received).await,
                    None => Ok(()),
                }
            })
        });
        let Err(error) = turn.await else { return };
        if error.kind() != ErrorKind::Overloaded || unhandled.lock().is_none() {
            tracing::warn!(actor = %shared, event = E::NAME, sequence, ?error, "an event could not be handled");
            return;
        }
        time::sleep(backoff.pause()).await;
    }
}
