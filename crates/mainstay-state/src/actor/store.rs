use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use mainstay_core::random;
use mainstay_core::task::Home;
use mainstay_core::time::WallTime;
use mainstay_core::{ActorId, Epoch, Error, ErrorKind, Level, Result, SequenceNumber};
use mainstay_replica::{Batch, KeyRange, Order, Partition, Snapshot};
use rand::Rng as _;

use super::committing::{Committing, OnItsWay, Unfinished};
use super::deletion;
use super::layout::{self, EncodedId};
use super::name::Kind;
use super::record::{self, Owner};
use super::writes::Change;
use super::{ActorWrites, Answer, LaneAnswer, Published, Reminder};
use crate::formats::ACTOR_LAYOUT;
use crate::partition_session::PartitionSession;

/// What the actors of a service store in one partition. Cheap to clone.
///
/// It is open for one epoch of the partition's primary. Reads show what is committed; they and commits are refused once
/// the partition has had another primary.
///
/// # The indexes by time
/// Every reminder and every answer has a place in an index that is ordered by time: the time stands in the place, the
/// entry's record has it too. A [commit](ActorStore::commit) reads the record that it replaces, and removes its place before
/// it adds the new one. This is right as long as **only one commit of an actor is in flight, and its future is waited
/// for**: then what it reads is what it replaces, however many turns were merged into it before it was made, because
/// nothing of them is in the store.
///
/// Should that ever be broken (a future is dropped, the commit lands later), nothing is lost:
/// - *Every record has its place.* A batch that sets a record puts its place, in this order: removals, then puts. A batch
///   removes places only of entries that it sets or removes as well. So after each batch, whatever the order, every
///   record that is there has its place.
/// - *A place without a record of the same time is ignored* by all who read the index. It costs a look, nothing more.
///
/// # The counts of events
/// A turn says how many events it publishes, and a commit adds that to what is stored, which it reads. That is right on the
/// same condition as above, and needs nobody to know the count when a turn runs: turns may run beside each other.
#[derive(Clone)]
pub struct ActorStore {
    inner: Arc<Inner>,
}

struct Inner {
    partition: Partition,
    epoch: Epoch,
    session: Arc<PartitionSession>,
    /// Where a commit is waited for that was given up.
    home: Home,
    /// It was told that records of a later program are passed over.
    told_of_unknown: AtomicBool,
}

impl fmt::Debug for ActorStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActorStore({:?}, {})", self.inner.partition, self.inner.epoch)
    }
}

impl ActorStore {
    /// Opens the actors of a partition that is primary here, for as long as it is. A new partition becomes one of actors, and
    /// deletions that were cut short are finished.
    ///
    /// # Errors
    /// `NotPrimary`; `Conflict` if the partition is open already; `Invalid` if it holds reliable collections;
    /// `UnknownVersion` if it was written by a later build; `Corrupt`; and for a new one what a commit can fail with.
    pub async fn open(partition: Partition) -> Result<Self> {
        let epoch = partition.check()?;
        let claim = partition.claim()?;
        if layout::check_partition(&partition, &partition.read()?)? {
            let mut batch = partition.batch();
            batch.put(layout::LAYOUT_KEY, &[ACTOR_LAYOUT.written()]).in_epoch(epoch);
            partition.commit(batch).await?;
        }
        let session = PartitionSession::new(claim, partition.level());
        let store = Self {
            inner: Arc::new(Inner {
                partition,
                epoch,
                session,
                home: Home::current(),
                told_of_unknown: AtomicBool::new(false),
            }),
        };
        match store.finish_deletions().await {
            Err(error) if deletion::can_wait(&error) => {
                let partition = store.partition().id();
                tracing::warn!(%partition, ?error, "places of deleted actors cannot be removed, and are passed over");
            }
            finished => finished?,
        }
        Ok(store)
    }

