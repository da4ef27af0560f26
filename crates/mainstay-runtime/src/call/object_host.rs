use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Context;

use mainstay_core::Error;
use tokio::sync::oneshot;

use crate::call::arrival::Call;
use crate::call::contract::MethodResult;
use crate::call::finished::Finished;

/// The future of a turn, which may be polled by any task.
pub type Turn<R> = Pin<Box<dyn Future<Output = Finished<R>> + Send>>;

/// The arguments of a method that takes `&self` and returns an `R`, with the method itself.
pub trait SharedMethod<T, R>: Send + 'static {
    /// Calls the method.
    fn invoke(self, target: &T) -> impl Future<Output = R> + Send;
}

/// The arguments of a method that takes `&mut self` and returns an `R`, with the method itself.
pub trait ExclusiveMethod<T, R>: Send + 'static {
    /// Calls the method.
    fn invoke(self, target: &mut T) -> impl Future<Output = R> + Send;
}

/// The result of starting a call at an object.
pub enum Start<R, A> {
    /// The call has a turn.
    Turn(Progress<R>),
    /// The call is queued. It is started by the turn that releases the object.
    Queued(Queued<R>),
    /// The call is refused.
    Refused(Error),
    /// The object is no longer there: resolve the route again, with the returned arguments.
    Gone(A, Call),
}

/// The progress of a turn after its first poll.
#[allow(
    clippy::large_enum_variant,
    reason = "most are finished, and a box for the answer is what this is there to save"
)]
pub enum Progress<R> {
    /// The method has not been polled yet.
    Ready(Turn<R>),
    /// The method is pending.
    Moving(Turn<R>),
    /// The turn has ended.
    Finished(Finished<R>),
}

/// A queued call, as its caller sees it.
pub struct Queued<R> {
    pub(crate) answer: oneshot::Receiver<Finished<R>>,
    /// True once the call has started, or must not start any more.
    pub(crate) is_claimed: Arc<AtomicBool>,
}

/// The host of an object: decides when a call runs.
///
/// Both the type of the interface and the type of the object are known in a host: an interface is implemented for every
/// host of a type that implements it, so that a call needs a single dynamic dispatch.
pub trait ObjectHost: Send + Sync + Sized + 'static {
    /// The type of the object.
    type Target: Send + Sync + 'static;

    /// Starts a `&self` method, which may run concurrently with others, and polls it once where possible.
    fn shared<R, M>(self: &Arc<Self>, method: M, call: Call, cx: &mut Context<'_>) -> Start<R::Reply, M>
    where
        R: MethodResult,
        M: SharedMethod<Self::Target, R>;
}

#[diagnostic::on_unimplemented(
    message = "a service cannot have a method that takes `&mut self`",
    label = "this interface has a method that takes `&mut self`",
    note = "calls to a service run beside each other: take `&self` in every method and keep what changes in collections"
)]
/// A host that can also give a call exclusive access to the object.
pub trait ExclusiveHost: ObjectHost {
    /// Starts a `&mut self` method, and polls it once where possible.
    fn exclusive<R, M>(self: &Arc<Self>, method: M, call: Call, cx: &mut Context<'_>) -> Start<R::Reply, M>
    where
        R: MethodResult,
        M: ExclusiveMethod<Self::Target, R>;
}
