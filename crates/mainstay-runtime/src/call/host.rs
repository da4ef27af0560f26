use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Context;

use mainstay_core::Error;
use tokio::sync::oneshot;

use crate::call::arrival::Call;
use crate::call::contract::Outcome;
use crate::call::finished::Finished;

/// A call that is being carried out, wherever it is polled.
pub type Turn<R> = Pin<Box<dyn Future<Output = Finished<R>> + Send>>;

/// The arguments of a method that takes `&self` and returns an `R`, and the way to that method of a type.
pub trait SharedMethod<T, R>: Send + 'static {
    /// Calls the method.
    fn invoke(self, target: &T) -> impl Future<Output = R> + Send;
}

/// The arguments of a method that takes `&mut self` and returns an `R`, and the way to that method of a type.
pub trait ExclusiveMethod<T, R>: Send + 'static {
    /// Calls the method.
    fn invoke(self, target: &mut T) -> impl Future<Output = R> + Send;
}

/// What becomes of a call that has arrived.
pub enum Start<R, A> {
    /// It has a turn.
    Turn(Progress<R>),
    /// It waits for its turn, and is carried out by whoever is before it.
    Queued(Queued<R>),
    /// It is not carried out.
    Refused(Error),
    /// The object has left this place: look for it again, with the arguments that are given back.
    Gone(A, Call),
}

/// How far a turn has come at once.
#[allow(
    clippy::large_enum_variant,
    reason = "most are finished, and a box for the answer is what this is there to save"
)]
pub enum Progress<R> {
    /// Nothing of its method has happened yet.
    Ready(Turn<R>),
    /// It has begun, and has to wait for something.
    Moving(Turn<R>),
    /// It has ended.
    Finished(Finished<R>),
}

/// A call that waits for its turn, as its caller sees it.
pub struct Queued<R> {
    pub(crate) answer: oneshot::Receiver<Finished<R>>,
    /// True once it has begun, or is not to begin any more.
    pub(crate) is_claimed: Arc<AtomicBool>,
}

/// What holds an object that can be called, and decides when a call runs.
///
/// Everything between an interface and an object is in its hands, with both types known: an interface is implemented for
/// every host of a type that implements it, so that a call goes through one table.
pub trait Host: Send + Sync + Sized + 'static {
    /// The type of the object.
    type Target: Send + Sync + 'static;

    /// Runs a method beside others, as far as that goes at once.
    fn shared<R, M>(self: &Arc<Self>, method: M, call: Call, cx: &mut Context<'_>) -> Start<R::Reply, M>
    where
        R: Outcome,
        M: SharedMethod<Self::Target, R>;
}

#[diagnostic::on_unimplemented(
    message = "a service cannot have a method that takes `&mut self`",
    label = "this interface has a method that takes `&mut self`",
    note = "calls to a service run beside each other: take `&self` in every method and keep what changes in collections"
)]
/// A host that can also give an object to one call alone.
pub trait ExclusiveHost: Host {
    /// Runs a method alone, as far as that goes at once.
    fn exclusive<R, M>(self: &Arc<Self>, method: M, call: Call, cx: &mut Context<'_>) -> Start<R::Reply, M>
    where
        R: Outcome,
        M: ExclusiveMethod<Self::Target, R>;
}
