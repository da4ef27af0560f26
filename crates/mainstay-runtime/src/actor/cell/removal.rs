//! The removal of an actor, from memory or altogether, as something that waits in line like a call.

use std::any::Any;
use std::sync::Arc;
use std::task::Context;

use mainstay_core::{Error, Result};

use crate::actor::Actor;
use crate::actor::cell::{ActorCell, ActorGuard, CellRef, ItemTurn, Running};
use crate::actor::mailbox_item::{MailboxItem, ReplyTo, poll_once};
use crate::actor::{deactivation, deletion};
use crate::call::arguments::{ArgumentReader, ArgumentSink, Arguments, add_argument, take_argument};
use crate::call::arrival::Call;
use crate::call::chain::Chain;
use crate::call::finished::Finished;
use crate::call::object_host::{Progress, Start};

/// How an actor is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Removal {
    /// From memory.
    Deactivate,
    /// With everything that is stored of it.
    Delete,
}

impl Arguments for Removal {
    const COUNT: usize = 1;

    fn add_to(&self, sink: &mut ArgumentSink) -> Result<()> {
        add_argument(sink, "removal", self)
    }

    fn read(reader: &mut ArgumentReader<'_>) -> Result<Self> {
        take_argument(reader, "removal")
    }
}

/// The removal of an actor, as one of its methods.
pub(crate) trait Removing: Send + Sync {
    /// Removes the actor when those who came before have had their turns.
    fn remove(&self, removal: Removal, call: Call) -> Start<Result<()>, Removal>;
}

/// The place of an actor of any type, by which the actor can be removed.
pub(crate) trait Removable: Any + Send + Sync {
    /// Takes the actor out of memory as soon as the turns under way have ended.
    fn depart(self: Arc<Self>);

    /// Drops an idle object that a failed commit has made worthless.
    fn shed(self: Arc<Self>);
}

impl<T: Actor> Removing for Arc<ActorCell<T>> {
    fn remove(&self, removal: Removal, mut call: Call) -> Start<Result<()>, Removal> {
        let mut inner = self.enter();
        if inner.is_closed {
            return Start::Gone(removal, call);
        }
        if inner.queue.is_empty()
            && let Some(taken) = inner.take(self, false)
        {
            drop(inner);
            let cell = self.clone();
            let guard = ActorGuard::new(CellRef::Kept(cell.clone()), taken);
            // The rest of the call, with its span, is over.
            let chain = call.current.chain.take();
            return Start::Turn(Progress::Ready(Box::pin(async move {
                let (finished, is_wanted) = removed(guard, removal, chain).await;
                if is_wanted {
                    cell.drained().await;
                }
                finished
            })));
        }
        self.enqueue(inner, call, |mut call, reply| {
            Box::new(RemovalItem { removal, chain: call.current.chain.take(), reply: Some(reply) })
        })
    }
}

impl<T: Actor> Removable for ActorCell<T> {
    fn shed(self: Arc<Self>) {
        ActorCell::shed(&self);
    }

    fn depart(self: Arc<Self>) {
        let mut inner = self.enter();
        let is_there = inner.object.is_some() || inner.running != Running::Nobody;
        if inner.is_closed || !is_there || inner.queue.front().is_some_and(|item| item.is_departure()) {
            return;
        }
        // Before those who wait: they are to find a new one. It is one at most, and so no question of the mailbox.
        inner.queue.push_front(Box::new(RemovalItem { removal: Removal::Deactivate, chain: None, reply: None }));
        let is_free = inner.running == Running::Nobody;
        drop(inner);
        if is_free {
            let scope = self.shared.partition.scope.clone();
            drop(scope.spawn(self.drained()));
        }
    }
}

/// A removal that waits for its turn.
struct RemovalItem {
    removal: Removal,
    chain: Option<Chain>,
    /// Who is told; nobody if it was the actor itself that asked for it.
    reply: Option<ReplyTo<Result<()>>>,
}

impl<T: Actor> MailboxItem<T> for RemovalItem {
    fn is_exclusive(&self) -> bool {
        true
    }

    fn is_use(&self) -> bool {
        false
    }

    fn is_departure(&self) -> bool {
        self.reply.is_none()
    }

    fn claim(&self) -> bool {
        self.reply.as_ref().is_none_or(ReplyTo::claim)
    }

    fn is_abandoned(&self) -> bool {
        self.reply.as_ref().is_some_and(ReplyTo::is_abandoned)
    }

    fn carry_out(self: Box<Self>, mut guard: ActorGuard<'_, T>, cx: &mut Context<'_>) -> Option<ItemTurn> {
        let Self { removal, chain, reply } = *self;
        if let Some(chain) = &chain {
            chain.admitted();
        }
        let guard = guard.hand_over();
        let turn = async move {
            let (finished, _) = removed(guard, removal, chain).await;
            if let Some(reply) = reply {
                reply.send(finished);
            }
        };
        poll_once(turn, cx)
    }

    fn refuse(self: Box<Self>, error: Error) {
        if let Some(reply) = self.reply {
            reply.send(Finished::failed(error));
        }
    }

    fn outlive(self: Box<Self>, _: Error) {
        // An actor that is deleted is where a removal wants it.
        if let Some(reply) = self.reply {
            reply.send(Finished::now(Ok(())));
        }
    }
}

/// Removes an actor. Returns whether somebody waits for it as well.
async fn removed<T: Actor>(
    guard: ActorGuard<'_, T>,
    removal: Removal,
    chain: Option<Chain>,
) -> (Finished<Result<()>>, bool) {
    match removal {
        Removal::Deactivate => (Finished::now(Ok(())), deactivation::leave(guard, chain).await),
        Removal::Delete => deletion::delete(guard, chain).await,
    }
}
