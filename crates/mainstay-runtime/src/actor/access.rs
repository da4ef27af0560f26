//! The two ways in which a method gets at its actor.

use std::future::Future;

use crate::actor::Actor;
use crate::actor::presence::Possession;
use crate::call::current::TurnKind;
use crate::call::host::{ExclusiveMethod, SharedMethod};

/// How a method gets at its actor.
pub(crate) trait Access<T: Actor, R>: Send + 'static {
    /// What its turns may do.
    const KIND: TurnKind;

    /// Calls the method; `None` if it needs the actor to itself, and others have it as well.
    fn invoke(self, possession: &mut Possession<T>) -> Option<impl Future<Output = R> + Send>;
}

/// A method that has the actor to itself.
pub(crate) struct Exclusive<M>(pub(crate) M);

impl<T: Actor, R: Send, M: ExclusiveMethod<T, R>> Access<T, R> for Exclusive<M> {
    const KIND: TurnKind = TurnKind::Exclusive;

    #[inline]
    fn invoke(self, possession: &mut Possession<T>) -> Option<impl Future<Output = R> + Send> {
        Some(self.0.invoke(&mut possession.active_mut()?.actor))
    }
}

/// A method that runs beside others.
pub(crate) struct Shared<M>(pub(crate) M);

impl<T: Actor, R: Send, M: SharedMethod<T, R>> Access<T, R> for Shared<M> {
    const KIND: TurnKind = TurnKind::Shared;

    #[inline]
    fn invoke(self, possession: &mut Possession<T>) -> Option<impl Future<Output = R> + Send> {
        Some(self.0.invoke(&possession.active().actor))
    }
}
