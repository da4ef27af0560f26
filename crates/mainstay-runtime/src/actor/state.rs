use std::fmt;
use std::ops::{Deref, DerefMut};

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
    /// How many bytes it had when it was last read or saved.
    bytes: u32,
    unknown: Unknown,
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
    fn load(opening: &ActorOpening<'_>, name: &'static str) -> Result<(T, Unknown, u32)> {
        let Some(bytes) = opening.site.state(name)? else { return Ok((T::default(), Unknown::default(), 0)) };
        let (value, unknown) = contract::decode_keeping(&bytes).map_err(|error| {
            let text = format!(
                "{} cannot be read: its state {name:?} does not fit {}",
                opening.site,
                std::any::type_name::<T>()
            );
            Error::new(error.kind(), text).with_source(error)
        })?;
        Ok((value, unknown, weight(bytes.len())))
    }
}

/// A length as it is counted; a value is far below what this can hold.
fn weight(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Default + Send + Sync + 'static> Kept for State<T> {
    fn open(opening: &ActorOpening<'_>, name: &'static str) -> Result<Self> {
        let (value, unknown, bytes) = Self::load(opening, name)?;
        opening.site.weigh(0, bytes);
        Ok(Self { value, name, is_changed: false, bytes, unknown })
    }

    fn seal(&mut self, seal: &mut Seal<'_>) -> Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        let mut bytes = Vec::new();
        let unknown = contract::encode_keeping_into(&mut bytes, &self.value, &self.unknown)?;
        let weight = weight(bytes.len());
        seal.put(self.name, bytes.into())?;
        seal.site.weigh(std::mem::replace(&mut self.bytes, weight), weight);
        self.unknown = unknown;
        self.is_changed = false;
        Ok(())
    }

    fn restore(&mut self, opening: &ActorOpening<'_>) -> Result<()> {
        if !self.is_changed && !opening.is_undone {
            return Ok(());
        }
        let weight;
        (self.value, self.unknown, weight) = Self::load(opening, self.name)?;
        opening.site.weigh(std::mem::replace(&mut self.bytes, weight), weight);
        self.is_changed = false;
        Ok(())
    }
}
