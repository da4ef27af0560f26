//! What the alarm does with a reminder of an actor, in line with its calls.

use std::sync::Arc;
use std::task::Context;

use mainstay_core::time;
use mainstay_core::{Error, Result};
use mainstay_state::actor::{ActorWrites, Reminder};
use tokio::sync::oneshot;

use crate::actor::Actor;
use crate::actor::access::Exclusive;
use crate::actor::actor_shared::ActorShared;
use crate::actor::cell::{ActorCell, ActorGuard, ItemTurn};
use crate::actor::mailbox_item::{MailboxItem, poll_once};
use crate::actor::work::{self, Followers};
use crate::call::arrival::{Call, Deadline, Method, TurnSource};
use crate::call::current;
use crate::call::finished::{Finished, MethodAnswer};
use crate::call::object_host::ExclusiveMethod;
use crate::call::turn::{Subject, conclude};

static REMIND: Method = Method::own("remind", TurnSource::Reminder);

/// What is to be done with a reminder, if it still is what it was.
pub(crate) enum ReminderJob {
    /// The actor handles it, and is activated for that if need be.
    Fire,
    /// It is stored like this, or removed. The actor does not notice.
    Replace(Option<Reminder>),
}

/// What became of it.
pub(crate) enum Done {
    /// It is done, and durable; or it was not to be done, because the reminder was changed meanwhile.
    Settled,
    /// It has failed, and nothing has changed.
    Failed(Error),
    /// The actor has left its place, and may be found again.
    Left,
}

/// Runs an errand when it is its turn.
pub(crate) async fn run<T: Actor>(cell: &Arc<ActorCell<T>>, reminder: Reminder, job: ReminderJob) -> Done {
    let (reply, answer) = oneshot::channel();
    let is_taken = cell.post(Box::new(ReminderItem { reminder, job, reply }));
    let finished = match answer.await {
        Ok(finished) if is_taken => finished,
        _ => return Done::Left,
    };
    let subject = Subject { method: REMIND.name(), target: &**cell.actor_shared() };
    match conclude(finished, &subject, &mut Deadline::never()).await.flatten() {
        Ok(()) => Done::Settled,
        Err(error) => Done::Failed(error),
    }
}

struct ReminderItem {
    reminder: Reminder,
    job: ReminderJob,
    /// Dropped if the actor leaves.
    reply: oneshot::Sender<Finished<Result<()>>>,
}

impl<T: Actor> MailboxItem<T> for ReminderItem {
    fn is_exclusive(&self) -> bool {
        true
    }

    fn is_use(&self) -> bool {
        REMIND.source().counts_as_use()
    }

    fn claim(&self) -> bool {
        !self.reply.is_closed()
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn carry_out(self: Box<Self>, mut guard: ActorGuard<'_, T>, cx: &mut Context<'_>) -> Option<ItemTurn> {
        let Self { reminder, job, reply } = *self;
        let guard = guard.hand_over();
        let turn = async move {
            // An error means that the partition is being closed.
            let _ = reply.send(carry_out(guard, reminder, job).await);
        };
        poll_once(turn, cx)
    }

    fn refuse(self: Box<Self>, _: Error) {}
}

/// Looks before the actor is activated: one that was deleted meanwhile must not come back for this.
async fn carry_out<T: Actor>(
    guard: ActorGuard<'static, T>,
    reminder: Reminder,
    job: ReminderJob,
) -> Finished<Result<()>> {
    let shared = guard.actor_shared().clone();
    let finished = match is_unchanged(&shared, &reminder) {
        Err(error) => Finished::now(Err(error)),
        // When that is durable: until then it would be found in the store as it was.
        Ok(false) => {
            Finished { answer: MethodAnswer::Now(Ok(())), hold: shared.gate.hold(&shared, shared.gate.generation()) }
        }
        Ok(true) => match job {
            ReminderJob::Fire => {
                let call = Call::own(&REMIND, &shared);
                return work::carry_out(guard, Exclusive(Handling { reminder }), call, Followers::Others).await;
            }
            ReminderJob::Replace(next) => replace(&shared, &reminder, next).await,
        },
    };
    guard.give_back();
    finished
}

async fn replace(shared: &Arc<ActorShared>, reminder: &Reminder, next: Option<Reminder>) -> Finished<Result<()>> {
    let mut writes = ActorWrites::new(shared.id.clone());
    match next {
        Some(next) => {
            if let Err(error) = writes.put_reminder(next) {
                return Finished::now(Err(error));
            }
        }
        None => writes.remove_reminder(&reminder.name),
    }
    let hold = work::submit(shared, shared.gate.generation(), Some(Box::new(writes)), Vec::new()).await;
    Finished { answer: MethodAnswer::Now(Ok(())), hold }
}

/// A reminder that is handled by its actor.
struct Handling {
    reminder: Reminder,
}

impl<T: Actor> ExclusiveMethod<T, Result<()>> for Handling {
    async fn invoke(self, target: &mut T) -> Result<()> {
        let Some(hook) = &T::REMINDABLE else {
            return Err(Error::invalid(format!("nobody handles it: implement `Remindable` for {}", T::NAME)));
        };
        (hook.remind)(target, self.reminder.clone()).await?;
        handled(&self.reminder)
    }
}

/// Says what becomes of a reminder that was handled, with what the turn has changed; unless the turn has said so itself.
fn handled(reminder: &Reminder) -> Result<()> {
    let Some(shared) = current::shared() else { return Ok(()) };
    let is_set_here = current::changed(|writes| writes.reminder(&reminder.name).map(drop)).is_some();
    if is_set_here || !is_unchanged(&shared, reminder)? {
        return Ok(());
    }
    let next = reminder.after_success(time::wall());
    current::change(|writes| match next {
        Some(next) => writes.put_reminder(next),
        None => {
            writes.remove_reminder(&reminder.name);
            Ok(())
        }
    })
}

/// True if a reminder is what it was, as of the last turn.
fn is_unchanged(shared: &ActorShared, reminder: &Reminder) -> Result<bool> {
    let known = shared.gate.reminder(shared, &reminder.name)?;
    Ok(known.as_ref() == Some(reminder))
}
