use std::any::Any;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::sync::{Arc, OnceLock};

use mainstay_core::Result;
use mainstay_core::contract::Unknown;
use parking_lot::Mutex;

use super::item::Item;
use super::name::stored_name;
use crate::actor::actor_shared::ActorShared;
use crate::actor::kept::{Seal, not_stored};

/// How many bytes of an actor's dynamic state stay in memory that have not changed; beyond, what was not used for longest goes
/// and is read again when it is asked for. What has changed is in memory until it is saved, and bounded by what a commit may
/// have.
pub(crate) const CACHED_BYTES_MAX: u64 = 16 << 20;

/// By how much that limit is undercut once it is passed, as a part of it: what goes is looked for among all that there is.
const RELIEF_PART: u64 = 4;

/// What an entry is counted for beside its name and its value.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// What of an actor's dynamic state is in memory: what was read, and what has changed since it was last handed over.
///
/// The original tracks for each name whether it was added, updated or removed. Here a name that has changed is held against
/// what is stored when it is handed over, which comes to the same: what was removed and added again is an update, what was
/// added and removed is nothing, and what was set to what it was is nothing either.
#[derive(Default)]
pub(crate) struct Pages(
    /// Made when it is needed first: most actors have no dynamic state. The lock is held to look up and to enter, never
    /// while a value is encoded, decoded, compared or dropped, which is up to its type.
    OnceLock<Box<Mutex<Entries>>>,
);

#[derive(Default)]
struct Entries {
    by_name: BTreeMap<Box<str>, Entry>,
    /// True if one of them is.
    is_changed: bool,
    /// What they weigh together.
    weight: u64,
    /// Moves with every look-up.
    clock: u64,
}

struct Entry {
    /// The value; `None` if it was removed and that has not been handed over.
    item: Option<Arc<dyn Item>>,
    rest: Rest,
    is_changed: bool,
    /// What it is counted for, as it was last read or handed over.
    weight: u32,
    /// When it was last looked up.
    used: u64,
}

/// The fields of a stored value that its type does not know, and that stay when it is set.
enum Rest {
    /// Not looked for: the value was set without having been read.
    Unread,
    Read(Unknown),
    /// There are none, because what is stored is removed first.
    Fresh,
}

/// What is in memory under a name.
pub(super) enum Found {
    Value(Arc<dyn Item>),
    Removed,
    /// Nothing: it may be stored.
    Nothing,
}

impl Pages {
    pub(super) fn find(&self, name: &str) -> Found {
        let Some(entries) = self.0.get() else { return Found::Nothing };
        let mut entries = entries.lock();
        let now = entries.tick();
        let Some(entry) = entries.by_name.get_mut(name) else { return Found::Nothing };
        entry.used = now;
        entry.item.clone().map_or(Found::Removed, Found::Value)
    }

    /// Keeps what was read of so many bytes, unless another turn that runs beside this one did so before. Returns what is kept.
    pub(super) fn keep(
        &self,
        shared: &ActorShared,
        name: &str,
        item: Arc<dyn Item>,
        unknown: Unknown,
        bytes: usize,
    ) -> Arc<dyn Item> {
        let mut entries = self.0.get_or_init(Box::default).lock();
        let used = entries.tick();
        match entries.by_name.entry(name.into()) {
            Place::Occupied(place) => match &place.get().item {
                Some(earlier) => {
                    let earlier = earlier.clone();
                    drop(entries);
                    earlier
                }
                // Only a turn that has the actor to itself removes, and it does not read meanwhile.
                None => item,
            },
            Place::Vacant(place) => {
                let weight = weight(name, bytes);
                let rest = Rest::Read(unknown);
                place.insert(Entry { item: Some(item.clone()), rest, is_changed: false, weight, used });
                entries.weight += u64::from(weight);
                shared.weigh(0, weight);
                let evicted = entries.evict(shared);
                drop(entries);
                drop(evicted);
                item
            }
        }
    }

    /// Which names are set (true) and which are removed (false) by what has not been handed over.
    pub(super) fn changes(&self) -> Vec<(String, bool)> {
        let Some(entries) = self.0.get() else { return Vec::new() };
        let entries = entries.lock();
        let changed = entries.by_name.iter().filter(|(_, entry)| entry.is_changed);
        changed.map(|(name, entry)| (name.to_string(), entry.item.is_some())).collect()
    }

    pub(super) fn put(&mut self, name: &str, item: Arc<dyn Item>) {
        let entries = self.entries_mut();
        entries.is_changed = true;
        let used = entries.tick();
        let Some(entry) = entries.by_name.get_mut(name) else {
            let entry = Entry { item: Some(item), rest: Rest::Unread, is_changed: true, weight: 0, used };
            entries.by_name.insert(name.into(), entry);
            return;
        };
        if let (Rest::Read(_), Some(earlier)) = (&entry.rest, &entry.item)
            && type_of(&**earlier) != type_of(&*item)
        {
            // What one type does not know, another may.
            entry.rest = Rest::Unread;
        }
        entry.item = Some(item);
        entry.is_changed = true;
        entry.used = used;
    }