    /// The epoch in which it was opened.
    pub fn epoch(&self) -> Epoch {
        self.inner.epoch
    }

    /// Closes it: from now on all that reads or commits is refused with `NotPrimary`. Waits for the commits that are on their
    /// way.
    pub async fn close(&self) {
        self.inner.session.end();
        self.inner.session.vacated().await;
    }

    /// Waits until it is closed. It closes itself when the outcome of a commit is unknown: what is in memory of its actors may be
    /// wrong then, although the partition may go on as the primary. Open it again.
    pub async fn closed(&self) {
        self.inner.session.ended().await;
    }

    /// The partition that it is in.
    pub fn partition(&self) -> &Partition {
        &self.inner.partition
    }

    /// Whether an actor was ever active, and was not deleted since.
    ///
    /// # Errors
    /// `NotPrimary`, `Corrupt`, `UnknownVersion`, as for all that reads.
    pub fn is_known(&self, id: &ActorId) -> Result<bool> {
        match self.get(&EncodedId::new(id).known())? {
            None => Ok(false),
            Some(record) => record::check_known(id, &record).map(|()| true),
        }
    }

    /// Whether anything is stored of an actor: that it is [known](ActorStore::is_known), or an entry of any kind.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn holds(&self, id: &ActorId) -> Result<bool> {
        let (snapshot, encoded) = (self.read()?, EncodedId::new(id));
        if snapshot.get(&encoded.known())?.is_some() {
            return Ok(true);
        }
        for kind in Kind::ALL {
            let entries = layout::range(&encoded.entries(kind), None);
            if snapshot.scan(entries, Order::Ascending)?.next().transpose()?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many reminders an actor has.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn reminder_count(&self, id: &ActorId) -> Result<usize> {
        self.count(id, Kind::Reminder)
    }

    /// How many answers are kept for calls of an actor, expired or not.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn answer_count(&self, id: &ActorId) -> Result<usize> {
        self.count(id, Kind::Answer)
    }

    fn count(&self, id: &ActorId, kind: Kind) -> Result<usize> {
        let entries = layout::range(&EncodedId::new(id).entries(kind), None);
        let mut count = 0;
        for entry in self.read()?.scan(entries, Order::Ascending)? {
            entry?;
            count += 1;
        }
        Ok(count)
    }

