use std::collections::BTreeMap;

use bytes::Bytes;
use mainstay_core::contract::FINGERPRINT_BYTES;
use mainstay_core::time::WallTime;
use mainstay_core::{ActorId, Error, ErrorKind, Result};
use smallvec::SmallVec;

use super::name::{Kind, Name};
use super::{Answer, LaneAnswer, Published, Reminder, Schedule};
use crate::options::VALUE_BYTES_MAX;

/// How many entries a turn may change to need no allocation.
const ENTRIES_IN_PLACE: usize = 2;

/// Up to how many entries are looked through one by one, which is faster than a map for the few that a turn changes.
const ENTRIES_SEARCHED_MAX: usize = 16;

/// What a batch has at most besides the bytes of ids, names and values, for each key: lengths, versions, times and the like.
const KEY_OVERHEAD_BYTES: usize = 48;

/// How many keys an entry takes at most: its record, the place that it had in the index by time, and the one that it gets.
const KEYS_PER_ENTRY_MAX: usize = 3;

/// What the deletion of an actor takes at most besides the places of what it had: the ranges, each with its two ends.
const DELETION_KEYS: usize = 11;

/// Changes of one actor that are committed together. Later ones go over earlier ones.
///
/// It is also what is read through while it is not committed: a look-up says `None` where nothing is changed, and the
/// store has the answer; `Some(None)` for what is removed, and `Some(Some(…))` for what is set.
#[derive(Debug, Clone)]
pub struct ActorWrites {
    id: ActorId,
    /// Everything of the actor is removed before anything else that stands here.
    deleted: bool,
    known: Option<bool>,
    entries: SmallVec<[Entry; ENTRIES_IN_PLACE]>,
    /// Where an entry is, once there are more than [`ENTRIES_SEARCHED_MAX`].
    index: BTreeMap<(Kind, Name), usize>,
    /// True if an event was ever counted, even if the actor was deleted afterwards.
    publishes: bool,
    bytes: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: Name,
    pub(super) change: Change,
}

/// What an entry becomes; `None` to remove it.
#[derive(Debug, Clone)]
pub(super) enum Change {
    State(Option<Bytes>),
    Reminder(Option<Box<Reminder>>),
    Answer(Option<Box<Answer>>),
    /// So many more events.
    Event(u64),
    Lane(Option<Box<LaneAnswer>>),
}

impl Change {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::State(_) => Kind::State,
            Self::Reminder(_) => Kind::Reminder,
            Self::Answer(_) => Kind::Answer,
            Self::Event(_) => Kind::Event,
            Self::Lane(_) => Kind::Lane,
        }
    }

    /// Where it stands in the index by time of its kind, if it does.
    pub(super) fn time(&self) -> Option<WallTime> {
        match self {
            Self::State(_) | Self::Event(_) => None,
            Self::Reminder(reminder) => reminder.as_ref().map(|reminder| reminder.due),
            Self::Answer(answer) => answer.as_ref().map(|answer| answer.expires),
            Self::Lane(answer) => answer.as_ref().map(|answer| answer.expires),
        }
    }

    /// True if something is stored, and not only removed.
    fn is_set(&self) -> bool {
        match self {
            Self::State(value) => value.is_some(),
            Self::Reminder(reminder) => reminder.is_some(),
            Self::Answer(answer) => answer.is_some(),
            Self::Lane(answer) => answer.is_some(),
            Self::Event(_) => true,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::State(value) => value.as_ref().map_or(0, Bytes::len),
            Self::Reminder(reminder) => reminder.as_ref().map_or(0, |reminder| match &reminder.schedule {
                Schedule::Cron(cron) => reminder.payload.len() + cron.as_str().len(),
                Schedule::Once | Schedule::Every(_) => reminder.payload.len(),
            }),
            Self::Answer(answer) => answer.as_ref().map_or(0, |answer| {
                let interface = answer.interface.as_ref().map_or(0, String::len);
                FINGERPRINT_BYTES + interface + answer.method.len() + answer.reply.len()
            }),
            Self::Event(_) => size_of::<Published>(),
            Self::Lane(answer) => answer.as_ref().map_or(0, |answer| answer.reply.len()),
        }
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        let keys = match self.change {
            Change::State(_) | Change::Event(_) => 1,
            Change::Reminder(_) | Change::Answer(_) | Change::Lane(_) => KEYS_PER_ENTRY_MAX,
        };
        keys * (KEY_OVERHEAD_BYTES + self.name.as_bytes().len()) + self.change.bytes()
    }
}

