//! Turns that nobody calls: of timers, reminders, and whatever else an actor does by itself.

use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use mainstay_core::{Error, ErrorKind, Result};

use crate::actor::Actor;
use crate::actor::cell::ActorCell;
use crate::call::arrival::{Call, Deadline, Method};
use crate::call::object_host::{ExclusiveHost as _, ExclusiveMethod, Start};
use crate::call::turn::{Subject, await_queued, conclude, drive_turn};
use crate::call::turn_scope::TurnScope;

/// What a turn of an actor does.
pub(crate) type TurnFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// Runs a turn of an actor like that of a call: it waits in line, has the actor to itself, and what it changes is durable
/// when this returns.
///
/// # Errors
/// Those of the work and of the commit; `Retry` if the actor has left this place.
pub(crate) async fn run_turn<T, F>(cell: &Arc<ActorCell<T>>, method: &'static Method, work: F) -> Result<()>
where
    T: Actor,
    F: for<'a> FnOnce(&'a mut T) -> TurnFuture<'a> + Send + 'static,
{
    let shared = cell.actor_shared().clone();
    let mut deadline = Deadline::never();
    let subject = Subject { method: method.name(), target: &*shared };
    let mut work = Some((Work { work, target: PhantomData }, Call::own(method, &shared)));
    let started = poll_fn(|cx| match work.take() {
        Some((work, call)) => Poll::Ready(cell.exclusive::<Result<()>, _>(work, call, cx)),
        None => Poll::Pending,
    });
    let finished = match started.await {
        Start::Turn(turn) => drive_turn(turn, TurnScope::Actor(shared.clone()), &subject, &mut deadline).await,
        Start::Queued(queued) => await_queued(queued, &subject, &mut deadline).await,
        Start::Refused(error) => Err(error),
        Start::Gone(..) => Err(Error::new(ErrorKind::Retry, format!("{shared} has just left this place: retry"))),
    };
    conclude(finished?, &subject, &mut deadline).await.flatten()
}

struct Work<T, F> {
    work: F,
    target: PhantomData<fn(T)>,
}

impl<T, F> ExclusiveMethod<T, Result<()>> for Work<T, F>
where
    T: Actor,
    F: for<'a> FnOnce(&'a mut T) -> TurnFuture<'a> + Send + 'static,
{
    fn invoke(self, target: &mut T) -> impl Future<Output = Result<()>> + Send {
        (self.work)(target)
    }
}
