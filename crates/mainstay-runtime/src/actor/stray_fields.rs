//! What is stored of actors under the name of a field that their type does not have: a field was renamed or removed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use mainstay_core::{ActorId, Result};
use mainstay_state::actor::ActorStore;
use parking_lot::Mutex;

/// How many activations of a type are looked at, from the first one on. A field that was renamed is stored of most actors.
const LOOKS_MAX: u32 = 1024;

/// Beyond those, one of so many activations is looked at.
const LOOKS_EVERY: u32 = 16;

/// How many actors of a partition are looked at when it is opened, before anybody calls them.
const OPENING_LOOKS: usize = 4;

/// How many names are reported of one type, and how many are read of one actor.
const NAMES_MAX: usize = 64;

/// The fields of one type that were reported.
#[derive(Default)]
pub(crate) struct StrayFields {
    activations: AtomicU32,
    reported: Mutex<BTreeSet<String>>,
}

impl StrayFields {
    /// Looks at an actor that is being activated, if it is one of those that are looked at.
    pub(crate) fn look(&self, store: &ActorStore, service: &str, id: &ActorId, fields: &[&str]) {
        let activations = self.activations.fetch_add(1, Ordering::Relaxed);
        if activations < LOOKS_MAX || activations.is_multiple_of(LOOKS_EVERY) {
            self.check(store, service, id, fields);
        }
    }

    /// Looks at the first actors of a partition.
    pub(crate) fn look_at_first(&self, store: &ActorStore, service: &str, fields: &[&str]) {
        // What cannot be read is told to those who call.
        let Ok(first) = store.actors(None, OPENING_LOOKS) else { return };
        first.iter().for_each(|id| self.check(store, service, id, fields));
    }

    fn check(&self, store: &ActorStore, service: &str, id: &ActorId, fields: &[&str]) {
        let Ok(stray) = stray(store, id, fields) else { return };
        for field in stray {
            let mut reported = self.reported.lock();
            if reported.len() >= NAMES_MAX || !reported.insert(field.clone()) {
                continue;
            }
            drop(reported);
            tracing::warn!(
                service,
                field,
                actor = %id,
                "{service} has state stored as {field:?} and no field of that name: it is kept, and not read. If the field was \
                 renamed, write `#[actor(name = {field:?})]` on it"
            );
        }
    }
}

fn stray(store: &ActorStore, id: &ActorId, fields: &[&str]) -> Result<Vec<String>> {
    let mut stored = store.field_names(id, NAMES_MAX)?;
    stored.retain(|name| !fields.contains(&name.as_str()));
    Ok(stored)
}