impl ActorWrites {
    /// No changes of an actor.
    pub fn new(id: ActorId) -> Self {
        Self {
            id,
            deleted: false,
            known: None,
            entries: SmallVec::new(),
            index: BTreeMap::new(),
            publishes: false,
            bytes: 0,
        }
    }

    /// Whose changes they are.
    pub fn id(&self) -> &ActorId {
        &self.id
    }

    /// True if nothing is changed.
    pub fn is_empty(&self) -> bool {
        !self.deleted && self.known.is_none() && self.entries.is_empty()
    }

    /// About how many bytes a commit of this adds to the log.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many bytes a commit of this adds to the log at most; of an actor that is deleted, besides the places of what it
    /// had.
    pub fn bytes_at_most(&self) -> usize {
        let keys = 1 + KEYS_PER_ENTRY_MAX * self.entries.len() + if self.deleted { DELETION_KEYS } else { 0 };
        let id_bytes = match &self.id {
            ActorId::Number(_) | ActorId::Uuid(_) => 16,
            // Each of them may be escaped.
            ActorId::Text(text) => 2 * text.len(),
        };
        KEY_OVERHEAD_BYTES + self.bytes + keys * id_bytes
    }

    /// [`bytes_at_most`](Self::bytes_at_most) once later changes are [added](Self::merge).
    pub fn bytes_at_most_with(&self, later: &ActorWrites) -> usize {
        if later.deleted {
            return later.bytes_at_most();
        }
        let places = later.entries.iter().filter_map(|entry| self.find(entry.change.kind(), entry.name.as_str()));
        let replaced: usize = places.map(|at| self.entries[at].bytes()).sum();
        (self.bytes_at_most() + later.bytes_at_most()).saturating_sub(replaced)
    }

    /// Makes the actor one that exists: it is listed until it is deleted.
    pub fn mark_known(&mut self) {
        self.known = Some(true);
    }

