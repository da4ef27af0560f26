use mainstay_core::Error;

use crate::actor::gate::Hold;
use crate::call::deferred::Later;

/// A turn that has ended, and what has yet to happen before its caller may know.
pub struct Finished<R> {
    pub(crate) answer: Answer<R>,
    /// What the answer waits behind: the commit of the turn, or of one before it.
    pub(crate) hold: Option<Hold>,
}

/// What a method has answered.
pub enum Answer<R> {
    /// The answer.
    Now(R),
    /// It comes from a later turn.
    Later(Box<Later<R>>),
}

impl<R> Finished<R> {
    /// An answer that waits for nothing.
    pub(crate) fn now(reply: R) -> Self {
        Self::answered(Answer::Now(reply))
    }

    /// An answer that is given, now or later, and waits for nothing else.
    #[inline]
    pub(crate) fn answered(answer: Answer<R>) -> Self {
        Self { answer, hold: None }
    }
}

impl<R: crate::call::contract::Reply> Finished<R> {
    pub(crate) fn failed(error: Error) -> Self {
        Self::now(R::failed(error))
    }
}
