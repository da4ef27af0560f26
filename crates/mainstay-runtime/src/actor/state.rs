use std::fmt;
use std::hash::BuildHasher as _;
use std::ops::{Deref, DerefMut};

use foldhash::fast::FixedState;
use mainstay_core::contract::{self, Unknown};
use mainstay_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::actor::actor_shared::ActorShared;
use crate::actor::kept::{ActorOpening, Kept, Seal};

/// A value that an actor keeps: loaded when the actor is activated, saved at the end of a turn if it has changed. One that
/// was never saved is the default of its type.
///
/// Fields that a newer version of the type has written, and this one does not know, stay as they are.
pub struct State<T> {
    value: T,
    name: &'static str,
    is_changed: bool,
    /// What it was when it was last read or saved.
    saved: Saved,
    unknown: Unknown,
}

/// What is remembered of a value as it is stored.
#[derive(Clone, Copy, Default)]
struct Saved {
    bytes: u32,
    /// Of its bytes: a value with another one has certainly changed, and nobody has to look.
    hash: u64,
}

impl Saved {
    fn of(bytes: &[u8]) -> Self {
        // A value is far below what the length can hold.
        Self { bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX), hash: FixedState::default().hash_one(bytes) }
    }
}

impl<T> State<T> {
    /// A value outside of a node, for a unit test that makes an actor by hand. Nothing is stored of it.
    ///
    /// It must not take the place of a field of an actor that runs on a node: the turn fails then, with `Invalid`. A new value is
    /// assigned through the field, `*self.count = 7`.
    ///
    /// ```
    /// # use mainstay_runtime::State;
    /// let mut count = State::new(7);
    /// assert!(*count == 7 && !State::is_changed(&count));
    /// *count += 1;
    /// assert!(*count == 8 && State::is_changed(&count));
    /// ```
    pub fn new(value: T) -> Self {
        Self { value, name: NO_NAME, is_changed: false, saved: Saved::default(), unknown: Unknown::default() }
    }

    /// True if the value was borrowed mutably since it was loaded or saved last: at the end of the turn it is saved if it
    /// differs from what is stored. It is called as `State::is_changed(&self.count)`, because a value may have a method of this
    /// name.
    pub fn is_changed(state: &Self) -> bool {
        state.is_changed
    }

    /// Refuses a value that is not of the actor's node.
    fn check_name(&self, shared: &ActorShared) -> Result<()> {
        if self.name == NO_NAME { Err(replaced(shared)) } else { Ok(()) }
    }
}

/// The name of a value outside of a node. No field has it.
const NO_NAME: &str = "";

#[cold]
fn replaced(shared: &ActorShared) -> Error {
    Error::invalid(format!(
        "a field of {shared} was replaced by one of `State::new`, which is not stored: assign the value, `*self.field = ..`"
    ))
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for State<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.is_changed = true;
        &mut self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: Serialize + DeserializeOwned + Default + Send + Sync + 'static> State<T> {
    fn load(opening: &ActorOpening<'_>, name: &'static str) -> Result<(T, Unknown, Saved)> {
        let Some(bytes) = opening.shared.state(name)? else { return Ok(Default::default()) };
        let (value, unknown) = contract::decode_keeping(&bytes).map_err(|error| {
            let text = format!(
                "{} cannot be read: its state {name:?} does not fit {}",
                opening.shared,
                std::any::type_name::<T>()
            );
            Error::new(error.kind(), text).with_source(error)
        })?;
        Ok((value, unknown, Saved::of(&bytes)))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Default + Send + Sync + 'static> Kept for State<T> {
    fn open(opening: &ActorOpening<'_>, name: &'static str) -> Result<Self> {
        let (value, unknown, saved) = Self::load(opening, name)?;
        opening.shared.weigh(0, saved.bytes);
        Ok(Self { value, name, is_changed: false, saved, unknown })
    }

    fn seal(&mut self, seal: &mut Seal<'_>) -> Result<()> {
        self.check_name(seal.shared)?;
        if !self.is_changed {
            return Ok(());
        }
        let (bytes, unknown) = seal.encode(self.name, &self.value, &self.unknown)?;
        let saved = Saved::of(&bytes);
        match saved.hash == self.saved.hash {
            true => seal.put(self.name, bytes.into())?,
            false => seal.put_changed(self.name, bytes.into())?,
        }
        seal.shared.weigh(self.saved.bytes, saved.bytes);
        self.saved = saved;
        self.unknown = unknown;
        self.is_changed = false;
        Ok(())
    }

    fn restore(&mut self, opening: &ActorOpening<'_>) -> Result<()> {
        // The object is made anew then.
        self.check_name(opening.shared)?;
        if !self.is_changed && !opening.is_undone {
            return Ok(());
        }
        let before = self.saved.bytes;
        (self.value, self.unknown, self.saved) = Self::load(opening, self.name)?;
        opening.shared.weigh(before, self.saved.bytes);
        self.is_changed = false;
        Ok(())
    }
}
