use std::fmt;
use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, Result};

use super::item::StateValue;
use super::name::stored_name;
use super::view::{DynamicState, not_found};
use crate::actor::{Context, saving};

/// An actor's state under names that are chosen as it runs, to be read and changed. Comes from [`Context::state_mut`].
///
/// What is changed is seen at once by whoever reads it in the actor, and saved at the end of the turn: only what differs
/// from what is stored, in one commit with everything else that the turn has changed. If the turn fails, its changes are
/// dropped, and so is what was in memory.
///
/// Fields that a newer version of a value's type has stored, and this one does not know, stay when the value is set. They go
/// when it is removed.
pub struct DynamicStateMut<'c> {
    context: &'c mut Context,
}

impl fmt::Debug for DynamicStateMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynamicStateMut({})", self.context.shared)
    }
}

impl<'c> DynamicStateMut<'c> {
    pub(super) fn new(context: &'c mut Context) -> Self {
        Self { context }
    }

    fn view(&self) -> DynamicState<'_> {
        DynamicState::new(self.context)
    }

    /// As [`DynamicState::get`].
    ///
    /// # Errors
    /// As there.
    pub fn get<T: StateValue>(&self, name: &str) -> Result<Arc<T>> {
        self.view().get(name)
    }

    /// As [`DynamicState::try_get`].
    ///
    /// # Errors
    /// As there.
    pub fn try_get<T: StateValue>(&self, name: &str) -> Result<Option<Arc<T>>> {
        self.view().try_get(name)
    }

    /// As [`DynamicState::contains`].
    ///
    /// # Errors
    /// As there.
    pub fn contains(&self, name: &str) -> Result<bool> {
        self.view().contains(name)
    }

    /// As [`DynamicState::names`].
    ///
    /// # Errors
    /// As there.
    pub fn names(&self) -> Result<Vec<String>> {
        self.view().names()
    }

    /// Sets a name to a value, whether it has one or not, and of whatever type.
    ///
    /// # Errors
    /// `TooLarge` for a name above [`DYNAMIC_NAME_BYTES_MAX`](super::DYNAMIC_NAME_BYTES_MAX). A value that cannot be stored
    /// fails the turn or the save.
    pub fn set<T: StateValue>(&mut self, name: &str, value: T) -> Result<()> {
        self.put(name, Arc::new(value))
    }

    /// Adds a name with a value.
    ///
    /// # Errors
    /// `Conflict` if it has one; as [`set`](Self::set), and whatever keeps it from being read.
    pub fn add<T: StateValue>(&mut self, name: &str, value: T) -> Result<()> {
        match self.try_add(name, value)? {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Conflict,
                format!("{} has a state {name:?} already: use `set` to replace it", self.context.shared),
            )),
        }
    }

    /// Adds a name with a value, unless it has one. True if it was added.
    ///
    /// # Errors
    /// As [`set`](Self::set), and whatever keeps it from being read.
    pub fn try_add<T: StateValue>(&mut self, name: &str, value: T) -> Result<bool> {
        if self.contains(name)? {
            return Ok(false);
        }
        self.set(name, value)?;
        Ok(true)
    }

    /// The value of a name, which gets this one if it has none.
    ///
    /// # Errors
    /// As [`set`](Self::set) and [`try_get`](Self::try_get).
    pub fn get_or_add<T: StateValue>(&mut self, name: &str, value: T) -> Result<Arc<T>> {
        if let Some(value) = self.try_get(name)? {
            return Ok(value);
        }
        self.put_shared(name, value)
    }

    /// Sets a name to `value` if it has none, and else to what `update` makes of the one that it has. Returns what it is
    /// set to.
    ///
    /// # Errors
    /// As [`set`](Self::set) and [`try_get`](Self::try_get).
    pub fn add_or_update<T: StateValue>(
        &mut self,
        name: &str,
        value: T,
        update: impl FnOnce(&T) -> T,
    ) -> Result<Arc<T>> {
        let value = match self.try_get::<T>(name)? {
            Some(earlier) => update(&earlier),
            None => value,
        };
        self.put_shared(name, value)
    }

    /// Removes a name and its value.
    ///
    /// # Errors
    /// `NotFound` if it has none; whatever keeps it from being read.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        match self.try_remove(name)? {
            true => Ok(()),
            false => Err(not_found(&self.context.shared, name)),
        }
    }

    /// Removes a name and its value, if it has one. True if it had.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    pub fn try_remove(&mut self, name: &str) -> Result<bool> {
        if !self.contains(name)? {
            return Ok(false);
        }
        self.context.pages.remove(name);
        Ok(true)
    }

    /// Drops everything that is in memory, and with it what has changed since the last save. What is asked for next is
    /// loaded again.
    pub fn clear_cache(&mut self) {
        let Context { shared, pages, .. } = &mut *self.context;
        pages.clear(shared);
    }

    /// Saves in the middle of a turn what can be reached from the actor's context: its dynamic state, and the reminders and
    /// whatever else the turn has set up beside the actor's fields. When this returns `Ok`, that is durable, whatever
    /// becomes of the rest of the turn.
    ///
    /// The actor's own fields are out of reach here: [`Actor::save`](crate::Actor::save) saves them and all of this in one
    /// commit.
    ///
    /// If it fails, what it would have saved is gone, and dynamic state is again as it is stored; changes of fields are as
    /// the turn has made them, and are saved at its end. If it fails because a commit of an *earlier* turn did, the fields
    /// stand on what was lost: nothing of this turn will be saved then, and its caller is told to retry.
    ///
    /// # Errors
    /// Those of the commit; `TooLarge` or `Invalid` if a value cannot be stored; `Invalid` outside of a turn of this actor.
    pub async fn save(&mut self) -> Result<()> {
        saving::save_reached(self.context).await
    }

    fn put_shared<T: StateValue>(&mut self, name: &str, value: T) -> Result<Arc<T>> {
        let value = Arc::new(value);
        self.put(name, value.clone())?;
        Ok(value)
    }

    fn put<T: StateValue>(&mut self, name: &str, value: Arc<T>) -> Result<()> {
        // A name that is too long is told where it is given.
        stored_name(&self.context.shared, name)?;
        self.context.pages.put(name, value);
        Ok(())
    }
}
