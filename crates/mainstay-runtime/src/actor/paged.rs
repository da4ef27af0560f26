use std::any::type_name;
use std::fmt;
use std::sync::{Arc, OnceLock};

use mainstay_core::contract::{self, Unknown};
use mainstay_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::actor::actor_shared::ActorShared;
use crate::actor::kept::{ActorOpening, Kept, Seal};

/// A value that an actor keeps like a [`State`](crate::State), and that is loaded when it is asked for first: for what is
/// large or seldom needed. Until then, an active actor has a pointer for it.
///
/// It is saved at the end of a turn if it has changed. One that was never saved is the default of its type. Fields that a
/// newer version of the type has written, and this one does not know, stay as they are. What is stored is the same as that
/// of a `State`, so a field can become the one or the other.
pub struct Paged<T> {
    shared: Arc<ActorShared>,
    name: &'static str,
    page: OnceLock<Box<Page<T>>>,
    is_changed: bool,
    /// True if it is to leave memory once it is saved.
    is_leaving: bool,
}

/// What is in memory of it.
struct Page<T> {
    value: T,
    unknown: Unknown,
    /// How many it has as it was last read or saved.
    bytes: u32,
}

impl<T: fmt::Debug> fmt::Debug for Paged<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.page.get() {
            Some(page) => page.value.fmt(f),
            None => f.write_str("(not loaded)"),
        }
    }
}

impl<T: Serialize + DeserializeOwned + Default + Send + Sync + 'static> Paged<T> {
    /// A value outside of a node, for a unit test that makes an actor by hand. Nothing is stored of it: one that is
    /// [unloaded](Paged::unload) is the default of its type.
    #[cfg(feature = "testkit")]
    pub fn new(value: T) -> Self {
        let page = Page { value, unknown: Unknown::default(), bytes: 0 };
        Self {
            shared: crate::actor::detached::detached(0.into()),
            name: "",
            page: OnceLock::from(Box::new(page)),
            is_changed: false,
            is_leaving: false,
        }
    }

    /// The value, loaded if it is not in memory. Shared turns can do that too.
    ///
    /// # Errors
    /// Whatever keeps it from being read; `Invalid` if what is stored does not fit the type.
    pub fn get(&self) -> Result<&T> {
        if let Some(page) = self.page.get() {
            return Ok(&page.value);
        }
        let page = self.load()?;
        // A turn that runs beside this one may have been faster.
        let kept = self.page.get_or_init(|| {
            self.shared.weigh(0, page.bytes);
            page
        });
        Ok(&kept.value)
    }

    /// The value to be changed, loaded if it is not in memory. It is saved at the end of the turn.
    ///
    /// # Errors
    /// As [`get`](Paged::get).
    pub fn get_mut(&mut self) -> Result<&mut T> {
        self.get()?;
        self.is_changed = true;
        self.is_leaving = false;
        match self.page.get_mut() {
            Some(page) => Ok(&mut page.value),
            None => Err(Error::fatal(format!(
                "state {:?} of {} is not there after it was loaded: this is a defect of the runtime",
                self.name, self.shared
            ))),
        }
    }

    /// Whether the value is in memory.
    pub fn is_loaded(&self) -> bool {
        self.page.get().is_some()
    }

    /// Lets the value leave memory: at once if it has not changed, and when it is saved otherwise. It is loaded again when
    /// it is asked for.
    pub fn unload(&mut self) {
        match self.is_changed {
            true => self.is_leaving = true,
            false => self.let_go(),
        }
    }

    /// Refuses a value that is not of the actor that it is a field of.
    fn check_owner(&self, shared: &Arc<ActorShared>) -> Result<()> {
        if Arc::ptr_eq(&self.shared, shared) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a field of {shared} was replaced by one of `Paged::new`, which is not stored: assign the value, \
             `*self.field.get_mut()? = ..`"
        )))
    }

    fn let_go(&mut self) {
        if let Some(page) = self.page.take() {
            self.shared.weigh(page.bytes, 0);
        }
    }

    fn load(&self) -> Result<Box<Page<T>>> {
        let Some(stored) = self.shared.state(self.name)? else {
            return Ok(Box::new(Page { value: T::default(), unknown: Unknown::default(), bytes: 0 }));
        };
        let (value, unknown) = contract::decode_keeping(&stored).map_err(|error| {
            let text = format!("state {:?} of {} does not fit {}", self.name, self.shared, type_name::<T>());
            Error::new(error.kind(), text).with_source(error)
        })?;
        Ok(Box::new(Page { value, unknown, bytes: length(&stored) }))
    }
}

impl<T: Serialize + DeserializeOwned + Default + Send + Sync + 'static> Kept for Paged<T> {
    fn open(opening: &ActorOpening<'_>, name: &'static str) -> Result<Self> {
        Ok(Self { shared: opening.shared.clone(), name, page: OnceLock::new(), is_changed: false, is_leaving: false })
    }

    fn seal(&mut self, seal: &mut Seal<'_>) -> Result<()> {
        self.check_owner(seal.shared)?;
        if !self.is_changed {
            return Ok(());
        }
        if let Some(page) = self.page.get_mut() {
            let (bytes, unknown) = seal.encode(self.name, &page.value, &page.unknown)?;
            let saved = length(&bytes);
            seal.put(self.name, bytes.into())?;
            page.unknown = unknown;
            seal.shared.weigh(std::mem::replace(&mut page.bytes, saved), saved);
        }
        self.is_changed = false;
        if std::mem::take(&mut self.is_leaving) {
            self.let_go();
        }
        Ok(())
    }

    fn restore(&mut self, opening: &ActorOpening<'_>) -> Result<()> {
        // The object is made anew then.
        self.check_owner(opening.shared)?;
        if self.is_changed || opening.is_undone {
            self.let_go();
            self.is_changed = false;
            self.is_leaving = false;
        }
        Ok(())
    }
}

/// A value is far below what this can hold.
fn length(stored: &[u8]) -> u32 {
    u32::try_from(stored.len()).unwrap_or(u32::MAX)
}
