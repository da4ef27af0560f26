use std::collections::BTreeMap;

use crate::settings::actor_keys::ACTOR_KEYS;
use crate::settings::assignment::{Assignment, DEFAULTS, SERVICES, Scope};
use crate::settings::effective::Setting;
use crate::settings::form::Raw;
use crate::settings::key::Key;
use crate::settings::nearest::nearest;
use crate::settings::origin::Origin;
use crate::settings::problem::Problem;
use crate::settings::state_keys::is_state_key;

/// A value whose parts come from several places, with where each is from.
pub(in crate::settings) struct Layered<T: 'static> {
    keys: &'static [Key<T>],
    pub(in crate::settings) value: T,
    /// What is not here is as it was from the start.
    origins: BTreeMap<&'static str, Origin>,
}

impl<T: Clone> Clone for Layered<T> {
    fn clone(&self) -> Self {
        Self { keys: self.keys, value: self.value.clone(), origins: self.origins.clone() }
    }
}

impl<T> Layered<T> {
    pub(in crate::settings) fn new(keys: &'static [Key<T>], value: T) -> Self {
        Self { keys, value, origins: BTreeMap::new() }
    }

    /// The names of its keys.
    pub(in crate::settings) fn names(&self) -> impl Iterator<Item = &'static str> + use<T> {
        self.keys.iter().map(|key| key.name)
    }

    /// Takes an assignment; `others` are keys of the same scope that somebody else takes.
    pub(in crate::settings) fn assign(
        &mut self,
        assignment: &Assignment,
        others: &[&'static str],
    ) -> Result<(), Problem> {
        let Some(key) = self.keys.iter().find(|key| key.name == assignment.key) else {
            let known = self.keys.iter().map(|key| key.name).chain(others.iter().copied());
            return unknown(assignment, known);
        };
        let written = key.write(&mut self.value, &assignment.name(), &assignment.raw);
        written.map_err(|text| Problem { place: assignment.origin.clone(), text })?;
        self.origins.insert(key.name, assignment.origin.clone());
        Ok(())
    }

    /// Refuses an assignment that was taken and has changed nothing, because beside the other values it has no meaning.
    pub(in crate::settings) fn confirm(&self, assignment: &Assignment) -> Result<(), Problem> {
        let key = self.keys.iter().find(|key| key.name == assignment.key);
        let Some((key, wanted)) = key.and_then(|key| Some((key, key.form.read(&assignment.raw)?))) else {
            return Ok(());
        };
        if (key.get)(&self.value) == wanted {
            return Ok(());
        }
        let text = format!("{} has no meaning beside what the program says of this: remove it", assignment.name());
        Err(Problem { place: assignment.origin.clone(), text })
    }

    /// Lets code change the value. What `sure` names counts as changed, everything else if it is different afterwards.
    pub(in crate::settings) fn change(&mut self, origin: Origin, sure: &[&str], change: impl FnOnce(&mut T)) {
        let before: Vec<_> = self.keys.iter().map(|key| (key.get)(&self.value)).collect();
        change(&mut self.value);
        for (key, before) in self.keys.iter().zip(before) {
            if sure.contains(&key.name) || (key.get)(&self.value) != before {
                self.origins.insert(key.name, origin.clone());
            }
        }
    }

    /// True if anybody has set a key.
    pub(in crate::settings) fn is_said(&self, key: &str) -> bool {
        self.origins.contains_key(key)
    }

    /// The keys that a message names.
    pub(in crate::settings) fn named_in(&self, text: &str) -> Vec<&'static str> {
        self.names().filter(|name| names(text, name)).collect()
    }

    /// Where the last of these keys that anybody set comes from.
    pub(in crate::settings) fn said_last(&self, keys: &[&str]) -> Origin {
        let said = keys.iter().rev().find_map(|key| self.origins.get(key));
        said.cloned().unwrap_or(Origin::Default)
    }

    /// All values with where they come from.
    pub(in crate::settings) fn entries(&self, scope: &Scope) -> Vec<Setting> {
        let shown = self.keys.iter().map(|key| Setting {
            key: scope.full(key.name),
            value: (key.get)(&self.value),
            origin: self.origins.get(key.name).cloned().unwrap_or(Origin::Default),
        });
        shown.collect()
    }
}

/// Whether a text names a key, and not only another one that has it within.
fn names(text: &str, key: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(key).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let mut after = text[at + key.len()..].chars();
        let ends = match after.next() {
            Some('.') => !after.next().is_some_and(is_part),
            letter => !letter.is_some_and(is_part),
        };
        ends && !before.is_some_and(|letter| is_part(letter) || letter == '.')
    })
}

#[test]
fn a_text_names_whole_keys() {
    for named in ["lease is 1 s", "of lease.", "the lease: 3", "`lease`", "a.lease, lease"] {
        assert!(names(named, "lease"), "{named}");
    }
    for other in ["leases", "a.lease", "lease.time", "re_lease", "lease_max", ""] {
        assert!(!names(other, "lease"), "{other}");
    }
}

/// Refuses a key that nobody knows, or a value where a section is; a section without content is fine.
fn unknown(assignment: &Assignment, known: impl Iterator<Item = &'static str>) -> Result<(), Problem> {
    let known: Vec<_> = known.collect();
    let section = format!("{}.", assignment.key);
    let within: Vec<_> = known.iter().copied().filter(|key| key.starts_with(&section)).collect();
    let name = assignment.name();
    let text = match within.first() {
        Some(_) if assignment.raw == Raw::Other("empty table") => return Ok(()),
        Some(_) => format!("{name} is a section and not a setting: give {}", within.join(", ")),
        None if known.contains(&assignment.key.as_str()) => {
            format!("{name} is a section and not a setting: write [{name}]")
        }
        None if ACTOR_KEYS.iter().any(|key| key.name == assignment.key) => {
            format!("{name} is a setting of actors: write it below [{DEFAULTS}] or [{SERVICES}.NAME]")
        }
        None if is_state_key(&assignment.key) => {
            format!("{name} is a setting of services: write it below [{DEFAULTS}] or [{SERVICES}.NAME]")
        }
        None => {
            let meant = nearest(&assignment.key, known.iter().copied());
            let meant = meant.map_or(String::new(), |meant| format!(": did you mean {meant:?}?"));
            format!("unknown key {name:?}{meant} (known here: {})", known.join(", "))
        }
    };
    Err(Problem { place: assignment.origin.clone(), text })
}