    pub(super) fn remove(&mut self, name: &str) {
        let entries = self.entries_mut();
        entries.is_changed = true;
        let used = entries.tick();
        let weight = entries.by_name.get(name).map_or(0, |entry| entry.weight);
        let removed = Entry { item: None, rest: Rest::Fresh, is_changed: true, weight, used };
        entries.by_name.insert(name.into(), removed);
    }

    fn entries_mut(&mut self) -> &mut Entries {
        self.0.get_or_init(Box::default);
        // It was made in the line before; `get_mut_or_init` is not stable.
        #[expect(clippy::expect_used, reason = "it was made in the line before")]
        self.0.get_mut().expect("made above").get_mut()
    }

    /// Lets go of everything, changed or not.
    pub(crate) fn clear(&mut self, shared: &ActorShared) {
        let Some(mut entries) = self.0.take() else { return };
        entries.get_mut().by_name.values().for_each(|entry| shared.weigh(entry.weight, 0));
    }

    /// Hands over what has changed.
    ///
    /// # Errors
    /// `TooLarge` or `Invalid` if a value cannot be stored. [Clear](Pages::clear) it then.
    pub(crate) fn seal(&mut self, seal: &mut Seal<'_>) -> Result<()> {
        let Some(entries) = self.0.get_mut() else { return Ok(()) };
        let entries = entries.get_mut();
        if !entries.is_changed {
            return Ok(());
        }
        for (name, entry) in entries.by_name.iter_mut().filter(|(_, entry)| entry.is_changed) {
            let before = entry.weight;
            entry.weight = entry.seal(seal, name)?.map_or(0, |bytes| weight(name, bytes));
            seal.shared.weigh(before, entry.weight);
            entries.weight = (entries.weight + u64::from(entry.weight)).saturating_sub(u64::from(before));
        }
        entries.by_name.retain(|_, entry| entry.item.is_some());
        entries.is_changed = false;
        drop(entries.evict(seal.shared));
        Ok(())
    }
}

impl Entries {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Takes out what was not used for longest and has not changed, if all of it is too much.
    fn evict(&mut self, shared: &ActorShared) -> Vec<Entry> {
        if self.weight <= CACHED_BYTES_MAX {
            return Vec::new();
        }
        let unchanged = self.by_name.iter().filter(|(_, entry)| !entry.is_changed);
        let mut oldest: Vec<_> = unchanged.map(|(name, entry)| (entry.used, name.clone())).collect();
        oldest.sort_unstable();
        // Whoever is asked for right now was used last, and stays however large it is.
        oldest.pop();
        let mut evicted = Vec::new();
        for (_, name) in oldest {
            if self.weight <= CACHED_BYTES_MAX - CACHED_BYTES_MAX / RELIEF_PART {
                break;
            }
            let Some(entry) = self.by_name.remove(&name) else { continue };
            self.weight = self.weight.saturating_sub(u64::from(entry.weight));
            shared.weigh(entry.weight, 0);
            evicted.push(entry);
        }
        evicted
    }
}

/// What a value of so many bytes is counted for, under a name. It is far below what this can hold.
fn weight(name: &str, bytes: usize) -> u32 {
    u32::try_from(ENTRY_OVERHEAD_BYTES + name.len() + bytes).unwrap_or(u32::MAX)
}

impl Entry {
    /// Hands it over. Returns how many bytes it has then; `None` if it is removed.
    fn seal(&mut self, seal: &mut Seal<'_>, name: &str) -> Result<Option<usize>> {
        let stored_name = stored_name(seal.shared, name)?;
        let stored = seal.shared.state(&stored_name)?;
        let Some(item) = &self.item else {
            if stored.is_some() {
                seal.writes().remove_state(&stored_name);
            }
            return Ok(None);
        };
        let unknown = match (std::mem::replace(&mut self.rest, Rest::Unread), &stored) {
            (Rest::Read(unknown), _) => unknown,
            (Rest::Unread, Some(stored)) => item.unknown_of(stored),
            (Rest::Unread, None) | (Rest::Fresh, _) => Unknown::default(),
        };
        let (bytes, unknown) = item.encode(&unknown).map_err(|error| not_stored(seal.shared, name, error))?;
        let length = bytes.len();
        if stored.is_none_or(|stored| stored != bytes) {
            seal.writes().put_state(&stored_name, bytes.into())?;
        }
        self.rest = Rest::Read(unknown);
        self.is_changed = false;
        Ok(Some(length))
    }
}

fn type_of(item: &dyn Item) -> std::any::TypeId {
    let item: &dyn Any = item;
    item.type_id()
}
