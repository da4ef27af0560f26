use std::future::Future;

use mainstay_core::{Error, Level, Result};

use crate::actor::cell::ActorCell;
use crate::actor::hooks::{LifecycleHooks, RemindHook};
use crate::actor::kept::{ActorOpening, Seal};
use crate::actor::saving;
use crate::call::current;
use crate::interfaces::Interfaces;
use crate::open_field::OpenActor;

/// A virtual actor: an object per id that is there when it is called. Implemented by `#[derive(Actor)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an actor",
    label = "this is not an actor",
    note = "add `#[derive(Actor)]` to `{Self}`"
)]
pub trait Actor: Send + Sync + Sized + 'static {
    /// The name of its service, by which it is recorded with its data.
    const NAME: &'static str;

    /// How the state of its actors is kept.
    const LEVEL: Level;

    /// What its [`Lifecycle`](crate::Lifecycle) does, if it has one.
    const LIFECYCLE: Option<LifecycleHooks<Self>>;

    /// What its [`Remindable`](crate::Remindable) does, if it has one.
    const REMINDABLE: Option<RemindHook<Self>>;

    /// The names that its fields are stored under.
    const FIELDS: &'static [&'static str];

    /// Whether it has fields that are more than plain memory.
    const KEEPS: bool;

    /// How its object is made when it is activated.
    const OPEN: OpenActor<Self>;

    /// Into how many partitions its service is cut.
    fn partitions() -> u32;

    /// Lists the interfaces that it can be called by.
    fn interfaces(interfaces: &mut Interfaces<ActorCell<Self>>);

    /// Hands over what has changed.
    ///
    /// # Errors
    /// `TooLarge` or `Invalid` if a value cannot be stored.
    fn seal(&mut self, seal: &mut Seal<'_>) -> Result<()>;

    /// Drops what has changed, and reads it anew.
    ///
    /// # Errors
    /// Whatever keeps its state from being read.
    fn restore(&mut self, opening: &ActorOpening<'_>) -> Result<()>;

    /// Saves in the middle of a method what has changed so far: fields, dynamic state, and the reminders and the like that the
    /// turn has set up. When this returns `Ok`, that is durable, whatever becomes of
    /// the rest of the turn. If it fails, memory is as it is stored: the changes since the last save are gone. If turns before
    /// this one are lost with it, which plain fields may still tell of, the rest of this turn is refused with `Retry`.
    ///
    /// # Errors
    /// Those of the commit; `Invalid` outside of a turn of this actor.
    fn save(&mut self) -> impl Future<Output = Result<()>> + Send {
        async move {
            let shared =
                current::shared().ok_or_else(|| Error::invalid("`save` is for a method of an actor, in its turn"))?;
            saving::save(self, &shared).await
        }
    }
}
