//! The two ways in which a method gets at its actor.

use std::future::Future;

use crate::actor::Actor;
use crate::actor::presence::Object;
use crate::call::current::TurnKind;
use crate::call::object_host::{ExclusiveMethod, SharedMethod};

/// How a method gets at its actor.
pub(crate) trait Access<T: Actor, R>: Send + 'static {
    /// What its turns may do.
    const KIND: TurnKind;

    /// What it needs of the actor.
    type Target<'p>: Send
    where
        T: 'p;

    /// What it needs; `None` if that is the actor to itself, and others have it as well.
    fn target(object: &mut Object<T>) -> Option<Self::Target<'_>>;

    /// Calls the method.
    fn invoke<'p>(self, target: Self::Target<'p>) -> impl Future<Output = R> + Send
    where
        T: 'p;
}

/// A method that has the actor to itself.
pub(crate) struct Exclusive<M>(pub(crate) M);

impl<T: Actor, R: Send, M: ExclusiveMethod<T, R>> Access<T, R> for Exclusive<M> {
    const KIND: TurnKind = TurnKind::Exclusive;
    type Target<'p> = &'p mut T;

    #[inline]
    fn target(object: &mut Object<T>) -> Option<&mut T> {
        Some(&mut object.active_mut()?.actor)
    }

    #[inline]
    fn invoke<'p>(self, target: &'p mut T) -> impl Future<Output = R> + Send
    where
        T: 'p,
    {
        self.0.invoke(target)
    }
}

/// A method that runs beside others.
pub(crate) struct Shared<M>(pub(crate) M);

impl<T: Actor, R: Send, M: SharedMethod<T, R>> Access<T, R> for Shared<M> {
    const KIND: TurnKind = TurnKind::Shared;
    type Target<'p> = &'p T;

    #[inline]
    fn target(object: &mut Object<T>) -> Option<&T> {
        Some(&object.active().actor)
    }

    #[inline]
    fn invoke<'p>(self, target: &'p T) -> impl Future<Output = R> + Send
    where
        T: 'p,
    {
        self.0.invoke(target)
    }
}
