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
    /// The runtime has failed the call. It is apart from the replies of methods, because a caller elsewhere may be able to
    /// do something about it, such as to call another node.
    Failed(Error),
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

impl<R> Finished<R> {
    /// A call that the runtime has failed.
    pub(crate) fn failed(error: Error) -> Self {
        Self::answered(MethodAnswer::Failed(error))
    }
}
