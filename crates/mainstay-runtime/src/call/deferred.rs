use std::fmt;

use mainstay_core::Error;
use tokio::sync::oneshot;

use crate::actor::engagement::Owed;
use crate::call::contract::{Contract, Reply as _};
use crate::call::current;

/// An answer that is given after the turn has ended: what a method returns instead of the value, and what a caller does
/// not see. Made by [`deferred`].
///
/// The caller waits until its [`Responder`] has answered, in whatever later turn; the actor is free meanwhile. If the
/// responder is dropped, because the actor is deactivated or forgets it, the caller gets an error. If the caller's time
/// limit passes, the caller gets an error and the responder's answer goes nowhere.
///
/// As long as a caller waits for it, its actor is in use, and is not collected as an idle one. While as many wait as the setting
/// `calls_max` of the actor says, calls of such methods are refused with `Overloaded`.
pub struct Deferred<T, E = Error> {
    later: Box<Later<Result<T, E>>>,
}

/// Somebody's wait for an answer that is given later.
pub struct Later<R> {
    receiver: oneshot::Receiver<R>,
    /// That its actor owes it, if it is one of an actor.
    _owed: Option<Owed>,
}

impl<R> Later<R> {
    /// The answer; `None` if nobody is left to give it.
    pub(crate) async fn answer(mut self: Box<Self>) -> Option<R> {
        (&mut self.receiver).await.ok()
    }
}

/// Gives a [`Deferred`] answer, once.
pub struct Responder<T, E = Error> {
    sender: oneshot::Sender<Result<T, E>>,
}

/// An answer for later, and who gives it.
pub fn deferred<T: Contract, E: Contract + From<Error>>() -> (Deferred<T, E>, Responder<T, E>) {
    let (sender, receiver) = oneshot::channel();
    let later = Later { receiver, _owed: current::site().map(Owed::new) };
    (Deferred { later: Box::new(later) }, Responder { sender })
}

impl<T, E> Deferred<T, E> {
    pub(crate) fn into_later(self) -> Box<Later<Result<T, E>>> {
        self.later
    }
}

impl<T: Contract, E: Contract + From<Error>> Responder<T, E> {
    /// Gives the answer. In a turn it leaves with what the turn has changed: when that is durable, and not at all if the
    /// turn fails, which the caller is then told.
    pub fn respond(self, answer: Result<T, E>) {
        let Self { sender } = self;
        current::leave(move |turn| {
            // An error means that nobody waits any more.
            let _ = sender.send(turn.map_or_else(Result::failed, |()| answer));
        });
    }

    /// True if nobody waits for the answer any more.
    pub fn is_abandoned(&self) -> bool {
        self.sender.is_closed()
    }
}

impl<T, E> fmt::Debug for Deferred<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deferred")
    }
}

impl<T, E> fmt::Debug for Responder<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}
