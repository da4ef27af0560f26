use std::fmt;

use mainstay_core::Error;
use mainstay_state::EpochLease;
use tokio::sync::oneshot;

use crate::actor::keep_alive::Owed;
use crate::call::contract::{Contract, Reply};
use crate::call::current;
use crate::call::unproven::unproven;

/// A reply that is given after the turn has ended. A method returns it in place of the value; the caller gets the value.
/// Made by [`deferred`].
///
/// The caller waits until the [`Responder`] responds, in any later turn; the actor is free meanwhile. If the responder is
/// dropped, explicitly or because the actor is deactivated, the caller gets an error. If the caller's time limit passes,
/// the caller gets an error and the reply is discarded.
///
/// While a caller waits for a deferred reply, the actor counts as in use and is not evicted. While `calls_max` of them wait
/// at an actor, further calls of such methods are refused with `Overloaded`.
pub struct Deferred<T, E = Error> {
    later: Box<DeferredAnswer<Result<T, E>>>,
}

/// The wait of a caller for a deferred reply.
pub struct DeferredAnswer<R> {
    receiver: oneshot::Receiver<Result<R, Error>>,
    /// True if the turn that returned it has changed something.
    pub(crate) has_effects: bool,
    /// Keeps the actor in memory while the caller waits.
    _owed: Option<Owed>,
}

impl<R: Reply> DeferredAnswer<R> {
    /// The reply; `None` if the responder was dropped.
    pub(crate) async fn answer(mut self: Box<Self>) -> Option<R> {
        let answered = (&mut self.receiver).await.ok()?;
        Some(answered.unwrap_or_else(|error| R::failed(unproven(error, self.has_effects))))
    }
}

/// Gives a [`Deferred`] reply, once.
pub struct Responder<T, E = Error> {
    sender: oneshot::Sender<Result<Result<T, E>, Error>>,
    /// The lease without which no reply leaves: it may be made from what was in memory.
    lease: Option<EpochLease>,
}

/// A deferred reply, and its responder.
pub fn deferred<T: Contract, E: Contract + From<Error>>() -> (Deferred<T, E>, Responder<T, E>) {
    let (sender, receiver) = oneshot::channel();
    let later = DeferredAnswer { receiver, has_effects: false, _owed: current::shared().map(Owed::new) };
    (Deferred { later: Box::new(later) }, Responder { sender, lease: current::lease() })
}

impl<T, E> Deferred<T, E> {
    pub(crate) fn into_later(self) -> Box<DeferredAnswer<Result<T, E>>> {
        self.later
    }
}

impl<T: Contract, E: Contract + From<Error>> Responder<T, E> {
    /// Gives the reply. In a turn, the reply is an output of the turn: it leaves once the turn is durable, and if the turn
    /// fails, the caller gets an error instead.
    pub fn respond(self, answer: Result<T, E>) {
        let Self { sender, lease } = self;
        current::leave(move |turn| {
            let proven = turn.and_then(|()| lease.map_or(Ok(()), |lease| lease.check()));
            // An error means that the caller has given up.
            let _ = sender.send(proven.map(|()| answer));
        });
    }

    /// True if the caller has given up.
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
