//! State under names that are only known when the actor runs.
//!
//! [`DynamicState`] reads it and [`DynamicStateMut`] changes it, both by way of the actor's `Context`. What they read and
//! change is in [`Pages`]: a value is loaded when it is asked for, and stays until the actor leaves memory or a turn fails.
//! At the end of a turn [`Pages`] hands over what has changed, into the same commit as the fields of the actor.
//!
//! An actor that uses none of this has a pointer for it, and nothing else.

mod edit;
mod item;
mod name;
mod pages;
mod view;

pub use edit::DynamicStateMut;
pub use item::StateValue;
pub use name::DYNAMIC_NAME_BYTES_MAX;
pub(crate) use pages::Pages;
pub use view::DynamicState;

use crate::actor::Context;

impl Context {
    /// The actor's state under names that are chosen as it runs, to be read. Shared turns can do that too.
    ///
    /// Where the names are known when the actor is written, a [`State`](crate::State) or a [`Paged`](crate::Paged) field is
    /// less to write and to get wrong.
    pub fn state(&self) -> DynamicState<'_> {
        DynamicState::new(self)
    }

    /// The actor's state under names that are chosen as it runs, to be read and changed.
    ///
    /// What is changed is saved at the end of the turn if the turn succeeds, together with everything else that it has
    /// changed.
    pub fn state_mut(&mut self) -> DynamicStateMut<'_> {
        DynamicStateMut::new(self)
    }
}