    /// The encoded value of a state. It shares its bytes with the store.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn state(&self, id: &ActorId, name: &str) -> Result<Option<Bytes>> {
        let record = self.get(&EncodedId::new(id).entry(Kind::State, name.as_bytes()))?;
        record.map(|record| Owner { kind: Kind::State, id, name }.state(record)).transpose()
    }

    /// The names of an actor's states, in order.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn state_names(&self, id: &ActorId) -> Result<Vec<String>> {
        self.state_names_starting(id, "")
    }

    /// The names of an actor's states that start with a text, in order. No others are passed over for it.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn state_names_starting(&self, id: &ActorId, start: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.each_starting(id, Kind::State, start, |name, _| {
            names.push(name.to_owned());
            Ok(())
        })?;
        Ok(names)
    }

    /// The first names of an actor's states that do not start with a zero, in order: those of its fields. No others are passed
    /// over for it.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn field_names(&self, id: &ActorId, limit: usize) -> Result<Vec<String>> {
        let encoded = EncodedId::new(id);
        let all = encoded.entries(Kind::State);
        let first = Bytes::copy_from_slice(&encoded.entry(Kind::State, b"\x01"));
        let range = KeyRange { start: std::ops::Bound::Included(first), end: KeyRange::prefix(&all).end };
        let entries = self.read()?.scan(range, Order::Ascending)?.take(limit);
        entries.map(|entry| Ok(layout::parse_name(Kind::State, id, &all, &entry?.0)?.to_owned())).collect()
    }

    /// A reminder of an actor by its name.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn reminder(&self, id: &ActorId, name: &str) -> Result<Option<Reminder>> {
        let record = self.get(&EncodedId::new(id).entry(Kind::Reminder, name.as_bytes()))?;
        record.map(|record| Owner { kind: Kind::Reminder, id, name }.reminder(&record)).transpose()
    }

    /// The reminders of an actor, in the order of their names.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn reminders(&self, id: &ActorId) -> Result<Vec<Reminder>> {
        let mut reminders = Vec::new();
        self.each_of(id, Kind::Reminder, |name, record| {
            reminders.push(Owner { kind: Kind::Reminder, id, name }.reminder(&record)?);
            Ok(())
        })?;
        Ok(reminders)
    }

    /// A page of the reminders of all actors, in the order of ids and names, after one of them if there is one.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn all_reminders(&self, after: Option<(&ActorId, &str)>, limit: usize) -> Result<Vec<(ActorId, Reminder)>> {
        let after = after.map(|(id, name)| EncodedId::new(id).entry(Kind::Reminder, name.as_bytes()));
        let range = layout::range(&[layout::area(Kind::Reminder)], after.as_deref());
        let entries = self.read()?.scan(range, Order::Ascending)?.take(limit);
        entries
            .map(|entry| {
                let (key, record) = entry?;
                let (id, name) = layout::parse_entry(Kind::Reminder, &key)?;
                let reminder = Owner { kind: Kind::Reminder, id: &id, name }.reminder(&record)?;
                Ok((id, reminder))
            })
            .collect()
    }

    /// The earliest time at which a reminder of the partition is due.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn next_due(&self) -> Result<Option<WallTime>> {
        self.earliest(Kind::Reminder)
    }

    /// A page of the reminders that are due at a time, in the order of their due times.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn due(&self, until: WallTime, limit: usize) -> Result<Vec<(ActorId, Reminder)>> {
        self.due_after(until, None, limit)
    }

    /// Like [`due`](ActorStore::due), after a reminder that an earlier page ended with (its due time, actor and name): those
    /// at hand may still be in the store because they have not been handled yet.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn due_after(
        &self,
        until: WallTime,
        after: Option<(WallTime, &ActorId, &str)>,
        limit: usize,
    ) -> Result<Vec<(ActorId, Reminder)>> {
        let mut due = Vec::new();
        self.each_timely(Kind::Reminder, until, after, limit, |owner, record| {
            due.push((owner.id.clone(), owner.reminder(record)?));
            Ok(())
        })?;
        Ok(due)
    }

    /// What a call with an idempotency key was answered, expired or not.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn answer(&self, id: &ActorId, key: &str) -> Result<Option<Answer>> {
        let record = self.get(&EncodedId::new(id).entry(Kind::Answer, key.as_bytes()))?;
        record.map(|record| Owner { kind: Kind::Answer, id, name: key }.answer(&record)).transpose()
    }

    /// How many events of a type an actor has published; `None` if none, or none since it was deleted.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn published(&self, id: &ActorId, event: &str) -> Result<Option<Published>> {
        let record = self.get(&EncodedId::new(id).entry(Kind::Event, event.as_bytes()))?;
        record.map(|record| Owner { kind: Kind::Event, id, name: event }.published(&record)).transpose()
    }

    /// A page of the answers that have expired, by actor and key, in the order in which they did.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn expired_answers(&self, now: WallTime, limit: usize) -> Result<Vec<(ActorId, String)>> {
        let expired = self.expired_answers_after(now, None, limit)?;
        Ok(expired.into_iter().map(|(_, id, key)| (id, key)).collect())
    }

    /// Like [`expired_answers`](ActorStore::expired_answers), each with the time at which it did, after one that an earlier
    /// page ended with: those at hand may still be in the store because they have not been removed yet.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn expired_answers_after(
        &self,
        now: WallTime,
        after: Option<(WallTime, &ActorId, &str)>,
        limit: usize,
    ) -> Result<Vec<(WallTime, ActorId, String)>> {
        self.expired_after(Kind::Answer, now, after, limit)
    }

    /// What the last call in a lane was answered, expired or not.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn lane(&self, id: &ActorId, lane: &str) -> Result<Option<LaneAnswer>> {
        let record = self.get(&EncodedId::new(id).entry(Kind::Lane, lane.as_bytes()))?;
        record.map(|record| Owner { kind: Kind::Lane, id, name: lane }.lane(&record)).transpose()
    }

    /// How many lanes of an actor have an answer, expired or not.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn lane_count(&self, id: &ActorId) -> Result<usize> {
        self.count(id, Kind::Lane)
    }

    /// A page of the answers in lanes that have expired, each with the time at which it did, after one that an earlier page
    /// ended with.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn expired_lanes_after(
        &self,
        now: WallTime,
        after: Option<(WallTime, &ActorId, &str)>,
        limit: usize,
    ) -> Result<Vec<(WallTime, ActorId, String)>> {
        self.expired_after(Kind::Lane, now, after, limit)
    }

    fn expired_after(
        &self,
        kind: Kind,
        now: WallTime,
        after: Option<(WallTime, &ActorId, &str)>,
        limit: usize,
    ) -> Result<Vec<(WallTime, ActorId, String)>> {
        let mut expired = Vec::new();
        self.each_timely(kind, now, after, limit, |owner, record| {
            let at = owner.time(record)?.unwrap_or(now);
            expired.push((at, owner.id.clone(), owner.name.to_owned()));
            Ok(())
        })?;
        Ok(expired)
    }

    /// The earliest time at which an answer of the partition expires or has, of those for idempotency keys and those in lanes.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn next_expiry(&self) -> Result<Option<WallTime>> {
        let times = [self.earliest(Kind::Answer)?, self.earliest(Kind::Lane)?];
        Ok(times.into_iter().flatten().min())
    }

    /// A page of the actors that are [known](ActorStore::is_known), in the order of their ids, after one of them if there is
    /// one: numbers, then uuids, then texts.
    ///
    /// # Errors
    /// As for all that reads.
    pub fn actors(&self, after: Option<&ActorId>, limit: usize) -> Result<Vec<ActorId>> {
        let range = layout::all_known(after.map(EncodedId::new).as_ref());
        let entries = self.read()?.scan(range, Order::Ascending)?.take(limit);
        entries
            .map(|entry| {
                let (key, record) = entry?;
                let id = layout::parse_known(&key)?;
                match record::check_known(&id, &record) {
                    // It is there, whatever a later program says of it.
                    Err(error) if error.kind() != ErrorKind::UnknownVersion => Err(error),
                    _ => Ok(id),
                }
            })
            .collect()
    }

    /// Commits changes of an actor, all or none. When this returns they are durable by the partition's level, and seen by
    /// all who read. At level none that is so at once, without waiting.
    ///
    /// To be correct: no other commit of the same actor is in flight. See [the indexes](ActorStore).
    ///
    /// If the future is dropped before the outcome is known, this is [closed](ActorStore::closed) at once, because what
    /// others read from then on may be what the commit is about to replace. It cannot be opened again before the commit has
    /// ended.
    ///
    /// # Errors
    /// `NotPrimary`, `Overloaded`, `TooLarge`, `Corrupt`, `UnknownVersion`: nothing was changed. `OutcomeUnknown`: it may or
    /// may not have happened, and the partition has to be opened again.
    pub async fn commit(&self, writes: &ActorWrites) -> Result<SequenceNumber> {
        let Inner { partition, session, .. } = &*self.inner;
        let _underway = session.begin_commit().ok_or_else(|| PartitionSession::refusal(partition))?;
        // It may take several steps, and may be given up between them as well.
        let unfinished = Unfinished::new(session);
        let outcome = self.commit_counted(writes).await;
        unfinished.disarm();
        outcome
    }

    async fn commit_counted(&self, writes: &ActorWrites) -> Result<SequenceNumber> {
        writes.id().check()?;
        if writes.is_deleted() {
            return Box::pin(self.commit_deletion(writes)).await;
        }
        let mut batch = self.batch_of_epoch();
        self.add_entries(&mut batch, writes)?;
        debug_assert!(batch.bytes() <= writes.bytes_at_most(), "{batch:?} of {writes:?}");
        self.send(batch).await
    }

    /// A batch that is refused in any other epoch.
    pub(super) fn batch_of_epoch(&self) -> Batch {
        let mut batch = self.inner.partition.batch();
        batch.in_epoch(self.inner.epoch);
        batch
    }

    /// Closes this if nobody knows what became of a commit, as [`commit`](Self::commit) does by itself: for who has an error
    /// in its place.
    pub fn end_if_unknown(&self, error: &Error) {
        self.inner.session.end_if_unknown(error);
    }

    /// Commits a batch. If nobody knows what became of it, this is closed.
    pub(super) async fn send(&self, batch: Batch) -> Result<SequenceNumber> {
        let Inner { partition, session, home, .. } = &*self.inner;
        if partition.level() == Level::None {
            // It happens at once, and so nobody can give it up on its way.
            return partition.commit(batch).await.inspect_err(|error| session.end_if_unknown(error));
        }
        // Counted by itself, because it goes on where nobody waits for it any more.
        let underway = session.begin_commit().ok_or_else(|| PartitionSession::refusal(partition))?;
        let committed = partition.clone();
        let outcome = Box::pin(async move { committed.commit(batch).await });
        Committing { home, session, on_its_way: Some(OnItsWay { outcome, _underway: underway }) }.await
    }

    /// Adds to a batch what is set and removed by name, after what a deletion removes.
    pub(super) fn add_entries(&self, batch: &mut Batch, writes: &ActorWrites) -> Result<()> {
        let id = writes.id();
        let encoded = EncodedId::new(id);
        if writes.is_known() == Some(true) {
            record::put_known(batch, &encoded.known());
        }
        for entry in writes.entries() {
            let (kind, name) = (entry.change.kind(), entry.name.as_bytes());
            let key = encoded.entry(kind, name);
            let time = entry.change.time();
            // The places of an actor that is deleted are gone already, or go behind this.
            let mut has_place = false;
            if kind.is_timely()
                && !writes.is_deleted()
                && let Some(replaced) = self.get(&key)?
            {
                let replaced = Owner { kind, id, name: entry.name.as_str() }.time(&replaced)?;
                has_place = kind == Kind::Lane && replaced == time;
                if replaced != time
                    && let Some(place) = replaced.and_then(|at| encoded.place(kind, at, name))
                {
                    batch.delete(&place);
                }
            }
            match &entry.change {
                Change::State(Some(value)) => record::put_state(batch, &key, value),
                Change::Reminder(Some(reminder)) => record::put_reminder(batch, &key, reminder),
                Change::Answer(Some(answer)) => record::put_answer(batch, &key, answer),
                Change::Lane(Some(answer)) => record::put_lane(batch, &key, answer),
                Change::Event(count) => {
                    let stored = if writes.is_deleted() { None } else { self.published(id, entry.name.as_str())? };
                    let before = stored.unwrap_or_else(|| Published { life: random::rng().next_u64(), count: 0 });
                    let count = before.count.saturating_add(*count);
                    record::put_published(batch, &key, Published { count, ..before });
                }
                Change::State(None) | Change::Reminder(None) | Change::Answer(None) | Change::Lane(None) => {
                    _ = batch.delete(&key);
                }
            }
            // An answer in a lane mostly takes the place of the one before, whose time is the same.
            if !has_place && let Some(place) = time.and_then(|at| encoded.place(kind, at, name)) {
                batch.put(&place, &[]);
            }
        }
        Ok(())
    }

    /// Visits the entries of an actor, in the order of their names.
    fn each_of(&self, id: &ActorId, kind: Kind, visit: impl FnMut(&str, Bytes) -> Result<()>) -> Result<()> {
        self.each_starting(id, kind, "", visit)
    }

    /// Visits the entries of an actor whose names start with a text, in the order of their names.
    fn each_starting(
        &self,
        id: &ActorId,
        kind: Kind,
        start: &str,
        mut visit: impl FnMut(&str, Bytes) -> Result<()>,
    ) -> Result<()> {
        let encoded = EncodedId::new(id);
        let (all, some) = (encoded.entries(kind), encoded.entry(kind, start.as_bytes()));
        for entry in self.read()?.scan(layout::range(&some, None), Order::Ascending)? {
            let (key, record) = entry?;
            visit(layout::parse_name(kind, id, &all, &key)?, record)?;
        }
        Ok(())
    }

    /// The earliest time in an index by time.
    fn earliest(&self, kind: Kind) -> Result<Option<WallTime>> {
        let mut earliest = None;
        self.each_timely(kind, WallTime::MAX, None, 1, |owner, record| {
            earliest = owner.time(record)?;
            Ok(())
        })?;
        Ok(earliest)
    }

    /// Visits the entries of an index by time up to a moment, in its order. Places without an entry of that time are
    /// passed over.
    fn each_timely(
        &self,
        kind: Kind,
        until: WallTime,
        after: Option<(WallTime, &ActorId, &str)>,
        limit: usize,
        mut visit: impl FnMut(Owner<'_>, &Bytes) -> Result<()>,
    ) -> Result<()> {
        let after = after.and_then(|(at, id, name)| EncodedId::new(id).place(kind, at, name.as_bytes()));
        let Some(range) = layout::places(kind, until, after.as_deref()) else { return Ok(()) };
        let snapshot = self.read()?;
        let mut left = limit;
        let mut places = snapshot.scan(range, Order::Ascending)?;
        while left > 0
            && let Some(place) = places.next()
        {
            let (place, _) = place?;
            let place = layout::parse_place(kind, &place)?;
            let owner = Owner { kind, id: &place.id, name: place.name };
            let Some(record) = snapshot.get(&place.entry)? else { continue };
            let visited = owner.time(&record).and_then(|at| match at == Some(place.at) {
                true => visit(owner, &record).map(|()| true),
                false => Ok(false),
            });
            match visited {
                Ok(true) => left -= 1,
                Ok(false) => {}
                // It stays for the program that can read it, and is in nobody's way.
                Err(error) if error.kind() == ErrorKind::UnknownVersion => self.pass_over(&error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells that a record of a later program is passed over: once, because it is looked at again and again.
    fn pass_over(&self, error: &Error) {
        if !self.inner.told_of_unknown.swap(true, Ordering::Relaxed) {
            let partition = self.inner.partition.id();
            tracing::warn!(%partition, %error, "a record is passed over, and so are others of its kind that are not told of");
        }
    }

    /// The state as of now.
    pub(super) fn read(&self) -> Result<Snapshot> {
        let snapshot = self.inner.partition.read()?;
        self.check()?;
        Ok(snapshot)
    }

    /// What is committed under a key.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.inner.partition.get(key)?;
        self.check()?;
        Ok(value)
    }

    /// Whether this is still the primary, and was so without a break since this was opened.
    fn check(&self) -> Result<()> {
        let Inner { partition, epoch, session, .. } = &*self.inner;
        if partition.check()? == *epoch {
            return if session.is_over() { Err(PartitionSession::refusal(partition)) } else { Ok(()) };
        }
        Err(Error::new(
            ErrorKind::NotPrimary { hint: partition.role_state().primary },
            format!("partition {} has had another primary since its actors were opened: open it again", partition.id()),
        ))
    }
}
