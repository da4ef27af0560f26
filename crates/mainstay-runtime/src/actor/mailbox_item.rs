use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;

use mainstay_core::Error;
use tokio::sync::oneshot;

use crate::actor::Actor;
use crate::actor::access::Access;
use crate::actor::actor_shared::ActorShared;
use crate::actor::cell::{ActorGuard, ItemTurn};
use crate::actor::work::{self, Followers};
use crate::call::arrival::{Call, Method};
use crate::call::contract::{MethodResult, Reply};
use crate::call::current::TurnKind;
use crate::call::finished::Finished;
use crate::call::object_host::{Progress, Queued};
use crate::call::turn::panic_text;
use crate::observe::mailbox_wait::MailboxWait;

/// Something that waits for its turn of an actor.
pub(crate) trait MailboxItem<T: Actor>: Send {
    /// True if it needs the actor to itself.
    fn is_exclusive(&self) -> bool;

    /// True if the actor is used by it.
    fn is_use(&self) -> bool;

    /// Begins it, unless nobody waits for it any more; false if so.
    fn claim(&self) -> bool;

    /// True if nobody waits for it any more, and it is not to begin.
    fn is_abandoned(&self) -> bool {
        false
    }

    /// Makes a turn of it, and carries that out as far as it goes at once. Returns what is left.
    fn carry_out(self: Box<Self>, guard: ActorGuard<'_, T>, cx: &mut Context<'_>) -> Option<ItemTurn>;

    /// Ends it without a turn.
    fn refuse(self: Box<Self>, error: Error);

    /// Ends it without a turn because the actor has been deleted; the error is for those who wanted it.
    fn outlive(self: Box<Self>, error: Error) {
        self.refuse(error);
    }

    /// True if it takes the actor out of memory because the actor has asked for that.
    fn is_departure(&self) -> bool {
        false
    }
}

/// Polls a turn of a letter. Returns what is left of it.
pub(crate) fn poll_once(turn: impl Future<Output = ()> + Send + 'static, cx: &mut Context<'_>) -> Option<ItemTurn> {
    let mut turn: ItemTurn = Box::pin(turn);
    turn.as_mut().poll(cx).is_pending().then_some(turn)
}

/// Where the answer to a waiting call goes.
pub(crate) struct ReplyTo<R> {
    answer: oneshot::Sender<Finished<R>>,
    is_claimed: Arc<AtomicBool>,
}

impl<R> ReplyTo<R> {
    pub(crate) fn new() -> (Self, Queued<R>) {
        let (sender, answer) = oneshot::channel();
        let is_claimed = Arc::new(AtomicBool::new(false));
        (Self { answer: sender, is_claimed: is_claimed.clone() }, Queued { answer, is_claimed })
    }

    /// Begins the call, unless nobody waits for it any more; false if so.
    pub(crate) fn claim(&self) -> bool {
        !self.answer.is_closed() && !self.is_claimed.swap(true, Ordering::AcqRel)
    }

    /// True if nobody waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.answer.is_closed() || self.is_claimed.load(Ordering::Acquire)
    }

    pub(crate) fn send(self, finished: Finished<R>) {
        // An error means that the caller is gone.
        let _ = self.answer.send(finished);
    }

    /// Sends an error instead of an answer. It may become one of the application's own, and that may panic: then the caller is
    /// told by what is dropped, and does the same in its own task.
    pub(crate) fn refuse(self, method: &'static Method, error: Error)
    where
        R: Reply,
    {
        match catch_unwind(AssertUnwindSafe(|| Finished::failed(error))) {
            Ok(finished) => self.send(finished),
            Err(panic) => {
                tracing::error!(?method, panic = panic_text(&*panic), "the error of a call panicked when it was made");
            }
        }
    }

    /// Waits until nobody waits for the answer any more.
    pub(crate) async fn abandoned(&mut self) {
        self.answer.closed().await;
    }
}

/// A call that waits for its turn.
pub(crate) struct CallItem<R: MethodResult, A> {
    access: A,
    call: Call,
    reply: ReplyTo<R::Reply>,
    waiting: MailboxWait,
    result: PhantomData<fn() -> R>,
}

impl<R: MethodResult, A> CallItem<R, A> {
    pub(crate) fn boxed<T>(
        access: A,
        mut call: Call,
        reply: ReplyTo<R::Reply>,
        shared: &Arc<ActorShared>,
    ) -> Box<dyn MailboxItem<T>>
    where
        T: Actor,
        A: Access<T, R>,
    {
        // The time that it waits counts.
        let _ = call.current.deadline.moment();
        Box::new(Self { access, waiting: MailboxWait::new(shared, &call), call, reply, result: PhantomData })
    }
}

impl<T: Actor, R: MethodResult, A: Access<T, R>> MailboxItem<T> for CallItem<R, A> {
    fn is_exclusive(&self) -> bool {
        A::KIND == TurnKind::Exclusive
    }

    fn is_use(&self) -> bool {
        self.call.current.method.source().counts_as_use()
    }

    fn claim(&self) -> bool {
        self.reply.claim()
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_abandoned()
    }

    fn carry_out(self: Box<Self>, guard: ActorGuard<'_, T>, cx: &mut Context<'_>) -> Option<ItemTurn> {
        let Self { access, call, reply, waiting, .. } = *self;
        waiting.over();
        if let Some(chain) = &call.current.chain {
            chain.admitted();
        }
        if R::ANSWERS_LATER
            && let Some(error) = guard.cell().owes_too_many(&call)
        {
            guard.give_back();
            reply.refuse(call.current.method, error);
            return None;
        }
        match work::at_once(guard, access, call, Followers::Others, cx) {
            Progress::Finished(finished) => {
                reply.send(finished);
                None
            }
            Progress::Moving(turn) => Some(Box::pin(async move { reply.send(turn.await) })),
            Progress::Ready(turn) => poll_once(async move { reply.send(turn.await) }, cx),
        }
    }

    fn refuse(self: Box<Self>, error: Error) {
        let Self { access, call, reply, .. } = *self;
        let method = call.current.method;
        reply.refuse(method, error);
        // Its arguments are of others.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(access))) {
            tracing::error!(
                ?method,
                panic = panic_text(&*panic),
                "the arguments of a call panicked when they were dropped"
            );
        }
    }
}
