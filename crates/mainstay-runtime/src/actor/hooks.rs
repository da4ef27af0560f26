use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use mainstay_core::Result;
use mainstay_state::actor::Reminder;

use crate::actor::definition::Actor;

/// What an actor does beside its calls. Implement it where it is needed; `#[derive(Actor)]` finds it.
pub trait Lifecycle: Actor {
    /// The actor has been loaded, and no call has run yet. What it changes is saved. If it fails, so does the call that
    /// activates it, and the next one tries again. An actor that had timers or subscriptions, and is reset by a panic or a
    /// commit that fails, is activated anew without a call.
    fn activate(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// The actor leaves memory: it was idle, memory is short, or its partition moves. Nothing that it changes is saved.
    fn deactivate(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// A method, timer or reminder is about to run. If this fails, it does not.
    fn before_turn(&self, turn: TurnInfo) -> impl Future<Output = Result<()>> + Send {
        let _ = turn;
        async { Ok(()) }
    }

    /// A method, timer or reminder has run and has succeeded. If this fails, so does the turn.
    fn after_turn(&self, turn: TurnInfo) -> impl Future<Output = Result<()>> + Send {
        let _ = turn;
        async { Ok(()) }
    }
}

/// What is reminded. Implement it for an actor that sets reminders; `#[derive(Actor)]` finds it.
pub trait Remindable: Actor {
    /// A reminder is due. If this fails, it comes again after a while.
    fn remind(&mut self, reminder: Reminder) -> impl Future<Output = Result<()>> + Send;
}

/// A turn, as hooks see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnInfo {
    /// The name of the method; `timer`, `remind` or `then` for what the actor does by itself.
    pub method: &'static str,
    /// True if the turn has the actor to itself.
    pub is_exclusive: bool,
}

type Hook<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;

/// A [`Lifecycle`] as a table.
pub struct LifecycleHooks<T> {
    pub(crate) activate: for<'a> fn(&'a mut T) -> Hook<'a, Result<()>>,
    pub(crate) deactivate: for<'a> fn(&'a mut T) -> Hook<'a, ()>,
    pub(crate) before: for<'a> fn(&'a T, TurnInfo) -> Hook<'a, Result<()>>,
    pub(crate) after: for<'a> fn(&'a T, TurnInfo) -> Hook<'a, Result<()>>,
}

/// A [`Remindable`] as a table.
pub struct RemindHook<T> {
    pub(crate) remind: for<'a> fn(&'a mut T, Reminder) -> Hook<'a, Result<()>>,
}

/// Asks a type what it implements: its own constants go before those of [`NoLifecycle`] and [`NotRemindable`].
pub struct Probe<T>(PhantomData<T>);

impl<T: Lifecycle> Probe<T> {
    /// There is one.
    pub const LIFECYCLE: Option<LifecycleHooks<T>> = Some(LifecycleHooks {
        activate: |actor| Box::pin(actor.activate()),
        deactivate: |actor| Box::pin(actor.deactivate()),
        before: |actor, turn| Box::pin(actor.before_turn(turn)),
        after: |actor, turn| Box::pin(actor.after_turn(turn)),
    });
}

impl<T: Remindable> Probe<T> {
    /// There is one.
    pub const REMINDABLE: Option<RemindHook<T>> =
        Some(RemindHook { remind: |actor, reminder| Box::pin(actor.remind(reminder)) });
}

/// Stands in for a [`Lifecycle`] that is not there.
pub trait NoLifecycle<T> {
    /// There is none.
    const LIFECYCLE: Option<LifecycleHooks<T>> = None;
}

impl<T> NoLifecycle<T> for Probe<T> {}

/// Stands in for a [`Remindable`] that is not there.
pub trait NotRemindable<T> {
    /// There is none.
    const REMINDABLE: Option<RemindHook<T>> = None;
}

impl<T> NotRemindable<T> for Probe<T> {}
