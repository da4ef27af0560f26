use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mainstay_core::Error;
use tokio::sync::oneshot;

use crate::actor::Actor;
use crate::actor::cell::{Held, LetterTurn};
use crate::actor::site::Site;
use crate::actor::work::{self, Followers};
use crate::call::arrival::Call;
use crate::call::contract::Outcome;
use crate::call::finished::Finished;
use crate::call::host::{ExclusiveMethod, Queued, SharedMethod};
use crate::observe::waiting::Waiting;

/// Something that waits for its turn of an actor.
pub(crate) trait Letter<T: Actor>: Send {
    /// True if it needs the actor to itself.
    fn is_exclusive(&self) -> bool;

    /// True if the actor is used by it.
    fn is_use(&self) -> bool;

    /// Begins it, unless nobody waits for it any more; false if so.
    fn claim(&self) -> bool;

    /// Makes a turn of it.
    fn begin(self: Box<Self>, held: Held<T>) -> LetterTurn;

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

    /// Waits until nobody waits for the answer any more.
    pub(crate) async fn abandoned(&mut self) {
        self.answer.closed().await;
    }
}

/// A call that waits to have the actor to itself.
pub(crate) struct ExclusiveLetter<R: Outcome, M> {
    method: M,
    call: Call,
    reply: ReplyTo<R::Reply>,
    waiting: Waiting,
    result: PhantomData<fn() -> R>,
}

/// A call that waits to run beside others.
pub(crate) struct SharedLetter<R: Outcome, M> {
    method: M,
    call: Call,
    reply: ReplyTo<R::Reply>,
    waiting: Waiting,
    result: PhantomData<fn() -> R>,
}

impl<R: Outcome, M> ExclusiveLetter<R, M> {
    pub(crate) fn new(method: M, call: Call, reply: ReplyTo<R::Reply>, site: &Arc<Site>) -> Self {
        Self { method, waiting: Waiting::new(site, &call), call, reply, result: PhantomData }
    }
}

impl<R: Outcome, M> SharedLetter<R, M> {
    pub(crate) fn new(method: M, call: Call, reply: ReplyTo<R::Reply>, site: &Arc<Site>) -> Self {
        Self { method, waiting: Waiting::new(site, &call), call, reply, result: PhantomData }
    }
}

impl<T: Actor, R: Outcome, M: ExclusiveMethod<T, R>> Letter<T> for ExclusiveLetter<R, M> {
    fn is_exclusive(&self) -> bool {
        true
    }

    fn is_use(&self) -> bool {
        self.call.method.source().counts_as_use()
    }

    fn claim(&self) -> bool {
        self.reply.claim()
    }

    fn begin(self: Box<Self>, held: Held<T>) -> LetterTurn {
        let Self { method, call, reply, waiting, .. } = *self;
        waiting.over();
        Box::pin(async move {
            let finished = work::exclusive(held, method, call, Followers::Others).await;
            reply.send(finished);
        })
    }

    fn refuse(self: Box<Self>, error: Error) {
        self.reply.send(Finished::failed(error));
    }
}

impl<T: Actor, R: Outcome, M: SharedMethod<T, R>> Letter<T> for SharedLetter<R, M> {
    fn is_exclusive(&self) -> bool {
        false
    }

    fn is_use(&self) -> bool {
        self.call.method.source().counts_as_use()
    }

    fn claim(&self) -> bool {
        self.reply.claim()
    }

    fn begin(self: Box<Self>, held: Held<T>) -> LetterTurn {
        let Self { method, call, reply, waiting, .. } = *self;
        waiting.over();
        Box::pin(async move {
            let finished = work::shared(held, method, call, Followers::Others).await;
            reply.send(finished);
        })
    }

    fn refuse(self: Box<Self>, error: Error) {
        self.reply.send(Finished::failed(error));
    }
}
