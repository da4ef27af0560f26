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
use crate::actor::cell::{Held, LetterTurn};
use crate::actor::site::Site;
use crate::actor::work::{self, Followers};
use crate::call::arrival::{Call, Method};
use crate::call::contract::{Outcome, Reply};
use crate::call::current::TurnKind;
use crate::call::finished::Finished;
use crate::call::host::{Progress, Queued};
use crate::call::turn::panic_text;
use crate::observe::waiting::Waiting;

/// Something that waits for its turn of an actor.
pub(crate) trait Letter<T: Actor>: Send {
    /// True if it needs the actor to itself.
    fn is_exclusive(&self) -> bool;

    /// True if the actor is used by it.
    fn is_use(&self) -> bool;

    /// Begins it, unless nobody waits for it any more; false if so.
    fn claim(&self) -> bool;

    /// Makes a turn of it, and carries that out as far as it goes at once. Returns what is left.
    fn carry_out(self: Box<Self>, held: Held<'_, T>, cx: &mut Context<'_>) -> Option<LetterTurn>;

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
pub(crate) fn poll_once(turn: impl Future<Output = ()> + Send + 'static, cx: &mut Context<'_>) -> Option<LetterTurn> {
    let mut turn: LetterTurn = Box::pin(turn);
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
pub(crate) struct CallLetter<R: Outcome, A> {
    access: A,
    call: Call,
    reply: ReplyTo<R::Reply>,
    waiting: Waiting,
    result: PhantomData<fn() -> R>,
}

impl<R: Outcome, A> CallLetter<R, A> {
    pub(crate) fn boxed<T>(access: A, mut call: Call, reply: ReplyTo<R::Reply>, site: &Arc<Site>) -> Box<dyn Letter<T>>
    where
        T: Actor,
        A: Access<T, R>,
    {
        // The time that it waits counts.
        let _ = call.current.deadline.moment();
        Box::new(Self { access, waiting: Waiting::new(site, &call), call, reply, result: PhantomData })
    }
}

impl<T: Actor, R: Outcome, A: Access<T, R>> Letter<T> for CallLetter<R, A> {
    fn is_exclusive(&self) -> bool {
        A::KIND == TurnKind::Exclusive
    }

    fn is_use(&self) -> bool {
        self.call.current.method.source().counts_as_use()
    }

    fn claim(&self) -> bool {
        self.reply.claim()
    }

    fn carry_out(self: Box<Self>, held: Held<'_, T>, cx: &mut Context<'_>) -> Option<LetterTurn> {
        let Self { access, call, reply, waiting, .. } = *self;
        waiting.over();
        if let Some(chain) = &call.current.chain {
            chain.admitted();
        }
        if R::ANSWERS_LATER
            && let Some(error) = held.cell().owes_too_many(&call)
        {
            held.give_back();
            reply.refuse(call.current.method, error);
            return None;
        }
        match work::at_once(held, access, call, Followers::Others, cx) {
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
