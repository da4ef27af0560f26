use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, Result};

use super::item::{StateValue, decoded, typed};
use super::name::{MARK, stored_name};
use super::pages::Found;
use crate::actor::Context;
use crate::actor::actor_shared::ActorShared;

/// An actor's state under names that are chosen as it runs, to be read. Comes from [`Context::state`].
///
/// A value is loaded when it is asked for, and read from memory after that. What is given is shared with that memory and
/// cannot be changed: a change is made by [`DynamicStateMut::set`](super::DynamicStateMut::set) and its kin. (A type that
/// changes behind a shared reference, such as an atomic, evades this, and such a change is not saved.)
///
/// A name has one type while it is in memory: to ask for another is `Invalid`, and so is a type that what is stored does not
/// fit.
#[derive(Clone, Copy)]
pub struct DynamicState<'c> {
    context: &'c Context,
}

impl fmt::Debug for DynamicState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynamicState({})", self.context.shared)
    }
}

impl<'c> DynamicState<'c> {
    pub(super) fn new(context: &'c Context) -> Self {
        Self { context }
    }

    /// The value of a name.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Invalid` if it is of another type; whatever keeps it from being read.
    pub fn get<T: StateValue>(self, name: &str) -> Result<Arc<T>> {
        self.try_get(name)?.ok_or_else(|| not_found(&self.context.shared, name))
    }

    /// The value of a name, if there is one.
    ///
    /// # Errors
    /// `Invalid` if it is of another type; whatever keeps it from being read.
    pub fn try_get<T: StateValue>(self, name: &str) -> Result<Option<Arc<T>>> {
        let Context { shared, pages, .. } = self.context;
        match pages.find(name) {
            Found::Value(item) => typed(shared, name, item).map(Some),
            Found::Removed => Ok(None),
            Found::Nothing => {
                let Some(stored) = shared.state(&stored_name(shared, name)?)? else { return Ok(None) };
                let (value, unknown) = decoded::<T>(shared, name, &stored)?;
                typed(shared, name, pages.keep(shared, name, value, unknown, stored.len())).map(Some)
            }
        }
    }

    /// Whether a name has a value. The value is not decoded.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    pub fn contains(self, name: &str) -> Result<bool> {
        let Context { shared, pages, .. } = self.context;
        match pages.find(name) {
            Found::Value(_) => Ok(true),
            Found::Removed => Ok(false),
            Found::Nothing => Ok(shared.state(&stored_name(shared, name)?)?.is_some()),
        }
    }

    /// All names that have a value, in order. The values are not decoded, and not kept in memory.
    ///
    /// # Errors
    /// Whatever keeps them from being read.
    pub fn names(self) -> Result<Vec<String>> {
        let Context { shared, pages, .. } = self.context;
        // What is not committed comes before what is: a commit that ends between the two is then seen twice, not missed.
        let uncommitted = shared.gate.uncommitted();
        let stored = match shared.partition.store_if_any()? {
            Some(store) => store.state_names_starting(&shared.id, MARK)?,
            None => Vec::new(),
        };
        let mut names: BTreeSet<String> =
            stored.iter().filter_map(|name| name.strip_prefix(MARK)).map(str::to_owned).collect();
        for writes in uncommitted {
            if writes.is_deleted() {
                names.clear();
            }
            for (name, value) in writes.changed_states() {
                let Some(name) = name.strip_prefix(MARK) else { continue };
                change(&mut names, name.to_owned(), value.is_some());
            }
        }
        for (name, is_there) in pages.changes() {
            change(&mut names, name, is_there);
        }
        Ok(names.into_iter().collect())
    }
}

fn change(names: &mut BTreeSet<String>, name: String, is_there: bool) {
    match is_there {
        true => names.insert(name),
        false => names.remove(&name),
    };
}

pub(super) fn not_found(shared: &ActorShared, name: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("{shared} has no state {name:?}: set it first, or ask for it by a `try_` method"),
    )
}
