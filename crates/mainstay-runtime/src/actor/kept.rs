use std::sync::Arc;

use bytes::Bytes;
use mainstay_core::contract::{Limits, Unknown};
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_state::VALUE_BYTES_MAX;
use mainstay_state::actor::ActorWrites;
use serde::Serialize;

use crate::actor::actor_shared::ActorShared;
use crate::observe::storage::loading;
use crate::provisions::Provided;
use crate::service::opening::{AnyThread, PlainField};

/// A field of an actor that is more than plain memory.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept by an actor",
    label = "this is not something that an actor keeps",
    note = "what is stored is a `State<T>` or a `Paged<T>` of a serde type with a default: derive \
            `serde::Serialize, serde::Deserialize, Default` for it"
)]
pub trait Kept: Sized {
    /// Makes the field of an actor that is being activated.
    ///
    /// # Errors
    /// Whatever keeps what is stored from being read.
    fn open(opening: &ActorOpening<'_>, name: &'static str) -> Result<Self>;

    /// Hands over what has changed.
    ///
    /// # Errors
    /// `TooLarge` or `Invalid` if it cannot be stored.
    fn seal(&mut self, seal: &mut Seal<'_>) -> Result<()>;

    /// Drops what has changed, and reads it anew.
    ///
    /// # Errors
    /// Whatever keeps what is stored from being read.
    fn restore(&mut self, opening: &ActorOpening<'_>) -> Result<()>;
}

/// What an actor is made from.
pub struct ActorOpening<'s> {
    pub(crate) shared: &'s Arc<ActorShared>,
    /// True if what was handed over before has not been committed, and is to be read anew as well.
    pub(crate) is_undone: bool,
}

impl ActorOpening<'_> {
    /// The value of a field that is not kept.
    pub fn plain<T: PlainField + AnyThread>(&self) -> T {
        T::initial()
    }

    /// Makes the object from what is stored, which is measured.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn load<T>(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        loading(self.shared, make)
    }

    /// A field with what the node was given.
    ///
    /// # Errors
    /// `Invalid` if nobody provided it.
    pub fn provided<T: Send + Sync + 'static>(&self) -> Result<Provided<T>> {
        self.shared.partition.services.provided().map(Provided::new)
    }
}

/// Where an actor's changes go at the end of a turn.
pub struct Seal<'s> {
    pub(crate) shared: &'s Arc<ActorShared>,
    pub(crate) writes: &'s mut Option<Box<ActorWrites>>,
}

impl Seal<'_> {
    /// The changes so far.
    pub(crate) fn writes(&mut self) -> &mut ActorWrites {
        self.writes.get_or_insert_with(|| Box::new(ActorWrites::new(self.shared.id.clone())))
    }

    /// Sets a value, unless it is stored like that already.
    pub(crate) fn put(&mut self, name: &str, value: Bytes) -> Result<()> {
        if self.shared.state(name)?.is_none_or(|stored| stored != value) {
            self.put_changed(name, value)?;
        }
        Ok(())
    }

    /// Sets a value that is not what is stored.
    pub(crate) fn put_changed(&mut self, name: &str, value: Bytes) -> Result<()> {
        self.writes().put_state(name, value)
    }

    /// The bytes of a value that is to be stored under a name, with what its type does not know of what was stored.
    pub(crate) fn encode<T: Serialize>(&self, name: &str, value: &T, unknown: &Unknown) -> Result<(Vec<u8>, Unknown)> {
        VALUE_LIMITS.encode_keeping(value, unknown).map_err(|error| not_stored(self.shared, name, error))
    }
}

/// What a stored value may be. One that is larger is refused while it is encoded, before it takes more memory.
pub(crate) const VALUE_LIMITS: Limits = Limits { bytes_max: VALUE_BYTES_MAX, ..Limits::DEFAULT };

/// What is told of a value that cannot be stored: whose it is, under which name, and which limit it is over.
#[cold]
pub(crate) fn not_stored(shared: &ActorShared, name: &str, error: Error) -> Error {
    let text = match error.kind() {
        ErrorKind::TooLarge => format!(
            "state {name:?} of {shared} cannot be stored: {error}; a value has at most VALUE_BYTES_MAX = {VALUE_BYTES_MAX} bytes, so \
             split it over several fields, over state by name or over several actors"
        ),
        _ => format!("state {name:?} of {shared} cannot be stored: {error}"),
    };
    Error::new(error.kind(), text)
}
