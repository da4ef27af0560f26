use std::fmt;
use std::hash::BuildHasher as _;
use std::ops::{Deref, DerefMut};

use foldhash::fast::FixedState;
use mainstay_core::contract::{self, Unknown};
use mainstay_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

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
        let Some(bytes) = opening.site.state(name)? else { return Ok(Default::default()) };
        let (value, unknown) = contract::decode_keeping(&bytes).map_err(|error| {
            let text = format!(
                "{} cannot be read: its state {name:?} does not fit {}",
                opening.site,
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
        opening.site.weigh(0, saved.bytes);
        Ok(Self { value, name, is_changed: false, saved, unknown })
    }

    fn seal(&mut self, seal: &mut Seal<'_>) -> Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        let (bytes, unknown) = seal.encode(self.name, &self.value, &self.unknown)?;
        let saved = Saved::of(&bytes);
        match saved.hash == self.saved.hash {
            true => seal.put(self.name, bytes.into())?,
            false => seal.put_changed(self.name, bytes.into())?,
        }
        seal.site.weigh(self.saved.bytes, saved.bytes);
        self.saved = saved;
        self.unknown = unknown;
        self.is_changed = false;
        Ok(())
    }

    fn restore(&mut self, opening: &ActorOpening<'_>) -> Result<()> {
        if !self.is_changed && !opening.is_undone {
            return Ok(());
        }
        let before = self.saved.bytes;
        (self.value, self.unknown, self.saved) = Self::load(opening, self.name)?;
        opening.site.weigh(before, self.saved.bytes);
        self.is_changed = false;
        Ok(())
    }
}