    /// Sets a state to an encoded value.
    ///
    /// # Errors
    /// `TooLarge` for a name above [`STATE_NAME_BYTES_MAX`](super::STATE_NAME_BYTES_MAX) or a value above
    /// [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX).
    pub fn put_state(&mut self, name: &str, value: Bytes) -> Result<()> {
        Kind::State.check(name)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "state {name:?} of actor {} has {} bytes, and VALUE_BYTES_MAX is {VALUE_BYTES_MAX}: split it",
                    self.id,
                    value.len()
                ),
            ));
        }
        self.set(name, Change::State(Some(value)));
        Ok(())
    }

    /// Removes a state; one that is not there is fine.
    pub fn remove_state(&mut self, name: &str) {
        self.set(name, Change::State(None));
    }

    /// Sets a reminder by its name.
    ///
    /// # Errors
    /// As [`Reminder::check`].
    pub fn put_reminder(&mut self, reminder: Reminder) -> Result<()> {
        reminder.check()?;
        let name = Name::new(&reminder.name);
        self.set_named(name, Change::Reminder(Some(Box::new(reminder))));
        Ok(())
    }

    /// Removes a reminder; one that is not there is fine.
    pub fn remove_reminder(&mut self, name: &str) {
        self.set(name, Change::Reminder(None));
    }

    /// Keeps what a call with an idempotency key was answered.
    ///
    /// # Errors
    /// `TooLarge` for a key above [`IDEMPOTENCY_KEY_BYTES_MAX`](super::IDEMPOTENCY_KEY_BYTES_MAX), and as
    /// [`Answer::check`].
    pub fn put_answer(&mut self, key: &str, answer: Answer) -> Result<()> {
        Kind::Answer.check(key)?;
        answer.check()?;
        self.set(key, Change::Answer(Some(Box::new(answer))));
        Ok(())
    }

    /// Removes an answer; one that is not there is fine.
    pub fn remove_answer(&mut self, key: &str) {
        self.set(key, Change::Answer(None));
    }

    /// Keeps what the last call in a lane was answered.
    ///
    /// # Errors
    /// `TooLarge` for a name above [`LANE_NAME_BYTES_MAX`](super::LANE_NAME_BYTES_MAX), and as [`LaneAnswer::check`].
    pub fn put_lane(&mut self, lane: &str, answer: LaneAnswer) -> Result<()> {
        Kind::Lane.check(lane)?;
        answer.check()?;
        self.set(lane, Change::Lane(Some(Box::new(answer))));
        Ok(())
    }

    /// Removes the answer in a lane; one that is not there is fine.
    pub fn remove_lane(&mut self, lane: &str) {
        self.set(lane, Change::Lane(None));
    }

    /// Counts an event that the actor publishes.
    ///
    /// # Errors
    /// `TooLarge` for a name above [`EVENT_NAME_BYTES_MAX`](super::EVENT_NAME_BYTES_MAX).
    pub fn publish(&mut self, event: &str) -> Result<()> {
        Kind::Event.check(event)?;
        self.add_events(Name::new(event), 1);
        Ok(())
    }

    /// Removes everything of the actor, which does not exist any more. What is set afterwards stays.
    pub fn delete_actor(&mut self) {
        self.entries.clear();
        self.index.clear();
        self.bytes = DELETION_KEYS * KEY_OVERHEAD_BYTES;
        self.deleted = true;
        self.known = Some(false);
    }

    /// Adds changes that were made after these.
    ///
    /// # Errors
    /// `Invalid` if they are of another actor. Nothing is changed then.
    pub fn merge(&mut self, later: ActorWrites) -> Result<()> {
        if later.id != self.id {
            return Err(Error::invalid(format!(
                "changes of actor {} cannot be added to those of actor {}: commit them apart",
                later.id, self.id
            )));
        }
        let publishes = self.publishes || later.publishes;
        if later.deleted || self.is_empty() {
            *self = Self { publishes, ..later };
            return Ok(());
        }
        self.publishes = publishes;
        self.known = later.known.or(self.known);
        for Entry { name, change } in later.entries {
            match change {
                // What others go over adds up.
                Change::Event(count) => self.add_events(name, count),
                change => self.set_named(name, change),
            }
        }
        Ok(())
    }

    /// Whether the actor exists after this; `None` if that is not changed.
    pub fn is_known(&self) -> Option<bool> {
        self.known
    }

    /// True if something is stored of the actor with this, beyond that it is known.
    pub fn is_storing(&self) -> bool {
        self.entries.iter().any(|entry| entry.change.is_set())
    }

    /// Where an entry that is set here stands in the index by time of its kind.
    pub(super) fn time_of(&self, kind: Kind, name: &str) -> Option<WallTime> {
        self.find(kind, name).and_then(|at| self.entries[at].change.time())
    }

    /// True if everything that is not set here is removed.
    pub fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// What becomes of a state.
    pub fn state(&self, name: &str) -> Option<Option<&Bytes>> {
        match self.find(Kind::State, name).map(|at| &self.entries[at].change) {
            Some(Change::State(value)) => Some(value.as_ref()),
            _ => self.deleted.then_some(None),
        }
    }

    /// What becomes of a reminder.
    pub fn reminder(&self, name: &str) -> Option<Option<&Reminder>> {
        match self.find(Kind::Reminder, name).map(|at| &self.entries[at].change) {
            Some(Change::Reminder(reminder)) => Some(reminder.as_deref()),
            _ => self.deleted.then_some(None),
        }
    }

    /// What becomes of the answer of a call.
    pub fn answer(&self, key: &str) -> Option<Option<&Answer>> {
        match self.find(Kind::Answer, key).map(|at| &self.entries[at].change) {
            Some(Change::Answer(answer)) => Some(answer.as_deref()),
            _ => self.deleted.then_some(None),
        }
    }

    /// What becomes of the answer in a lane.
    pub fn lane(&self, lane: &str) -> Option<Option<&LaneAnswer>> {
        match self.find(Kind::Lane, lane).map(|at| &self.entries[at].change) {
            Some(Change::Lane(answer)) => Some(answer.as_deref()),
            _ => self.deleted.then_some(None),
        }
    }

    /// True if events were counted here, be it before the actor was deleted.
    pub fn is_publishing(&self) -> bool {
        self.publishes
    }

    /// How many events of a type are counted here, after the actor was deleted if it is.
    pub fn published(&self, event: &str) -> u64 {
        match self.find(Kind::Event, event).map(|at| &self.entries[at].change) {
            Some(Change::Event(count)) => *count,
            _ => 0,
        }
    }

    /// The states that are set or removed by name, in no order. Those that [`delete_actor`](Self::delete_actor) removes are
    /// not among them.
    pub fn changed_states(&self) -> impl Iterator<Item = (&str, Option<&Bytes>)> {
        self.entries.iter().filter_map(|entry| match &entry.change {
            Change::State(value) => Some((entry.name.as_str(), value.as_ref())),
            _ => None,
        })
    }

    /// The reminders that are set or removed by name, in no order. Those that [`delete_actor`](Self::delete_actor) removes
    /// are not among them.
    pub fn changed_reminders(&self) -> impl Iterator<Item = (&str, Option<&Reminder>)> {
        self.entries.iter().filter_map(|entry| match &entry.change {
            Change::Reminder(reminder) => Some((entry.name.as_str(), reminder.as_deref())),
            _ => None,
        })
    }

    /// How many answers are kept with this.
    pub fn kept_answers(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.change, Change::Answer(Some(_)))).count()
    }

    /// How many lanes have an answer with this.
    pub fn kept_lanes(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.change, Change::Lane(Some(_)))).count()
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn set(&mut self, name: &str, change: Change) {
        // One whose name is too long is not there, and stays so: only the removal of one gets here.
        if change.kind().is_name(name) {
            self.set_named(Name::new(name), change);
        }
    }

    fn add_events(&mut self, name: Name, count: u64) {
        self.publishes = true;
        let count = self.published(name.as_str()).saturating_add(count);
        self.set_named(name, Change::Event(count));
    }

    fn set_named(&mut self, name: Name, change: Change) {
        let kind = change.kind();
        if let Some(at) = self.find(kind, name.as_str()) {
            let entry = &mut self.entries[at];
            self.bytes = self.bytes.saturating_sub(entry.bytes());
            entry.change = change;
            self.bytes += entry.bytes();
            return;
        }
        let entry = Entry { name, change };
        self.bytes += entry.bytes();
        self.entries.push(entry);
        if self.entries.len() > ENTRIES_SEARCHED_MAX {
            // All of them at first, and then the last one.
            let known = self.index.len();
            let missing = self.entries.iter().enumerate().skip(known);
            self.index.extend(missing.map(|(at, entry)| ((entry.change.kind(), entry.name.clone()), at)));
        }
    }

    /// Where an entry is.
    fn find(&self, kind: Kind, name: &str) -> Option<usize> {
        if self.entries.len() <= ENTRIES_SEARCHED_MAX {
            return self
                .entries
                .iter()
                .position(|entry| entry.change.kind() == kind && entry.name.as_bytes() == name.as_bytes());
        }
        self.index.get(&(kind, Name::new(name))).copied()
    }
}

#[cfg(test)]
mod tests;
