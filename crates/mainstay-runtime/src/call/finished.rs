use mainstay_core::Error;

use crate::actor::gate::Hold;
use crate::call::deferred::DeferredAnswer;

/// A finished turn, whose reply may still have to wait for a commit.
pub struct Finished<R> {
    pub(crate) answer: MethodAnswer<R>,
    /// The commit that the reply waits for: that of the turn, or of an earlier one.
    pub(crate) hold: Option<Hold>,
}

/// The reply of a method.
pub enum MethodAnswer<R> {
    /// The reply is known.
    Now(R),
    /// The reply comes from a later turn.
    Later(Box<DeferredAnswer<R>>),
}

impl<R> Finished<R> {
    /// A reply that waits for no commit.
    pub(crate) fn now(reply: R) -> Self {
        Self::answered(MethodAnswer::Now(reply))
    }

    /// A reply, known or deferred, that waits for no commit.
    #[inline]
    pub(crate) fn answered(answer: MethodAnswer<R>) -> Self {
        Self { answer, hold: None }
    }
}

impl<R: crate::call::contract::Reply> Finished<R> {
    pub(crate) fn failed(error: Error) -> Self {
        Self::now(R::failed(error))
    }
}
